"""The standard Attention over a cache that TensorScatter writes, as static-cache exports build it."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import ABSENT, Node
from vramscope.plan.rewrites.types import given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.edit import ProgramEdit
    from vramscope.graph.expr import Shape
    from vramscope.graph.model import Program, Step

OPSET = 24
"""The first with TensorScatter and with Attention's valid lengths."""

KEYS, PASTS, PRESENTS = (1, 2), (4, 5), (1, 2)
"""Where Attention has key and value: new rows, past, present."""


def scattered_refusal(program: Program, step: Step) -> str:
    """Why an Attention with past cannot read a scattered cache instead; empty where it can."""
    if given(step, 3):
        return "Attention takes valid lengths instead of a mask there, and this one has a mask of its own"
    if len(step.outputs) > 3 and step.outputs[3] != ABSENT:
        return "its scores are an output, as wide as the keys that there are"
    if not all(given(step, place) for place in (0, *KEYS, *PASTS)) or len(step.outputs) <= PRESENTS[1]:
        return "it lacks a past or a present"
    shapes = [program.values[step.inputs[place]].shape for place in (*KEYS, *PASTS)]
    if any(shape is None or len(shape) not in (3, 4) for shape in shapes):
        return "the rank of its keys and values is not known"
    return ""


def scattered(edit: ProgramEdit, steps: Sequence[Step]) -> None:
    """Rewrites attentions that :func:`scattered_refusal` lets pass."""
    if not steps:
        return
    past = edit.values[steps[0].inputs[PASTS[0]]].shape
    batch = (past or (1,))[:1]
    places = edit.feed("write_indices", ElementType.INT64, batch)
    lengths = edit.feed("nonpad_kv_seqlen", ElementType.INT64, batch)
    for step in steps:
        for new, old, present in zip(KEYS, PASTS, PRESENTS, strict=True):
            _scatter(edit, step, (step.inputs[old], step.inputs[new], places), step.outputs[present])
        node = replace(step.node, opset=max(step.node.opset, OPSET))
        caches = (step.outputs[PRESENTS[0]], step.outputs[PRESENTS[1]])
        edit.change(step, node, (step.inputs[0], *caches, ABSENT, ABSENT, ABSENT, lengths), step.outputs[:1])


def _scatter(edit: ProgramEdit, step: Step, inputs: tuple[int, int, int], present: int) -> None:
    past, new, _ = inputs
    shape = _cache_shape(edit.values[past].shape or (), edit.values[new].shape or ())
    for value in (past, present):
        edit.reshape(value, edit.values[value].dtype, shape)
    attributes = MappingProxyType({"axis": len(shape) - 2})
    name = f"{step.node.name}/{edit.values[present].name}/TensorScatter"
    node = Node(name, "TensorScatter", "", OPSET, attributes, step.node.scope)
    edit.insert(step, node, inputs, (present,))


def _cache_shape(past: Shape, new: Shape) -> Shape:
    """[B, heads, positions, D] as it was, or [B, positions, heads × D] where new rows have rank 3."""
    return past if len(new) == 4 else (past[0], past[2], new[2])

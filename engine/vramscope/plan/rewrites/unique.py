"""Equal weights stored once: whatever reads one of several equal tensors reads the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.edit import ProgramEdit
from vramscope.plan.index import body_captures
from vramscope.plan.rewrites.types import Impossible, Rewritten, rebuilt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Model, Program


def unique_weights(model: Model) -> Rewritten | Impossible:
    """``model`` with one tensor for each content; only weights inside the model file are known by content."""
    program = model.program
    twins = _twins(program)
    if not twins:
        return Impossible("no two weights are known to be equal; those beside the model file are not read")
    edit = ProgramEdit(program)
    for step in program.steps:
        if not twins.keys().isdisjoint(step.inputs):
            edit.change(step, step.node, [twins.get(value, value) for value in step.inputs])
    return rebuilt(model, edit.finish())


def _twins(program: Program) -> Mapping[int, int]:
    """Each weight that an earlier one equals in type, shape and bytes, and that one."""
    kept = {*program.outputs, *(value for step in program.steps for value in body_captures(step))}
    first: dict[object, int] = {}
    found: dict[int, int] = {}
    for value, source in sorted(program.weights.items()):
        if not source.digest or value in kept:
            continue
        twin = first.setdefault((source.dtype, source.shape, source.digest), value)
        if program.weights[twin].identity != source.identity:
            found[value] = twin
    return found

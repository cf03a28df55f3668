"""MultiHeadAttention as GroupQueryAttention with as many key heads as query heads: it writes in place.

GroupQueryAttention is causal and takes valid lengths instead of a mask, so this holds for attention that is
causal and that a bias out of the attention mask alone restricts.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import ABSENT, Feed, Node
from vramscope.plan.rewrites.types import given

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vramscope.graph.edit import ProgramEdit
    from vramscope.graph.expr import Shape
    from vramscope.graph.links import Links
    from vramscope.graph.model import Array, AttributeValue, DecoderContract, Model, Program, Step

BIAS, PADDING, SCORES_BIAS, PASTS, LENGTHS = 3, 4, 5, (6, 7), (8, 9)
"""Where MultiHeadAttention has what beside query, key and value."""

KEPT = ("num_heads", "scale")
LARGEST_SCALAR = 1
"""Elements of a weight that may be part of a mask; a table of slopes has more."""

INT32 = int(ElementType.INT32)


def grouped_refusal(model: Model, links: Links, step: Step) -> str:
    """Why a MultiHeadAttention is not the same as a GroupQueryAttention; empty where it is."""
    why = _form_refusal(model.program, step)
    if why:
        return why
    if _mask(model) is None:
        return "there is no attention mask to count the valid positions of"
    if not given(step, SCORES_BIAS):
        return "" if step.node.integer("unidirectional", 0) else "it is not causal"
    return _bias_refusal(model, links, step.inputs[SCORES_BIAS])


def _form_refusal(program: Program, step: Step) -> str:
    """What of a node's inputs and outputs GroupQueryAttention does not have; empty where it has all."""
    if not all(given(step, place) for place in (0, 1, 2, *PASTS)) or len(step.outputs) < 3:
        return "it lacks a query, key, value, past or present"
    query, *others = (program.values[value].shape for value in step.inputs[:3])
    if query is None or len(query) != 3 or any(shape != query for shape in others):
        return "its query, key and value are not all [batch, positions, heads × size], equally wide"
    if any(given(step, place) for place in (BIAS, PADDING, *LENGTHS)):
        return "it has a bias, a padding mask or lengths of its own, which GroupQueryAttention lacks"
    return "its scores are an output" if len(step.outputs) > 3 and step.outputs[3] != ABSENT else ""


def _mask(model: Model) -> int | None:
    contract, program = model.contract, model.program
    feeds = contract.feeds if contract is not None else {}
    masks = (item for item in program.inputs if feeds.get(program.values[item].name) is Feed.MASK)
    return next((item for item in masks if len(program.values[item].shape or ()) == 2), None)


def _bias_refusal(model: Model, links: Links, bias: int) -> str:
    """Why an attention bias is more than the attention mask; empty where it is made of that alone."""
    program, seen, front = model.program, {bias}, [bias]
    while front:
        value = front.pop()
        source = program.weights.get(value)
        if source is not None and int(np.prod(source.shape)) > LARGEST_SCALAR and not _is_index(source.dtype):
            return f"its bias is made of {program.values[value].name!r} as well, not of the mask alone"
        step = links.makers.get(value)
        for item in () if step is None else step.inputs:
            if item != ABSENT and item not in seen:
                seen.add(item)
                front.append(item)
    return "" if _mask(model) in seen else "its bias does not come from the attention mask"


def _is_index(dtype: ElementType) -> bool:
    return dtype in (ElementType.INT64, ElementType.INT32, ElementType.BOOL)


def grouped(edit: ProgramEdit, contract: DecoderContract, steps: Sequence[Step]) -> None:
    """Rewrites attentions that :func:`grouped_refusal` lets pass."""
    if not steps:
        return
    program = edit.program
    masks = [item for item in program.inputs if contract.feeds.get(program.values[item].name) is Feed.MASK]
    lengths = _lengths(edit, steps[0], masks[0])
    for step in steps:
        for place, past in enumerate(PASTS):
            shape = edit.values[step.inputs[past]].shape
            edit.reshape(step.outputs[place + 1], edit.values[step.outputs[place + 1]].dtype, shape)
        edit.change(
            step, _node(program, step), (*step.inputs[:3], *(step.inputs[item] for item in PASTS), *lengths)
        )


def _node(program: Program, step: Step) -> Node:
    attributes = {name: value for name, value in step.node.attributes.items() if name in KEPT}
    attributes["kv_num_heads"] = step.node.integer("num_heads", 0)
    node = step.node
    return Node(
        node.name, "GroupQueryAttention", "com.microsoft", 1, MappingProxyType(attributes), node.scope
    )


def _lengths(edit: ProgramEdit, step: Step, mask: int) -> tuple[int, int]:
    """Valid positions of each sequence less one, and the mask's width: int32, as the attention wants them."""
    maker = _Maker(edit, step)
    batch = (edit.values[mask].shape or (1,))[:1]
    one = edit.constant("/attention/one", np.array([1], np.int64))
    total = maker.make("ReduceSum", (mask, one), ElementType.INT64, batch, keepdims=0)
    less = maker.make("Sub", (total, one), ElementType.INT64, batch)
    valid = maker.make("Cast", (less,), ElementType.INT32, batch, to=INT32)
    shape = maker.make("Shape", (mask,), ElementType.INT64, (2,))
    width = maker.make("Gather", (shape, maker.scalar(1)), ElementType.INT64, (), axis=0)
    return valid, maker.make("Cast", (width,), ElementType.INT32, (), to=INT32)


class _Maker:
    """Inserts small steps in front of one."""

    def __init__(self, edit: ProgramEdit, step: Step) -> None:
        self._edit, self._step = edit, step
        self._opset = max(
            (item.node.opset for item in edit.program.steps if not item.node.domain), default=13
        )

    def scalar(self, number: int) -> int:
        array: Array = np.array(number, np.int64)
        return self._edit.constant(f"/attention/{number}", array)

    def make(
        self,
        operator: str,
        inputs: Iterable[int],
        dtype: ElementType,
        shape: Shape,
        **attributes: AttributeValue,
    ) -> int:
        name = f"/attention/{operator}"
        value = self._edit.activation(f"{name}/output", dtype, shape)
        node = Node(name, operator, "", self._opset, MappingProxyType(attributes), self._step.node.scope)
        self._edit.insert(self._step, node, inputs, (value,))
        return value

"""The last position's logits alone: the head sees one row a sequence, as exporters that prune it build it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.edit import ProgramEdit
from vramscope.graph.links import link
from vramscope.graph.model import ABSENT, Feed, Node
from vramscope.plan.rewrites.types import Impossible, Rewritten, given, rebuilt

if TYPE_CHECKING:
    from vramscope.graph.expr import Dim, Shape
    from vramscope.graph.links import Links
    from vramscope.graph.model import Model, Program, Step, Value

HEADS = frozenset(
    {
        ("", "MatMul"),
        ("com.microsoft", "MatMulNBits"),
        ("com.microsoft", "FusedMatMul"),
        ("com.microsoft", "FusedMatMulBias"),
        ("pkg.nxrt", "BlockQuantizedMatMul"),
    }
)
"""Products that multiply each row of their first input with the same matrix."""

ROW_BY_ROW = frozenset({"Cast", "Identity", "Mul", "Div", "Add", "Sub", "Tanh", "Clip", "Min", "Max"})
"""What may stand between the head and the logits: each element of a row follows from that row."""

FIRST_AXES_INPUT = 13
"""The opset from which Unsqueeze takes its axes as an input."""


@dataclass(frozen=True, slots=True)
class _Tail:
    """The head's product and everything it leads to."""

    head: Step
    values: tuple[int, ...]
    """The head's result first, the logits last."""


def last_logits(model: Model) -> Rewritten | Impossible:
    """``model`` with a Gather of the last row and an Unsqueeze in front of the head."""
    contract, program = model.contract, model.program
    if contract is None:
        return Impossible("it is no decoder")
    counts = [name for name, feed in contract.feeds.items() if feed is Feed.LOGITS_TO_KEEP]
    if counts:
        return Impossible(f"its input {counts[0]!r} says already of how many positions logits are wanted")
    logits = program.value_named(contract.logits)
    tail = _tail(program, logits)
    return tail if isinstance(tail, Impossible) else _pruned(model, tail)


def _tail(program: Program, logits: Value | None) -> _Tail | Impossible:
    if logits is None or logits.shape is None or len(logits.shape) != 3:
        return Impossible("its logits have no axis of positions beside one of sequences")
    positions = logits.shape[1]
    if positions == 1:
        return Impossible("it gives the last position's logits alone already")
    links = link(program)
    values = [logits.id]
    while True:
        step = links.makers.get(values[-1])
        if step is None:
            return Impossible(f"no node makes {program.values[values[-1]].name!r}")
        if (step.node.domain, step.node.operator) in HEADS and given(step, 0):
            break
        source = _row_source(program, step, positions)
        if isinstance(source, Impossible):
            return source
        values.append(source)
    return _checked(program, links, step, tuple(reversed(values)), positions)


def _row_source(program: Program, step: Step, positions: Dim) -> int | Impossible:
    """The one input of a row-by-row step that has the axis of positions."""
    node = step.node
    if node.domain or node.operator not in ROW_BY_ROW:
        why = "is not known to treat each position alone"
        return Impossible(f"{node.operator} between the head and the logits {why}", node.name)
    wide = [value for value in step.inputs if value != ABSENT and not _one_row(program.values[value].shape)]
    found = [value for value in wide if _positions(program, value) == positions]
    if len(wide) != 1 or not found:
        why = "takes more than one input that depends on the position"
        return Impossible(f"{node.operator} between the head and the logits {why}", node.name)
    return found[0]


def _one_row(shape: Shape | None) -> bool:
    """Whether a value is the same for every position."""
    return shape is not None and (len(shape) < 2 or shape[-2] == 1)


def _positions(program: Program, value: int) -> Dim | None:
    shape = program.values[value].shape
    return shape[1] if shape is not None and len(shape) == 3 else None


def _checked(
    program: Program, links: Links, head: Step, values: tuple[int, ...], positions: Dim
) -> _Tail | Impossible:
    shapes = [program.values[value].shape for value in head.inputs[1:] if value != ABSENT]
    mixed = any(shape is None or positions in shape for shape in shapes)
    if mixed or _positions(program, head.inputs[0]) != positions:
        return Impossible("the head is not known to multiply each position's row alone", head.node.name)
    for value in values:
        others = len(links.read_by(value)) + program.outputs.count(value) - 1
        if others:
            name = program.values[value].name
            return Impossible(f"{name!r} is read beside the logits, for every position", head.node.name)
    return _Tail(head, values)


def _pruned(model: Model, tail: _Tail) -> Rewritten | Impossible:
    program, head = model.program, tail.head
    edit = ProgramEdit(program)
    hidden = program.values[head.inputs[0]]
    assert hidden.shape is not None
    batch, _, width = hidden.shape
    opset = model.opsets.get("", 1)
    last = edit.constant("/lm_head/prune/last", np.array(-1, np.int64))
    row = edit.activation(f"{hidden.name}/last", hidden.dtype, (batch, width))
    rows = edit.activation(f"{hidden.name}/last row", hidden.dtype, (batch, 1, width))
    gather = Node(
        "/lm_head/prune/Gather", "Gather", "", opset, MappingProxyType({"axis": 1}), head.node.scope
    )
    edit.insert(head, gather, (hidden.id, last), (row,))
    _unsqueeze(edit, head, opset, row, rows)
    edit.change(head, head.node, (rows, *head.inputs[1:]))
    for value in tail.values:
        item = program.values[value]
        assert item.shape is not None
        edit.reshape(value, item.dtype, (item.shape[0], 1, item.shape[2]))
    return rebuilt(model, edit.finish())


def _unsqueeze(edit: ProgramEdit, head: Step, opset: int, row: int, rows: int) -> None:
    by_input = opset >= FIRST_AXES_INPUT
    attributes = MappingProxyType({} if by_input else {"axes": (1,)})
    axes = (edit.constant("/lm_head/prune/axes", np.array([1], np.int64)),) if by_input else ()
    node = Node("/lm_head/prune/Unsqueeze", "Unsqueeze", "", opset, attributes, head.node.scope)
    edit.insert(head, node, (row, *axes), (rows,))

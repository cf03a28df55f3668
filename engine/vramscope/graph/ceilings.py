"""Ceilings of extents that only the data decides: NonZero, Compress, NonMaxSuppression and the like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.graph import algebra
from vramscope.graph.walk import bodies_of, domain_of, input_of, integer_attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import onnx_ir as ir

    from vramscope.graph.expr import Dim, Shape
    from vramscope.graph.symbols import SymbolTable


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The greatest extent an axis can have (None: nothing proves one) and the reason in words."""

    dim: Dim | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Question:
    node: ir.Node
    output: int
    axis: int
    table: SymbolTable
    elements: Callable[[ir.Value], list[int | ir.SymbolicDim] | None]

    def shape(self, index: int) -> Shape | None:
        return shape_of(input_of(self.node, index), self.table)

    def scalar(self, index: int) -> Dim | None:
        value = input_of(self.node, index)
        found = None if value is None else self.elements(value)
        return self.table.read(found[0]) if found is not None and len(found) == 1 else None


def shape_of(value: ir.Value | None, table: SymbolTable) -> Shape | None:
    """The shape of a value as expressions; None where one of its extents is unknown."""
    if value is None or value.shape is None:
        return None
    dims = [table.read(dim) for dim in value.shape]
    known = [dim for dim in dims if dim is not None]
    return tuple(known) if len(known) == len(dims) else None


def ceiling(
    node: ir.Node,
    output: int,
    axis: int,
    table: SymbolTable,
    elements: Callable[[ir.Value], list[int | ir.SymbolicDim] | None],
) -> Ceiling:
    """What bounds axis ``axis`` of output ``output`` of ``node``.

    Args:
        node: the node whose data decides the extent.
        output: which output.
        axis: which axis of it.
        table: reads dimensions.
        elements: known elements of a small integer tensor, or None.
    """
    rule = _RULES.get(node.op_type) if domain_of(node) == "" else None
    found = None if rule is None else rule(_Question(node, output, axis, table, elements))
    if found is not None:
        return found
    return Ceiling(None, data_dependent(node))


def data_dependent(node: ir.Node) -> str:
    """Why nothing is known about an extent of ``node``'s output."""
    for value in node.inputs:
        if value is not None and value.shape is None:
            return f"the shape of {value.name!r}, which {node.op_type} reads, is not known"
    return f"{node.op_type} takes this extent from data that is not known before it runs"


def _non_zero(question: _Question) -> Ceiling | None:
    shape = question.shape(0)
    return None if shape is None else Ceiling(algebra.product(shape), "no more hits than input elements")


def _selected(question: _Question) -> Ceiling | None:
    shape = question.shape(0)
    if shape is None:
        return None
    if "axis" not in question.node.attributes:
        return Ceiling(algebra.product(shape), "no more than the elements of its input")
    axis = integer_attribute(question.node, "axis", 0)
    return (
        Ceiling(shape[axis], f"no more than axis {axis} of its input")
        if -len(shape) <= axis < len(shape)
        else None
    )


def _same_axis(question: _Question) -> Ceiling | None:
    shape = question.shape(0)
    if shape is None or question.axis >= len(shape):
        return None
    return Ceiling(shape[question.axis], "no more than the same axis of its input")


def _reduced(question: _Question) -> Ceiling | None:
    """A reduced axis has extent 1, any other its own; without keepdims the axes left are not known."""
    shape = question.shape(0)
    if shape is None:
        return None
    if integer_attribute(question.node, "keepdims", 1):
        return Ceiling(algebra.maximum(shape[question.axis], 1), "1, or the same axis of its input")
    return Ceiling(algebra.maximum(*shape, 1), "the largest axis of its input")


def _suppressed(question: _Question) -> Ceiling | None:
    """Selected ≤ batch·classes·min(boxes, max_output_boxes_per_class)."""
    scores = question.shape(1)
    if scores is None or len(scores) != 3:
        return None
    most = question.scalar(2)
    boxes = scores[2] if most is None else algebra.minimum(scores[2], most)
    return Ceiling(algebra.multiply(scores[0], scores[1], boxes), "batch · classes · boxes kept of each")


def _reshaped(question: _Question) -> Ceiling | None:
    """All elements on one axis; an empty tensor takes no bytes, but its other extents can be anything."""
    shape = question.shape(0)
    if shape is None or (elements := algebra.product(shape)) == 0:
        return None
    return Ceiling(elements, "no more than all its input elements")


def _branches(question: _Question) -> Ceiling | None:
    extents: list[Dim] = []
    for _, body in bodies_of(question.node):
        shape = shape_of(body.outputs[question.output], question.table)
        if shape is None or question.axis >= len(shape):
            return None
        extents.append(shape[question.axis])
    return Ceiling(algebra.maximum(*extents), "the larger of the branches") if extents else None


def _trips(question: _Question) -> Ceiling | None:
    most = question.scalar(0)
    return None if most is None else Ceiling(most, "one slice for each trip of the loop")


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

_RULES: Mapping[str, Callable[[_Question], Ceiling | None]] = {
    "NonZero": _non_zero,
    "Unique": _selected,
    "Compress": _selected,
    "TopK": _same_axis,
    "Slice": _same_axis,
    "Split": _same_axis,
    "SplitToSequence": _same_axis,
    "NonMaxSuppression": _suppressed,
    "Reshape": _reshaped,
    "Squeeze": _reshaped,
    "Unsqueeze": _reshaped,
    **{f"Reduce{name}": _reduced for name in _REDUCTIONS},
    "If": _branches,
    "Loop": _trips,
}

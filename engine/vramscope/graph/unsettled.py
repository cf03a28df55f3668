"""Shapes of operators whose axes, sizes or repeats are data: the rank where it is known, a symbol per extent.

The inference library either gives up on these or takes defaults for what it cannot see, which would claim
extents that are wrong. Where the deciding input is known, its own rule applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir
from onnx_shape_inference import registry

from vramscope.graph.slicing import infer_slice
from vramscope.graph.walk import input_of, integer_attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx_shape_inference import ShapeInferenceContext

Rule: TypeAlias = "Callable[[ShapeInferenceContext, ir.Node], None]"
Fallback: TypeAlias = "Callable[[ShapeInferenceContext, ir.Node, ir.Shape], None]"


def by_library(context: ShapeInferenceContext, node: ir.Node) -> None:
    """The rule of the inference library for the model's operator set, where it has one."""
    rule = registry.get("", node.op_type, version=context.get_opset_version(""))
    if rule is not None:
        rule(context, node)


def _when_unknown(index: int, fallback: Fallback) -> Rule:
    """The library's rule, unless input ``index`` is given and its elements are not known."""

    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        deciding = input_of(node, index)
        data = input_of(node, 0)
        if deciding is None or context.get_symbolic_value(deciding) is not None:
            by_library(context, node)
            return
        for output in node.outputs:
            if data is not None and data.dtype is not None:
                output.dtype = data.dtype
        if data is not None and data.shape is not None:
            fallback(context, node, data.shape)

    return infer


def _fresh(context: ShapeInferenceContext, count: int) -> ir.Shape:
    return ir.Shape([context.new_symbolic_dim() for _ in range(count)])


def _count(node: ir.Node, index: int) -> int | None:
    """Elements of the one-dimensional input ``index``, where its shape says so."""
    value = input_of(node, index)
    if value is None or value.shape is None or len(value.shape) != 1:
        return None
    length = value.shape[0]
    return length if isinstance(length, int) else None


def _split(context: ShapeInferenceContext, node: ir.Node, shape: ir.Shape) -> None:
    axis = integer_attribute(node, "axis", 0) % max(len(shape), 1)
    for output in node.outputs:
        dims = list(shape)
        dims[axis] = context.new_symbolic_dim()
        output.shape = ir.Shape(dims)


def _squeeze(context: ShapeInferenceContext, node: ir.Node, shape: ir.Shape) -> None:
    count = _count(node, 1)
    if count is not None and count <= len(shape):
        node.outputs[0].shape = _fresh(context, len(shape) - count)


def _unsqueeze(context: ShapeInferenceContext, node: ir.Node, shape: ir.Shape) -> None:
    count = _count(node, 1)
    if count is not None:
        node.outputs[0].shape = _fresh(context, len(shape) + count)


def _reduce(context: ShapeInferenceContext, node: ir.Node, shape: ir.Shape) -> None:
    count = _count(node, 1)
    if integer_attribute(node, "keepdims", 1):
        node.outputs[0].shape = _fresh(context, len(shape))
    elif count and count <= len(shape):
        node.outputs[0].shape = _fresh(context, len(shape) - count)


def _tile(context: ShapeInferenceContext, node: ir.Node, shape: ir.Shape) -> None:
    node.outputs[0].shape = _fresh(context, len(shape))


def _unique(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Along an axis the other extents stay; without one the input is flattened (the library's rule)."""
    data = input_of(node, 0)
    if "axis" not in node.attributes or data is None or data.shape is None:
        by_library(context, node)
        return
    dims = list(data.shape)
    axis = integer_attribute(node, "axis", 0) % max(len(dims), 1)
    whole = dims[axis]
    dims[axis] = kept = context.new_symbolic_dim()
    shapes = (ir.Shape(dims), ir.Shape([kept]), ir.Shape([whole]), ir.Shape([kept]))
    for index, (output, shape) in enumerate(zip(node.outputs, shapes, strict=False)):
        context.set_shape_and_dtype(output, shape, ir.DataType.INT64 if index else data.dtype)


def _shaped_by(index: int) -> Rule:
    """The library's rule; where it gives up, as many axes as input ``index`` has elements."""

    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        by_library(context, node)
        count = _count(node, index)
        if count is None or node.outputs[0].shape is not None:
            return
        data = input_of(node, 0)
        rank = len(data.shape) if index > 0 and data is not None and data.shape is not None else 0
        node.outputs[0].shape = _fresh(context, max(count, rank))

    return infer


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

UNSETTLED_RULES: Mapping[tuple[str, str], Rule] = {
    ("", "Split"): _when_unknown(1, _split),
    ("", "Slice"): infer_slice,
    ("", "Squeeze"): _when_unknown(1, _squeeze),
    ("", "Unsqueeze"): _when_unknown(1, _unsqueeze),
    ("", "Tile"): _when_unknown(1, _tile),
    ("", "Unique"): _unique,
    ("", "ConstantOfShape"): _shaped_by(0),
    ("", "Expand"): _shaped_by(1),
    **{("", f"Reduce{name}"): _when_unknown(1, _reduce) for name in _REDUCTIONS},
}
"""Rules by (domain, operator), asked before the library's."""

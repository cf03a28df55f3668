"""The shape of a Slice whose bounds are shape arithmetic: extents as expressions, other axes as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir
from onnx_shape_inference import registry

from vramscope.graph.walk import input_of

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

Extent: TypeAlias = "int | ir.SymbolicDim"

_LENGTH_LIMIT = 64
"""Shape arithmetic works on ranks: anything longer is data."""

_FAR = 2**31 - 1
"""An end of at least this means the end of the axis."""


def infer_slice(context: ShapeInferenceContext, node: ir.Node) -> None:
    """The library's rule where every start is a number ≥ 0 or the data's elements are known.

    Else each sliced axis by itself.

    A bound that is an expression (a difference of two extents) counts from the front: a caller who wants to
    count from the back writes a negative number.
    """
    data, starts = input_of(node, 0), _elements(context, node, 1)
    followed = _plain(starts) or _elements(context, node, 0) is not None
    if data is None or data.shape is None or followed or "starts" in node.attributes:
        _library(context, node)
        return
    axes = _numbers(context, node, 3)
    if axes is None and input_of(node, 3) is None:
        axes = list(range(len(starts or data.shape)))
    if axes is None or any(not -len(data.shape) <= axis < len(data.shape) for axis in axes):
        _library(context, node)
        return
    nothing: list[Extent | None] = [None] * len(axes)
    ends = _elements(context, node, 2) or nothing
    steps = _numbers(context, node, 4) or [1 if input_of(node, 4) is None else 0] * len(axes)
    dims = list(data.shape)
    for start, end, axis, step in zip(starts or nothing, ends, axes, steps, strict=False):
        found = _extent(start, end, dims[axis]) if step == 1 else None
        dims[axis] = context.new_symbolic_dim() if found is None else found
    context.set_shape_and_dtype(node.outputs[0], ir.Shape(dims), data.dtype)


def _library(context: ShapeInferenceContext, node: ir.Node) -> None:
    rule = registry.get("", "Slice", version=context.get_opset_version(""))
    if rule is not None:
        rule(context, node)


def _plain(starts: list[Extent] | None) -> bool:
    return starts is not None and all(isinstance(item, int) and item >= 0 for item in starts)


def _elements(context: ShapeInferenceContext, node: ir.Node, index: int) -> list[Extent] | None:
    value = input_of(node, index)
    if value is None:
        return None
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is not None and tensor.size > _LENGTH_LIMIT:
        return None
    if tensor is not None:
        return [int(item) for item in tensor.numpy().reshape(-1)]
    known = context.get_symbolic_value(value)
    return None if known is None else list(known)


def _numbers(context: ShapeInferenceContext, node: ir.Node, index: int) -> list[int] | None:
    elements = _elements(context, node, index)
    numbers = [item for item in elements or [] if isinstance(item, int)]
    return numbers if elements is not None and len(numbers) == len(elements) else None


def _extent(start: Extent | None, end: Extent | None, extent: Extent) -> Extent | None:
    """Elements from ``start`` to ``end`` of an axis, with step 1; None where a bound is not known."""
    if start is None or end is None:
        return None
    to_the_end = isinstance(end, int) and end >= _FAR
    if isinstance(start, int) and start < 0:
        return _least(-start, extent) if to_the_end else None
    if isinstance(end, int) and end < 0:
        return _not_negative(extent + end - start)
    last = extent if to_the_end else _least(end, extent)
    return _not_negative(last - start)


def _least(left: Extent, right: Extent) -> Extent:
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    return left if left == right else ir.SymbolicDim(f"Min({left}, {right})")


def _not_negative(extent: Extent) -> Extent:
    """``extent``, or 0 where it is less; a symbol alone is never less."""
    if isinstance(extent, int):
        return max(extent, 0)
    return extent if str(extent.value or "-").isidentifier() else ir.SymbolicDim(f"Max(0, {extent})")

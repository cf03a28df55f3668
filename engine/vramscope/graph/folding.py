"""Small integer tensors of any rank, computed where every input is known: pads, axes and split sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from vramscope.graph.walk import domain_of, integer_attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope.graph.model import Array

_ELEMENTS_LIMIT = 1_024


def fold_small(node: ir.Node) -> None:
    """Give the first output of ``node`` its value when it is small, integer, and all inputs are constant.

    One-dimensional values that hold symbols are followed elsewhere; this is for the rest, such as the
    two-dimensional paddings that exporters reverse and flatten.
    """
    rule = _RULES.get(node.op_type) if domain_of(node) == "" else None
    if rule is None or len(node.outputs) != 1 or node.outputs[0].const_value is not None:
        return
    arrays = [_constant(value) for value in node.inputs]
    known = [array for array in arrays if array is not None]
    if not known or len(known) != len(arrays):
        return
    try:
        result = rule(node, known)
    except (ValueError, IndexError, TypeError):
        return
    if result.size <= _ELEMENTS_LIMIT:
        value = node.outputs[0]
        value.const_value = ir.Tensor(np.ascontiguousarray(result), name=value.name)
        value.shape = ir.Shape(result.shape)


def _constant(value: ir.Value | None) -> Array | None:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.size > _ELEMENTS_LIMIT:
        return None
    array = np.asarray(tensor.numpy())
    return array if array.dtype.kind in "iub" else None


def _reshape(node: ir.Node, inputs: list[Array]) -> Array:
    data, target = inputs
    copied = [
        data.shape[index] if extent == 0 and not integer_attribute(node, "allowzero", 0) else int(extent)
        for index, extent in enumerate(target.reshape(-1))
    ]
    return data.reshape(copied)


def _transpose(node: ir.Node, inputs: list[Array]) -> Array:
    attribute = node.attributes.get("perm")
    return np.transpose(inputs[0], attribute.as_ints() if attribute is not None else None)


def _slice(_: ir.Node, inputs: list[Array]) -> Array:
    data, starts, ends = (array for array in inputs[:3])
    axes = inputs[3].reshape(-1) if len(inputs) > 3 else np.arange(starts.size)
    steps = inputs[4].reshape(-1) if len(inputs) > 4 else np.ones(starts.size, np.int64)
    cuts = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts.reshape(-1), ends.reshape(-1), axes, steps, strict=True):
        cuts[int(axis)] = _cut(int(start), int(end), int(step), data.shape[int(axis)])
    return data[tuple(cuts)]


def _cut(start: int, end: int, step: int, extent: int) -> slice:
    """ONNX's bounds as Python's: a negative step that runs past the first element ends at None."""
    past_first = step < 0 and end < -extent
    return slice(start, None if past_first else end, step)


def _concat(node: ir.Node, inputs: list[Array]) -> Array:
    return np.concatenate(inputs, axis=integer_attribute(node, "axis", 0))


def _cast(node: ir.Node, inputs: list[Array]) -> Array:
    kind = ir.DataType(integer_attribute(node, "to", 0))
    if kind not in (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL):
        raise TypeError("only integers are followed")
    return inputs[0].astype(kind.numpy())


def _gather(node: ir.Node, inputs: list[Array]) -> Array:
    return np.take(inputs[0], inputs[1].astype(np.int64), axis=integer_attribute(node, "axis", 0))


def _as_it_is(_: ir.Node, inputs: list[Array]) -> Array:
    return inputs[0]


_RULES: Mapping[str, Callable[[ir.Node, list[Array]], Array]] = {
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Slice": _slice,
    "Concat": _concat,
    "Cast": _cast,
    "Gather": _gather,
    "Identity": _as_it_is,
}

"""Host kernels: tensors made from shapes and scalars, repetition and padding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from vramscope.graph.dtypes import ElementType, from_numpy, numpy_dtype
from vramscope.ops.kernels.common import axis_of, copy_into, integers_of, invalid
from vramscope.ops.kernels.packing import packs
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values


def shape_of(call: Call) -> None:
    """Shape, from axis ``start`` to ``end`` (clamped, negatives from the end)."""
    shape = call.array(0).shape
    rank = len(shape)
    start, end = call.node.integer("start", 0), call.node.integer("end", rank)
    start, end = (min(max(at + rank if at < 0 else at, 0), rank) for at in (start, end))
    kept = shape[start:end]
    call.output(0, (len(kept),), np.int64)[:] = kept


def size_of(call: Call) -> None:
    """Size: the number of elements, a scalar."""
    call.output(0, (), np.int64)[...] = call.array(0).size


_CONSTANT_VALUES = frozenset(
    (
        "value",
        "sparse_value",
        "value_float",
        "value_floats",
        "value_int",
        "value_ints",
        "value_string",
        "value_strings",
    )
)
"""The attributes that hold a Constant's value; a sparse one is an array by the time it gets here."""


def constant(call: Call) -> None:
    """Constant: whichever value attribute the node has."""
    attributes = call.node.attributes
    found = ((name, value) for name, value in attributes.items() if name in _CONSTANT_VALUES)
    name, value = next(found, ("", ()))
    array = _constant_array(name, value)
    copy_into(call.output(0, array.shape, array.dtype), array)


def _constant_array(name: str, value: object) -> Values:
    if isinstance(value, np.ndarray):
        return value
    if name in {"value_float", "value_floats"}:
        return np.asarray(value, np.float32)
    if name in {"value_int", "value_ints"}:
        return np.asarray(value, np.int64)
    return np.asarray(value, np.object_)


def constant_of_shape(call: Call) -> None:
    """ConstantOfShape: ``value``'s single element (f32 zero by default) in the shape of input 0."""
    shape = tuple(call.array(0).reshape(-1).tolist())
    value = call.node.attributes.get("value")
    fill = value.reshape(-1)[0] if isinstance(value, np.ndarray) else np.float32(0)
    kind = value.dtype if isinstance(value, np.ndarray) else np.dtype(np.float32)
    call.output(0, shape, kind)[...] = fill


def value_range(call: Call) -> None:
    """Range: max(0, ⌈(limit−start)/delta⌉) values start + i·delta (operators 3.8)."""
    start, limit, delta = (call.array(index).reshape(-1)[0] for index in range(3))
    if delta == 0:
        raise invalid(call, "the delta", "it is 0")
    kind = call.array(0).dtype
    if kind.kind in "iu":
        first, step = int(start), int(delta)
        count = max(0, -((first - int(limit)) // step))
        values: Values = np.arange(count, dtype=np.int64) * step + first
    else:
        count = max(0, math.ceil((float(limit) - float(start)) / float(delta)))
        values = np.arange(count, dtype=np.float64) * float(delta) + float(start)
    copy_into(call.output(0, (count,), kind), values)


def eye_like(call: Call) -> None:
    """EyeLike: ones on diagonal ``k``; the type is ``dtype`` or the input's."""
    source = call.array(0)
    wanted = call.node.integer("dtype", 0)
    kind = numpy_dtype(ElementType(wanted)) if wanted else source.dtype
    rows, columns = source.shape
    copy_into(call.output(0, source.shape, kind), np.eye(rows, columns, k=call.node.integer("k", 0)))


def trilu(call: Call) -> None:
    """Trilu: the upper or lower triangle from diagonal k of the last two axes, zero elsewhere."""
    source = call.array(0)
    diagonal = int(call.array(1).reshape(-1)[0]) if call.has(1) else 0
    out = call.output(0, source.shape, source.dtype)
    copy_into(out, source)
    upper = call.node.integer("upper", 1)
    lower = np.tri(source.shape[-2], source.shape[-1], k=diagonal - 1 if upper else diagonal, dtype=np.bool_)
    np.copyto(out, out.dtype.type(0), where=lower if upper else ~lower)


def one_hot(call: Call) -> None:
    """OneHot: values = [off, on]; an index outside [−depth, depth) gives a row of off."""
    indices, depth = call.array(0), int(call.array(1).reshape(-1)[0])
    off, on = call.array(2)
    axis = axis_of(call, call.node.integer("axis", -1), indices.ndim + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    out = call.output(0, shape, call.array(2).dtype)
    whole = indices.astype(np.int64)
    wrapped = np.expand_dims(np.where(whole < 0, whole + depth, whole), axis)
    ladder = np.arange(depth).reshape((depth,) + (1,) * (indices.ndim - axis))
    out[...] = off
    np.copyto(out, on, where=ladder == wrapped)


def expand(call: Call) -> None:
    """Expand: broadcast to (at least) the shape of input 1."""
    source = call.array(0)
    wanted = tuple(call.array(1).tolist())
    shape = wanted if wanted == source.shape else np.broadcast_shapes(source.shape, wanted)
    copy_into(call.output(0, shape, source.dtype), source)


def tile(call: Call) -> None:
    """Tile: repeat along each axis."""
    source = call.array(0)
    repeats = tuple(call.array(1).tolist())
    shape = tuple(extent * count for extent, count in zip(source.shape, repeats, strict=True))
    out = call.output(0, shape, source.dtype)
    if not out.flags.c_contiguous or not out.size:
        copy_into(out, np.tile(source, repeats))
        return
    pairs = [item for pair in zip(repeats, source.shape, strict=True) for item in pair]
    spread = [item for extent in source.shape for item in (1, extent)]
    copy_into(out.reshape(pairs), source.reshape(spread))


def pad(call: Call) -> None:
    """Pad: constant, reflect, edge or wrap; negative pads crop (operators: ONNX Pad, all opsets)."""
    source = call.array(0)
    before, after = _pads(call, source.ndim)
    crop = tuple(
        slice(max(0, -low), extent - max(0, -high))
        for low, high, extent in zip(before, after, source.shape, strict=True)
    )
    kept = source[crop]
    widths = [(max(0, low), max(0, high)) for low, high in zip(before, after, strict=True)]
    shape = tuple(extent + low + high for extent, (low, high) in zip(kept.shape, widths, strict=True))
    out = call.output(0, shape, source.dtype)
    mode = call.node.text("mode", "constant")
    if mode == "constant":
        out[...] = _pad_value(call, source)
        inner = tuple(slice(low, low + extent) for (low, _), extent in zip(widths, kept.shape, strict=True))
        copy_into(out[inner], kept)
        return
    copy_into(out, np.pad(kept, widths, mode=_pad_mode(call, mode)))


def _pad_mode(call: Call, mode: str) -> Literal["reflect", "edge", "wrap"]:
    if mode == "reflect":
        return "reflect"
    if mode == "edge":
        return "edge"
    if mode == "wrap":
        return "wrap"
    raise invalid(call, "attribute mode", f"it is {mode!r}", "Use constant, reflect, edge or wrap")


def _pads(call: Call, rank: int) -> tuple[list[int], list[int]]:
    pads = integers_of(call, 1, "pads") or call.node.integers("paddings")
    axes = integers_of(call, 3, "axes")
    places = range(rank) if axes is None else [axis_of(call, axis, rank) for axis in axes]
    before, after = [0] * rank, [0] * rank
    half = len(pads) // 2
    for at, low, high in zip(places, pads[:half], pads[half:], strict=True):
        before[at], after[at] = low, high
    return before, after


def _pad_value(call: Call, source: Array) -> Values:
    if call.has(2) and call.array(2).size:
        return call.array(2).reshape(-1)[:1]
    if from_numpy(source.dtype) is ElementType.STRING:
        return np.asarray([""], np.object_)
    return np.asarray([call.node.number("value", 0.0)]).astype(source.dtype)


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "Shape", shape_of),
    OpSpec("", "Size", size_of),
    OpSpec("", "Constant", packs(constant)),
    OpSpec("", "ConstantOfShape", packs(constant_of_shape), host_inputs=(0,)),
    OpSpec("", "Range", value_range, host_inputs=(0, 1, 2), data_dependent=True),
    OpSpec("", "EyeLike", eye_like),
    OpSpec("", "Trilu", trilu, in_place=((0, 0),), host_inputs=(1,)),
    OpSpec("", "OneHot", one_hot, host_inputs=(1,)),
    OpSpec("", "Expand", packs(expand), host_inputs=(1,)),
    OpSpec("", "Tile", packs(tile), host_inputs=(1,)),
    OpSpec("", "Pad", packs(pad), host_inputs=(1, 2, 3)),
)

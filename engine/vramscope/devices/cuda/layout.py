"""CUDA builders of operators that move elements: Shape, Reshape, Transpose, Concat, Split, Gather."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.launch import Launch, blocks, i32, i64, numbers, pointer, source
from vramscope.devices.cuda.strided import THREADS, copy_launches, elementwise, merged, type_name
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.call import Packed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.work import Builder, Work

__all__ = ["BUILDERS", "copy_launches", "flat_grid", "unit_of"]

_UNITS = ((16, "u128"), (8, "u64"), (4, "u32"), (2, "u16"), (1, "u8"))
MOST_BLOCKS = 65536


def flat_grid(count: int) -> tuple[int, int, int]:
    """Blocks for a loop over ``count`` elements."""
    return (blocks(count, THREADS, MOST_BLOCKS), 1, 1)


def unit_of(*sizes: int) -> tuple[int, str]:
    """The largest unit of copying, in bytes, that divides every size and address."""
    return next((size, name) for size, name in _UNITS if all(item % size == 0 for item in sizes))


def _launch(function: str, count: int, arguments: Sequence[bytes]) -> list[Launch]:
    if count == 0:
        return []
    return [Launch(source("layout"), function, flat_grid(count), (THREADS, 1, 1), tuple(arguments))]


def _shape(work: Work) -> list[Launch]:
    shape = work.shape(0)
    start, end = work.node.integer("start", 0), work.node.integer("end", len(shape))
    return _write(shape[start:end], work.output(0))


def _size(work: Work) -> list[Launch]:
    return _write((prod(work.shape(0)),), work.output(0))


def _write(values: tuple[int, ...], out: DeviceArray) -> list[Launch]:
    if len(values) > 8:
        raise NoKernelError(f"a shape of rank {len(values)}")
    if out.size != len(values):
        raise NoKernelError("its output has another length")
    if not values:
        return []
    packed = (*values, *(0,) * (8 - len(values)))
    arguments = (numbers(packed), i32(len(values)), pointer(out))
    return [Launch(source("layout"), "write_numbers", (1, 1, 1), (32, 1, 1), arguments)]


def _moved(work: Work) -> list[Launch]:
    """The same elements in the same order under another shape."""
    value, out = work.input(0), work.output(0)
    if isinstance(work.call.inputs[0], Packed):
        raise NoKernelError("its input is packed")
    try:
        return copy_launches(value.reshape(out.shape), out)
    except ValueError:
        return copy_launches(value, out.reshape(value.shape))


def _transpose(work: Work) -> list[Launch]:
    value = work.input(0)
    return copy_launches(value.transpose(work.node.integers("perm") or None), work.output(0))


def _axis(work: Work, rank: int, default: int = 0) -> int:
    axis = work.node.integer("axis", default)
    return axis + rank if axis < 0 else axis


def _concat(work: Work) -> list[Launch]:
    out = work.output(0)
    axis, start, found = _axis(work, out.ndim), 0, list[Launch]()
    for index in range(len(work.call.inputs)):
        part = work.input(index)
        end = start + part.shape[axis]
        found += copy_launches(part, out[(slice(None),) * axis + (slice(start, end),)])
        start = end
    return found


def _split(work: Work) -> list[Launch]:
    value, start, found = work.input(0), 0, list[Launch]()
    axis = _axis(work, value.ndim)
    sizes = _split_sizes(work, value.shape[axis])
    for index, size in enumerate(sizes):
        if work.wants(index):
            part = value[(slice(None),) * axis + (slice(start, start + size),)]
            found += copy_launches(part, work.output(index, part.shape))
        start += size
    return found


def _split_sizes(work: Work, extent: int) -> tuple[int, ...]:
    if work.has(1):
        return work.host_integers(1)
    given = work.node.integers("split")
    if given:
        return tuple(given)
    count = work.node.integer("num_outputs", len(work.call.placed))
    whole = -(-extent // count)
    return tuple(min(whole, max(0, extent - i * whole)) for i in range(count))


def _slice(work: Work) -> list[Launch]:
    """Constant bounds give a strided copy; bounds computed on the card stay there."""
    value, out = work.input(0), work.output(0)
    if not work.has(1):
        raise NoKernelError("its bounds are attributes")
    axes = _slice_axes(work, value.ndim)
    constant = all(work.mirror.constant(work.input(i)) is not None for i in (1, 2, 4) if work.has(i))
    if constant:
        starts, ends = work.host_integers(1), work.host_integers(2)
        steps = work.host_integers(4) if work.has(4) else (1,) * len(axes)
        part = value
        for axis, bounds in zip(axes, zip(starts, ends, steps, strict=True), strict=True):
            part = part[(slice(None),) * axis + (_clamped(*bounds, value.shape[axis]),)]
        return copy_launches(part, out)
    return _slice_on_device(work, value, out, axes)


def _slice_axes(work: Work, rank: int) -> tuple[int, ...]:
    given = work.host_integers(3) if work.has(3) else tuple(range(work.input(1).size))
    return tuple(axis + rank if axis < 0 else axis for axis in given)


def _clamped(start: int, end: int, step: int, extent: int) -> slice:
    """As ONNX's Slice clamps; an end of −1 after a negative step means before element 0."""
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first = min(max(start + extent if start < 0 else start, max(low, 0)), high)
    last = min(max(end + extent if end < 0 else end, low), high)
    return slice(first, None if last < 0 else last, step)


def _slice_on_device(work: Work, value: DeviceArray, out: DeviceArray, axes: tuple[int, ...]) -> list[Launch]:
    if value.ndim > 8 or not out.contiguous or work.input(1).dtype != np.int64 or value.itemsize > 8:
        raise NoKernelError("its bounds are computed and its form is not one of the kernel's")
    slots = [axes.index(axis) if axis in axes else -1 for axis in range(value.ndim)]
    rows = (out.shape, value.shape, value.steps, slots)
    geometry = [value.ndim, *(item for row in rows for item in (*row, *(0,) * (8 - value.ndim)))]
    steps = work.optional(4)
    _, unit = unit_of(value.itemsize)
    arguments = (numbers(geometry), pointer(value), pointer(work.input(1)), pointer(steps), pointer(out))
    return _launch(f"slice_{unit}", out.size, (*arguments, i64(out.size)))


def _gather(work: Work) -> list[Launch]:
    value, index, out = work.input(0), work.input(1), work.output(0)
    axis = _axis(work, value.ndim)
    lead = merged(value.shape[:axis], [value.steps[:axis]])
    tail = merged(value.shape[axis + 1 :], [value.steps[axis + 1 :]])
    if len(lead.shape) > 1 or len(tail.shape) > 1 or not (out.contiguous and index.contiguous):
        raise NoKernelError("its data is strided in more than one way")
    if index.dtype not in (np.int64, np.int32):
        raise NoKernelError(f"its indices are {index.dtype}")
    outer, inner = prod(lead.shape), prod(tail.shape)
    step_outer = lead.steps[0][0] if lead.shape else 0
    step_inner = tail.steps[0][0] if tail.shape else 1
    size, steps = value.itemsize, (step_outer, value.steps[axis])
    unit, name = size, unit_of(size)[1]
    if step_inner == 1:
        spans = (inner * size, *(item * size for item in steps), value.address, out.address)
        unit, name = unit_of(*spans)
    many = max(unit // size, 1)
    steps, width = (steps[0] // many, steps[1] // many), inner // many
    geometry = (outer, index.size, width, value.shape[axis], *steps, step_inner)
    arguments = (numbers(geometry), pointer(value), pointer(index), pointer(out))
    kind = "i64" if index.dtype == np.int64 else "i32"
    return _launch(f"gather_{name}_{kind}", outer * index.size * width, arguments)


def _gather_nd(work: Work) -> list[Launch]:
    value, index, out = work.input(0), work.input(1), work.output(0)
    batch_axes = work.node.integer("batch_dims", 0)
    depth = index.shape[-1]
    if not (value.contiguous and index.contiguous and out.contiguous) or depth > 8 or value.itemsize > 8:
        raise NoKernelError("its form is not one of the kernel's")
    if index.dtype != np.int64:
        raise NoKernelError(f"its indices are {index.dtype}")
    batch = prod(value.shape[:batch_axes])
    tuples = prod(index.shape[:-1]) // max(batch, 1)
    inner = prod(value.shape[batch_axes + depth :])
    room = (0,) * (8 - depth)
    extents = value.shape[batch_axes : batch_axes + depth]
    steps = value.steps[batch_axes : batch_axes + depth]
    each = prod(value.shape[batch_axes:])
    geometry = (batch, tuples, inner, depth, each, *extents, *room, *steps, *room)
    arguments = (numbers(geometry), pointer(value), pointer(index), pointer(out))
    return _launch(f"gather_nd_{unit_of(value.itemsize)[1]}", out.size, arguments)


def _range(work: Work) -> list[Launch]:
    out = work.output(0)
    kind = type_name(out.dtype)
    if kind not in ("i64", "i32", "float", "double"):
        raise NoKernelError(f"no kernel counts in {kind}")
    arguments = (pointer(work.input(0)), pointer(work.input(2)), pointer(out), i64(out.size))
    return _launch(f"range_{kind}", out.size, arguments)


def _filled(work: Work) -> list[Launch]:
    """ConstantOfShape: the attribute's one value, by value in the launch."""
    out, given = work.output(0), work.node.attributes.get("value")
    number = np.asarray(given).reshape(-1)[0] if given is not None else np.float32(0)
    if not np.isfinite(float(number)):
        raise NoKernelError("it fills with a number that is not finite")
    text = repr(float(number)) if out.dtype.kind == "f" else f"{int(number)}LL"
    return elementwise("fill", text, [], out)


def _scatter_rows(work: Work) -> list[Launch]:
    """TensorScatter: the cache where it is not the output's own buffer, then the new rows."""
    past, update, out = work.input(0), work.input(1), work.output(0)
    axis = work.node.integer("axis", -2)
    axis += past.ndim if axis < 0 else 0
    if not (out.contiguous and update.contiguous) or axis == 0:
        raise NoKernelError("its tensors are strided")
    size = past.itemsize
    inner = prod(past.shape[axis + 1 :])
    unit, name = unit_of(inner * size, update.address, out.address)
    width = inner * size // unit
    circular = work.node.text("mode", "linear") == "circular"
    outer = prod(past.shape[1:axis])
    geometry = (past.shape[0], outer, past.shape[axis], update.shape[axis], width, int(circular))
    write = work.optional(2)
    arguments = (numbers(geometry), pointer(update), pointer(write), pointer(out))
    rows = _launch(f"scatter_rows_{name}", update.size * size // unit, arguments)
    return [*copy_launches(past, out), *rows]


BUILDERS: Mapping[tuple[str, str], Builder] = {
    ("", "Shape"): _shape,
    ("", "Size"): _size,
    ("", "Reshape"): _moved,
    ("", "Flatten"): _moved,
    ("", "Squeeze"): _moved,
    ("", "Unsqueeze"): _moved,
    ("", "Transpose"): _transpose,
    ("", "Concat"): _concat,
    ("", "Split"): _split,
    ("", "Slice"): _slice,
    ("", "Gather"): _gather,
    ("", "GatherND"): _gather_nd,
    ("", "Range"): _range,
    ("", "ConstantOfShape"): _filled,
    ("", "TensorScatter"): _scatter_rows,
}
"""Builders of this family."""

"""Host kernels: the same elements under another shape or order (Reshape, Transpose, Concat …)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import storage_bytes
from vramscope.ops.call import Packed
from vramscope.ops.kernels.common import axis_of, copy_into, integers_of, invalid
from vramscope.ops.kernels.packing import packs
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call


def write_reshaped(call: Call, shape: tuple[int, ...]) -> None:
    """Output 0 = input 0 under ``shape``.

    Nothing moves when the output already is the input's memory. Where nothing was placed the output is a view
    of the input (a contiguous one), as the row's ``view`` says.
    """
    value = call.inputs[0]
    if isinstance(value, Packed):
        _copy_packed(call, value, shape)
        return
    source = call.array(0)
    if call.placed[0] is None:
        call.placed[0] = source.reshape(shape)
        return
    out = call.output(0, shape, source.dtype)
    if source.flags.c_contiguous or not out.flags.c_contiguous:
        copy_into(out, source.reshape(shape))
    else:
        copy_into(out.reshape(source.shape), source)


def _copy_packed(call: Call, source: Packed, shape: tuple[int, ...]) -> None:
    """The same bytes: a reshaped packed tensor is never unpacked."""
    target = call.placed[0]
    if not isinstance(target, Packed):
        call.placed[0] = Packed(source.data, source.dtype, shape)
        return
    size = storage_bytes(source.dtype, prod(shape))
    np.copyto(target.data.reshape(-1)[:size], source.data.reshape(-1)[:size])


def shape_in(call: Call) -> tuple[int, ...]:
    """The shape of input 0, which may be packed."""
    value = call.inputs[0]
    return value.shape if isinstance(value, Packed) else call.array(0).shape


def reshape(call: Call) -> None:
    """Reshape: 0 keeps the input's extent unless ``allowzero``; one −1 takes what is left."""
    given = shape_in(call)
    wanted = integers_of(call, 1, "shape") or ()
    if not call.node.integer("allowzero", 0):
        wanted = tuple(_kept(call, given, at) if d == 0 else d for at, d in enumerate(wanted))
    write_reshaped(call, _resolved(call, wanted, prod(given)))


def _kept(call: Call, shape: tuple[int, ...], at: int) -> int:
    if at < len(shape):
        return shape[at]
    raise invalid(call, "the target shape", f"its 0 at position {at} names an axis the input lacks")


def _resolved(call: Call, wanted: tuple[int, ...], size: int) -> tuple[int, ...]:
    rest = prod(extent for extent in wanted if extent != -1)
    shape = tuple((size // rest if rest else 0) if extent == -1 else extent for extent in wanted)
    if prod(shape) != size or wanted.count(-1) > 1:
        raise invalid(call, "the target shape", f"{wanted} does not hold the {size:,} elements of the input")
    return shape


def flatten(call: Call) -> None:
    """Flatten: the axes before ``axis`` and the axes from it on, as a matrix."""
    shape = shape_in(call)
    axis = call.node.integer("axis", 1)
    axis = axis_of(call, axis, len(shape) if axis < 0 else len(shape) + 1)
    write_reshaped(call, (prod(shape[:axis]), prod(shape[axis:])))


def squeeze(call: Call) -> None:
    """Squeeze: the named axes, or all axes of extent 1."""
    shape = shape_in(call)
    axes = integers_of(call, 1, "axes")
    if axes is None:
        write_reshaped(call, tuple(extent for extent in shape if extent != 1))
        return
    dropped = {axis_of(call, axis, len(shape)) for axis in axes}
    wrong = [axis for axis in dropped if shape[axis] != 1]
    if wrong:
        raise invalid(call, f"axis {wrong[0]}", f"its extent is {shape[wrong[0]]}, not 1")
    write_reshaped(call, tuple(extent for axis, extent in enumerate(shape) if axis not in dropped))


def unsqueeze(call: Call) -> None:
    """Unsqueeze: new axes of extent 1 at these positions of the output."""
    shape = shape_in(call)
    axes = integers_of(call, 1, "axes") or ()
    rank = len(shape) + len(axes)
    added = {axis_of(call, axis, rank) for axis in axes}
    if len(added) != len(axes):
        raise invalid(call, "the axes", f"{axes} names one position twice")
    rest = iter(shape)
    write_reshaped(call, tuple(1 if axis in added else next(rest) for axis in range(rank)))


def identity(call: Call) -> None:
    """Identity of a tensor or a sequence (whose tensors are shared: a sequence never changes in place)."""
    value = call.inputs[0]
    if isinstance(value, list):
        call.put(0, list(value))
    elif call.has(0):
        write_reshaped(call, shape_in(call))


def transpose(call: Call) -> None:
    """Transpose: ``perm``, or the axes reversed."""
    source = call.array(0)
    perm = call.node.integers("perm") if "perm" in call.node.attributes else None
    view = source.transpose(perm)
    copy_into(call.output(0, view.shape, source.dtype), view)


def concat(call: Call) -> None:
    """Concat along ``axis``.

    The in-place append: where the output's prefix is input 0's memory (same address and strides), NumPy
    finds source and target equal and moves nothing, so only the other inputs are copied.
    """
    arrays = [call.array(index) for index in range(len(call.inputs))]
    axis = axis_of(call, call.node.integer("axis", 1), arrays[0].ndim)
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    out = call.output(0, tuple(shape), arrays[0].dtype)
    before = (slice(None),) * axis
    start = 0
    for array in arrays:
        end = start + array.shape[axis]
        copy_into(out[(*before, slice(start, end))], array)
        start = end


def split(call: Call) -> None:
    """Split: the sizes from input 1 or ``split``, else equal parts (the last one may be smaller)."""
    source = call.array(0)
    axis = axis_of(call, call.node.integer("axis", 0), source.ndim)
    count = len(call.placed)
    sizes = integers_of(call, 1, "split") or _equal_parts(source.shape[axis], count)
    if len(sizes) != count or sum(sizes) != source.shape[axis]:
        raise invalid(call, "the sizes", f"{sizes} do not split an extent of {source.shape[axis]} in {count}")
    before = (slice(None),) * axis
    start = 0
    for index, size in enumerate(sizes):
        part = source[(*before, slice(start, start + size))]
        if call.wants(index):
            copy_into(call.output(index, part.shape, source.dtype), part)
        start += size


def _equal_parts(extent: int, count: int) -> tuple[int, ...]:
    size = -(-extent // count)
    return tuple(max(0, min(size, extent - at * size)) for at in range(count))


def slice_tensor(call: Call) -> None:
    """Slice: bounds are inputs from opset 10 on, attributes before (operators 3.8)."""
    source = call.array(0)
    view = source[slice_index(call, source)]
    copy_into(call.output(0, view.shape, source.dtype), view)


def slice_index(call: Call, source: Array) -> tuple[slice, ...]:
    """The Python slices of a Slice node: negatives counted from the end, then clamped by the step's sign."""
    starts, ends = integers_of(call, 1, "starts") or (), integers_of(call, 2, "ends") or ()
    axes = integers_of(call, 3, "axes") or tuple(range(len(starts)))
    steps = integers_of(call, 4, "steps") or (1,) * len(starts)
    index = [slice(None)] * source.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise invalid(call, "the steps", "a step is 0")
        at = axis_of(call, axis, source.ndim)
        index[at] = clamped_slice(start, end, step, source.shape[at])
    return tuple(index)


def clamped_slice(start: int, end: int, step: int, extent: int) -> slice:
    """ONNX start, end and step as a Python slice of an axis of ``extent``."""
    start += extent if start < 0 else 0
    end += extent if end < 0 else 0
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    if extent == 0:
        return slice(0, 0, step)
    return slice(start, None if end < 0 else end, step)


_RESHAPED = ((0, 0),)

SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "Reshape", reshape, view=_RESHAPED, host_inputs=(1,)),
    OpSpec("", "Flatten", flatten, view=_RESHAPED),
    OpSpec("", "Squeeze", squeeze, view=_RESHAPED, host_inputs=(1,)),
    OpSpec("", "Unsqueeze", unsqueeze, view=_RESHAPED, host_inputs=(1,)),
    OpSpec("", "Identity", identity, view=_RESHAPED),
    OpSpec("", "Transpose", packs(transpose), strided_view=((0, 0),)),
    OpSpec("", "Concat", packs(concat)),
    OpSpec("", "Split", packs(split), host_inputs=(1,)),
    OpSpec("", "Slice", packs(slice_tensor), host_inputs=(1, 2, 3, 4)),
)

"""Host kernels: the Gather family."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import VramscopeError
from vramscope.ops.kernels.common import axis_of, copy_into
from vramscope.ops.kernels.packing import packs
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values


def check_indices(call: Call, indices: Array, extent: int, axis: int) -> None:
    """Refuse an index outside ``[-extent, extent)``.

    Raises:
        VramscopeError: it names the node, the index, the axis and its extent.
    """
    if indices.size == 0:
        return
    low, high = (indices.item(),) * 2 if indices.size == 1 else (indices.min(), indices.max())
    if -extent <= low and high < extent:
        return
    wrong = int(high) if high >= extent else int(low)
    raise VramscopeError(
        f"index {wrong} of {call.node.qualified}",
        f"axis {axis} has an extent of {extent:,}",
        f"Give indices from {-extent} to {extent - 1}",
        call.node.name,
    )


def gather(call: Call) -> None:
    """Gather: whole slices along ``axis``; negative indices count from the end."""
    source: Values = call.array(0)
    indices: Values = call.array(1)
    axis = axis_of(call, call.node.integer("axis", 0), source.ndim)
    check_indices(call, indices, source.shape[axis], axis)
    shape = source.shape[:axis] + indices.shape + source.shape[axis + 1 :]
    out = call.output(0, shape, source.dtype)
    before: tuple[slice, ...] = (slice(None),) * axis
    if indices.size == 1:
        row = source[(*before, indices.item())]
        copy_into(out, row.reshape(shape))
    elif source.flags.c_contiguous and out.flags.c_contiguous and source.size:
        np.take(source, indices, axis=axis, out=out, mode="wrap")
    else:
        index: tuple[slice | Values, ...] = (*before, indices)
        copy_into(out, source[index])


def gather_elements(call: Call) -> None:
    """GatherElements: one element an index; the other axes may be shorter than the data's."""
    source, indices = call.array(0), call.array(1)
    axis = axis_of(call, call.node.integer("axis", 0), source.ndim)
    check_indices(call, indices, source.shape[axis], axis)
    cropped = source[cropped_to(indices.shape, axis)]
    out = call.output(0, indices.shape, source.dtype)
    copy_into(out, np.take_along_axis(cropped, indices.astype(np.int64), axis=axis))


def cropped_to(shape: tuple[int, ...], axis: int) -> tuple[slice, ...]:
    """Slices that cut every axis but ``axis`` to ``shape``."""
    return tuple(slice(None) if at == axis else slice(0, extent) for at, extent in enumerate(shape))


def gather_nd(call: Call) -> None:
    """GatherND: the last axis of the indices holds coordinates; ``batch_dims`` leading axes are shared."""
    source, indices = call.array(0), call.array(1)
    shared = call.node.integer("batch_dims", 0)
    depth = indices.shape[-1]
    for at in range(depth):
        check_indices(call, indices[..., at], source.shape[shared + at], shared + at)
    shape = indices.shape[:-1] + source.shape[shared + depth :]
    out = call.output(0, shape, source.dtype)
    batch = prod(source.shape[:shared])
    rows = source.reshape(batch, *source.shape[shared:])
    places = indices.reshape(batch, -1, depth)
    lead = np.arange(batch)[:, None]
    picked = rows[(lead, *(places[..., at] for at in range(depth)))]
    copy_into(out, picked.reshape(shape))


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "Gather", packs(gather)),
    OpSpec("", "GatherElements", gather_elements),
    OpSpec("", "GatherND", gather_nd),
)

"""Host kernels: the Scatter family and TensorScatter, all meant to run in place on input 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import VramscopeError
from vramscope.ops.kernels.common import F32, NARROW, axis_of, copy_into, invalid, widen
from vramscope.ops.kernels.gather import check_indices
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values

_REDUCTIONS: tuple[tuple[str, np.ufunc], ...] = (
    ("add", np.add),
    ("mul", np.multiply),
    ("max", np.maximum),
    ("min", np.minimum),
)


def scatter_elements(call: Call) -> None:
    """ScatterElements and the older Scatter: one element an index along ``axis``."""
    source, indices, updates = call.array(0), call.array(1), call.array(2)
    axis = axis_of(call, call.node.integer("axis", 0), source.ndim)
    check_indices(call, indices, source.shape[axis], axis)
    grid: list[Values] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    _scatter(call, source, tuple(grid), updates)


def scatter_nd(call: Call) -> None:
    """ScatterND: the last axis of the indices holds coordinates of whole slices."""
    source, indices, updates = call.array(0), call.array(1), call.array(2)
    depth = indices.shape[-1]
    for at in range(depth):
        check_indices(call, indices[..., at], source.shape[at], at)
    _scatter(call, source, tuple(indices[..., at] for at in range(depth)), updates)


def _scatter(call: Call, source: Array, index: tuple[Values, ...], updates: Array) -> None:
    """Output 0 = source with the updates written or folded in; nothing is copied when it is the source."""
    out = call.output(0, source.shape, source.dtype)
    reduction = call.node.text("reduction", "none")
    if reduction == "none":
        copy_into(out, source)
        out[index] = updates
        return
    function = dict(_REDUCTIONS).get(reduction)
    if function is None:
        raise invalid(call, "attribute reduction", f"it is {reduction!r}", "Use none, add, mul, max or min")
    if source.dtype in NARROW:
        wide = source.astype(F32)
        function.at(wide, index, widen(updates))
        copy_into(out, wide)
        return
    copy_into(out, source)
    function.at(out, index, updates)


def tensor_scatter(call: Call) -> None:
    """TensorScatter: rows write[b] .. write[b]+S−1 of the cache's ``axis`` become the update (operators 3.4).

    In place (the output is input 0's memory) only those rows are written.

    Raises:
        VramscopeError: a negative write index, or rows past the end in linear mode.
    """
    past, update = call.array(0), call.array(1)
    axis = axis_of(call, call.node.integer("axis", -2), past.ndim)
    if axis == 0:
        raise invalid(call, "attribute axis", "it is the batch axis", "Use an axis from 1 on")
    if past.shape[axis] == 0 < update.shape[axis]:
        raise invalid(call, "the cache", "it has no rows to write", "Give it a capacity of at least one row")
    circular = call.node.text("mode", "linear") == "circular"
    starts = call.array(2).tolist() if call.has(2) else [0] * past.shape[0]
    rows, capacity = update.shape[axis], past.shape[axis]
    for batch, start in enumerate(starts):
        _check_rows(call, batch, start, rows, capacity if not circular else None)
    out = call.output(0, past.shape, past.dtype)
    copy_into(out, past)
    for batch, start in enumerate(starts):
        _write_rows(out[batch], update[batch], axis - 1, start % capacity if circular else start)


def _check_rows(call: Call, batch: int, start: int, rows: int, capacity: int | None) -> None:
    if start < 0:
        raise invalid(call, f"write index {start} of batch {batch}", "it is negative")
    if capacity is not None and start + rows > capacity:
        raise VramscopeError(
            f"write index {start} of batch {batch} of {call.node.qualified}",
            f"{rows} rows end at {start + rows}, past the cache's capacity of {capacity}",
            "Grow the cache to its next bucket, or use circular mode",
            call.node.name,
        )


def _write_rows(target: Array, update: Array, axis: int, start: int) -> None:
    """Write the rows from ``start`` on, wrapping at the end of ``axis``."""
    before = (slice(None),) * axis
    rows, capacity = update.shape[axis], target.shape[axis]
    done = 0
    while done < rows:
        count = min(rows - done, capacity - start)
        copy_into(
            target[(*before, slice(start, start + count))], update[(*before, slice(done, done + count))]
        )
        done, start = done + count, 0


_ON_DATA = ((0, 0),)

SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "Scatter", scatter_elements, in_place=_ON_DATA),
    OpSpec("", "ScatterElements", scatter_elements, in_place=_ON_DATA),
    OpSpec("", "ScatterND", scatter_nd, in_place=_ON_DATA),
    OpSpec("", "TensorScatter", tensor_scatter, in_place=_ON_DATA, aliases=_ON_DATA),
)

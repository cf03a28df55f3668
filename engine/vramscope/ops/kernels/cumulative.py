"""Host kernels: CumSum, CumProd, TopK and Einsum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels.common import F32, NARROW, axis_of, copy_into, invalid, widen
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values
    from vramscope.ops.spec import Kernel

_PARTITION_FROM = 1024
"""Rows at least this wide are cut to their candidates by a partition before they are sorted."""


def cumulative(function: np.ufunc, neutral: int) -> Kernel:
    """A kernel for a running fold along the axis in input 1 (0-D or [1]), ``exclusive`` and ``reverse``."""

    def kernel(call: Call) -> None:
        source = call.array(0)
        axis = axis_of(call, int(call.array(1).reshape(-1)[0]), source.ndim)
        out = call.output(0, source.shape, source.dtype)
        total = np.empty(source.shape, F32) if source.dtype in NARROW else out
        _accumulate(call, function, np.moveaxis(source, axis, 0), np.moveaxis(total, axis, 0), neutral)
        if total is not out:
            copy_into(out, total)

    return kernel


def _accumulate(call: Call, function: np.ufunc, source: Values, total: Values, neutral: int) -> None:
    """Fold along axis 0. ``total`` may be ``source``: NumPy copies what overlaps, the neutral comes last."""
    if call.node.integer("reverse", 0):
        source, total = source[::-1], total[::-1]
    if not call.node.integer("exclusive", 0):
        function.accumulate(source, axis=0, dtype=total.dtype, out=total)
        return
    function.accumulate(source[:-1], axis=0, dtype=total.dtype, out=total[1:])
    total[:1] = neutral


def top_k(call: Call) -> None:
    """TopK: equal values in the order of their index; NaN counts as the largest (operators 3.8)."""
    source = call.array(0)
    axis = axis_of(call, call.node.integer("axis", -1), source.ndim)
    count = int(call.array(1).reshape(-1)[0]) if call.has(1) else call.node.integer("k", 1)
    if not 0 <= count <= source.shape[axis]:
        raise invalid(call, f"k = {count}", f"axis {axis} has an extent of {source.shape[axis]}")
    shape = (*source.shape[:axis], count, *source.shape[axis + 1 :])
    values, indices = call.output(0, shape, source.dtype), call.output(1, shape, np.int64)
    if not values.size:
        return
    rows = np.moveaxis(widen(source), axis, -1)
    chosen = np.empty((*rows.shape[:-1], count), np.int64)
    largest = call.node.integer("largest", 1) != 0
    for place in np.ndindex(rows.shape[:-1]):
        chosen[place] = top_indices(rows[place], count, largest=largest)
    places = np.moveaxis(chosen, -1, axis)
    copy_into(values, np.take_along_axis(source, places, axis=axis))
    copy_into(indices, places)


def top_indices(row: Values, count: int, *, largest: bool) -> Values:
    """Indices of the ``count`` largest (or smallest) values of a 1-D row, best first, ties by lower index."""
    if row.size < _PARTITION_FROM or count * 8 > row.size:
        return _ordered(row, largest=largest)[:count]
    edge = np.partition(row, row.size - count if largest else count - 1)
    bound = edge[row.size - count if largest else count - 1]
    if bound != bound:  # noqa: PLR0124  # NaN: the only value that differs from itself
        return _ordered(row, largest=largest)[:count]
    better = np.flatnonzero(~(row <= bound) if largest else row < bound)
    equal = np.flatnonzero(row == bound)[: count - better.size]
    candidates = np.sort(np.concatenate([better, equal]))
    return candidates[_ordered(row[candidates], largest=largest)]


def _ordered(row: Values, *, largest: bool) -> Values:
    """A stable order of the row; NaN sorts as the largest value."""
    if not largest:
        return np.argsort(row, kind="stable")
    return row.size - 1 - np.argsort(row[::-1], kind="stable")[::-1]


def einsum(call: Call) -> None:
    """Einsum in the wide type, rounded once."""
    arrays = [widen(call.array(index)) for index in range(len(call.inputs))]
    equation = call.node.text("equation", "").replace(" ", "")
    result = np.asarray(np.einsum(equation, *arrays, optimize=len(arrays) > 2))
    copy_into(call.output(0, result.shape, call.array(0).dtype), result)


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "CumSum", cumulative(np.add, 0), in_place=((0, 0),), host_inputs=(1,)),
    OpSpec("", "CumProd", cumulative(np.multiply, 1), in_place=((0, 0),), host_inputs=(1,)),
    OpSpec("", "TopK", top_k, host_inputs=(1,)),
    OpSpec("", "Einsum", einsum),
)

"""Host kernels: the Reduce family, ArgMax and ArgMin."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from vramscope.ops.kernels.common import F32, NARROW, axis_of, copy_into, integers_of, widen
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values
    from vramscope.ops.spec import Kernel

    Axes = tuple[int, ...]
    Reduce = Callable[[Values, Axes], Values]


def reduction(function: Reduce, *, prepare: Callable[[Values], Values] = np.asarray) -> Kernel:
    """A kernel that reduces wide values over axes with the axes kept, and writes them rounded once.

    ``prepare`` is what the operator does to each element when it reduces over no axes at all.
    """

    def kernel(call: Call) -> None:
        source = call.array(0)
        axes = reduced_axes(call, source.ndim)
        shape = reduced_shape(source.shape, axes, keep=call.node.integer("keepdims", 1) != 0)
        out = call.output(0, shape, source.dtype)
        if not axes and source.ndim and call.node.integer("noop_with_empty_axes", 0):
            copy_into(out, prepare(widen(source)))
            return
        copy_into(out, np.asarray(function(widen(source), axes)).reshape(shape))

    return kernel


def reduced_axes(call: Call, rank: int) -> tuple[int, ...]:
    """The axes from input 1 or the attribute; none given means all, or none where the node says so."""
    axes = integers_of(call, 1, "axes")
    if axes:
        return tuple(sorted({axis_of(call, axis, rank) for axis in axes}))
    return () if call.node.integer("noop_with_empty_axes", 0) else tuple(range(rank))


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], *, keep: bool) -> tuple[int, ...]:
    """``shape`` with ``axes`` reduced to 1 or dropped."""
    if keep:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def _sum(x: Values, axes: Axes) -> Values:
    return np.asarray(np.add.reduce(x, axis=axes, dtype=x.dtype))


def _product(x: Values, axes: Axes) -> Values:
    return np.asarray(np.multiply.reduce(x, axis=axes, dtype=x.dtype))


def _mean(x: Values, axes: Axes) -> Values:
    count = prod(x.shape[axis] for axis in axes)
    total = _sum(x, axes)
    return np.asarray(total / count if x.dtype.kind == "f" else np.trunc(total / max(count, 1)))


def _sum_square(x: Values, axes: Axes) -> Values:
    return _sum(np.square(x), axes)


def _l1(x: Values, axes: Axes) -> Values:
    return _sum(np.absolute(x), axes)


def _l2(x: Values, axes: Axes) -> Values:
    return np.sqrt(_sum_square(x, axes))


def _log_sum(x: Values, axes: Axes) -> Values:
    return np.log(_sum(x, axes))


def _log_sum_exp(x: Values, axes: Axes) -> Values:
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    largest = np.maximum.reduce(x, axis=axes, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0)
    total = np.add.reduce(np.exp(x - largest), axis=axes, keepdims=True)
    return np.log(total) + largest


def _extreme(function: np.ufunc, *, largest: bool) -> Reduce:
    def reduce(x: Values, axes: Axes) -> Values:
        return np.asarray(function.reduce(x, axis=axes, initial=_identity(x.dtype, largest=largest)))

    return reduce


def _identity(kind: np.dtype[Any], *, largest: bool) -> object:
    """The value that loses against every other: −∞ or the smallest integer for a maximum."""
    if kind.kind == "f":
        return -np.inf if largest else np.inf
    if kind == np.bool_:
        return not largest
    bounds = np.iinfo(kind)
    return bounds.min if largest else bounds.max


def arg_extreme(function: Callable[..., Values]) -> Kernel:
    """A kernel for ArgMax or ArgMin: the first of equals, or the last with ``select_last_index``."""

    def kernel(call: Call) -> None:
        source = call.array(0)
        axis = axis_of(call, call.node.integer("axis", 0), source.ndim)
        keep = call.node.integer("keepdims", 1) != 0
        out = call.output(0, reduced_shape(source.shape, (axis,), keep=keep), np.int64)
        wide = source.astype(F32) if source.dtype in NARROW else source
        if not call.node.integer("select_last_index", 0):
            copy_into(out, function(wide, axis=axis, keepdims=keep))
            return
        backwards = function(np.flip(wide, axis), axis=axis, keepdims=keep)
        copy_into(out, source.shape[axis] - 1 - backwards)

    return kernel


def _rows(*kernels: tuple[str, Kernel]) -> tuple[OpSpec, ...]:
    return tuple(OpSpec("", name, kernel, host_inputs=(1,)) for name, kernel in kernels)


SPECS: tuple[OpSpec, ...] = (
    *_rows(
        ("ReduceSum", reduction(_sum)),
        ("ReduceProd", reduction(_product)),
        ("ReduceMean", reduction(_mean)),
        ("ReduceMax", reduction(_extreme(np.maximum, largest=True))),
        ("ReduceMin", reduction(_extreme(np.minimum, largest=False))),
        ("ReduceSumSquare", reduction(_sum_square, prepare=np.square)),
        ("ReduceL1", reduction(_l1, prepare=np.absolute)),
        ("ReduceL2", reduction(_l2, prepare=np.absolute)),
        ("ReduceLogSum", reduction(_log_sum, prepare=np.log)),
        ("ReduceLogSumExp", reduction(_log_sum_exp)),
    ),
    OpSpec("", "ArgMax", arg_extreme(np.argmax)),
    OpSpec("", "ArgMin", arg_extreme(np.argmin)),
)

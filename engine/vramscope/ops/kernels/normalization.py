"""Host kernels: the norms of decoders (RMS, layer, and both with a skip connection).

All work on rows: the normalised axes flattened to one. Narrow floats are widened a block of rows at a time.
"""

from __future__ import annotations

from math import inf, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels.common import F32, axis_of, blocks_of_rows, copy_into, widen
from vramscope.ops.kernels.skip_quick import QuickSkip, quick_skip
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values


def inverse_rms(rows: Values, epsilon: float) -> Values | float:
    """1/√(mean x² + ε) of each row of contiguous wide ``rows`` [n, width]: [n, 1] or, of one row, a number.

    The sum of squares is in the rows' type, the rest in f64.
    """
    width = max(rows.shape[1], 1)
    if rows.shape[0] == 1:
        root = sqrt(float(np.dot(rows[0], rows[0])) / width + epsilon)
        return 1.0 / root if root else inf
    mean = np.vecdot(rows, rows).astype(np.float64)
    np.divide(mean, width, out=mean)
    np.add(mean, epsilon, out=mean)
    np.sqrt(mean, out=mean)
    inverse: Values = np.reciprocal(mean, out=mean).astype(rows.dtype)
    return inverse[:, None]


def as_rows(array: Array, width: int) -> Array:
    """``array`` as [rows, width]; a view when it is contiguous."""
    return array.reshape(array.size // width, width)


def along_rows(factor: Array, shape: tuple[int, ...], axis: int) -> Array:
    """A scale or bias as [width], or as [rows, width] when it differs along the axes before ``axis``."""
    inner = shape[axis:]
    if factor.ndim <= len(inner):
        return factor.reshape(-1) if factor.shape == inner else np.broadcast_to(factor, inner).reshape(-1)
    return np.broadcast_to(factor, shape).reshape(-1, prod(inner))


def _block(array: Array | None, block: slice) -> Array | None:
    """The rows of a block; a [width] factor serves every block."""
    return array if array is None or array.ndim == 1 else array[block]


def _each_block(work: Callable[..., None], source: Array, *others: Array | None) -> None:
    """``work`` on blocks of rows of [rows, width] arrays; narrow floats only: wide ones need no copy."""
    if source.dtype.itemsize > 2 or source.size <= 1 << 16:
        work(source, *others)
        return
    for block in blocks_of_rows(*source.shape):
        work(source[block], *(_block(other, block) for other in others))


def _statistic(call: Call, index: int, shape: tuple[int, ...], axis: int) -> Array | None:
    """Output ``index`` (mean or inverse deviation, f32) when it is wanted, as [rows, 1]."""
    if not call.wants(index):
        return None
    return call.output(index, shape[:axis] + (1,) * (len(shape) - axis), F32).reshape(-1, 1)


def _row_target(out: Array, width: int) -> Array:
    """``out`` as rows to write; fresh memory when it is not contiguous (:func:`_settle` copies it back)."""
    return as_rows(out, width) if out.flags.c_contiguous else np.empty((out.size // width, width), out.dtype)


def _settle(target: Array, out: Array) -> None:
    if not out.flags.c_contiguous:
        copy_into(out, target.reshape(out.shape))


def rms_norm(call: Call) -> None:
    """RMSNormalization and SimplifiedLayerNormalization: x/√(mean x²+ε)·scale (operators 2.4, 3.3)."""
    source, scale = call.array(0), call.array(1)
    shape = source.shape
    axis = axis_of(call, call.node.integer("axis", -1), source.ndim)
    out = call.output(0, shape, scale.dtype)
    if source.size == 0:
        return
    epsilon = call.node.number("epsilon", 1e-5)
    width = prod(shape[axis:])
    target = _row_target(out, width)
    inverse = _statistic(call, 1, shape, axis)

    def work(x: Array, factor: Array, into: Array, kept: Array | None) -> None:
        _scale_rms(widen(x), factor, epsilon, into, kept)

    _each_block(work, as_rows(source, width), along_rows(scale, shape, axis), target, inverse)
    _settle(target, out)


def _scale_rms(x: Values, scale: Array, epsilon: float, out: Array, kept: Array | None) -> None:
    """``out`` = RMS norm of wide rows ``x``, rounded once; ``out`` may be ``x``."""
    inverse = inverse_rms(x, epsilon)
    if kept is not None:
        copy_into(kept, inverse)
    target = out if out.dtype == x.dtype else np.empty(x.shape, x.dtype)
    np.multiply(x, inverse, out=target)
    np.multiply(target, widen(scale), out=out, casting="same_kind")


def layer_norm(call: Call) -> None:
    """LayerNormalization: (x−µ)/√(σ²+ε)·scale + B, population variance, over the axes from ``axis`` on."""
    source, bias = call.array(0), call.optional(2)
    shape = source.shape
    axis = axis_of(call, call.node.integer("axis", -1), source.ndim)
    out = call.output(0, shape)
    if source.size == 0:
        return
    epsilon = call.node.number("epsilon", 1e-5)
    width = prod(shape[axis:])
    target = _row_target(out, width)
    scale = along_rows(call.array(1), shape, axis)
    shift = None if bias is None else along_rows(bias, shape, axis)
    means, inverses = _statistic(call, 1, shape, axis), _statistic(call, 2, shape, axis)

    def work(x: Array, into: Array, factor: Array, *parts: Array | None) -> None:
        _scale_centred(widen(x), epsilon, into, factor, *parts)

    _each_block(work, as_rows(source, width), target, scale, shift, means, inverses)
    _settle(target, out)


def _scale_centred(
    x: Values,
    epsilon: float,
    out: Array,
    scale: Array,
    shift: Array | None,
    means: Array | None,
    inverses: Array | None,
) -> None:
    """``out`` = layer norm of wide rows ``x``, rounded once; ``out`` may be ``x``."""
    mean = np.add.reduce(x, axis=1, keepdims=True)
    np.divide(mean, x.shape[1], out=mean)
    if means is not None:
        copy_into(means, mean)
    centred = out if out.dtype == x.dtype else np.empty(x.shape, x.dtype)
    np.subtract(x, mean, out=centred)
    inverse = inverse_rms(centred, epsilon)
    if inverses is not None:
        copy_into(inverses, inverse)
    np.multiply(centred, inverse, out=centred)
    if shift is None:
        np.multiply(centred, widen(scale), out=out, casting="same_kind")
        return
    np.multiply(centred, widen(scale), out=centred)
    np.add(centred, widen(shift), out=out, casting="same_kind")


def skip_rms_norm(call: Call) -> None:
    """SkipSimplifiedLayerNormalization: RMS norm of input + skip (+ bias); Y from the unrounded sum."""
    memo = call.memo
    if isinstance(memo, QuickSkip) and memo.fits(call):
        memo.run()
        return
    gamma, epsilon = call.array(2), call.node.number("epsilon", 1e-12)
    if call.wants(1):
        shape = call.array(0).shape
        call.output(1, (*shape[:-1], 1), F32)[...] = 0

    def work(x: Values, out: Array, _: Array | None, inverses: Array | None) -> None:
        _scale_rms(x, gamma, epsilon, out, inverses)

    _skip_norm(call, 3, work)
    call.memo = quick_skip(call)


def skip_layer_norm(call: Call) -> None:
    """SkipLayerNormalization: layer norm of input + skip (+ bias); Y from the unrounded sum."""
    gamma, beta, epsilon = call.array(2), call.optional(3), call.node.number("epsilon", 1e-12)

    def work(x: Values, out: Array, means: Array | None, inverses: Array | None) -> None:
        _scale_centred(x, epsilon, out, gamma, beta, means, inverses)

    _skip_norm(call, 4, work)


def _skip_norm(call: Call, bias_index: int, work: Callable[..., None]) -> None:
    """Sum in the wide type, keep it in output 3 where wanted, normalise the unrounded sum into output 0.

    ``work`` gets wide rows, the target rows and the two statistics. Either output may be input 0 or 1.
    """
    source, bias = call.array(0), call.optional(bias_index)
    width, last = source.shape[-1], source.ndim - 1
    out, kept = call.output(0, source.shape), call.output(3, source.shape) if call.wants(3) else None
    if source.size == 0:
        return
    target = _row_target(out, width)
    keep = None if kept is None else _row_target(kept, width)
    means, inverses = _statistic(call, 1, source.shape, last), _statistic(call, 2, source.shape, last)
    skip = call.array(1)
    skip = as_rows(skip if skip.shape == source.shape else np.broadcast_to(skip, source.shape), width)

    def block(x: Array, y: Array, into: Array, store: Array | None, *statistics: Array | None) -> None:
        work(_sum_rows(x, y, bias, into if store is None else store), into, *statistics)

    _each_block(block, as_rows(source, width), skip, target, keep, means, inverses)
    _settle(target, out)
    if keep is not None and kept is not None:
        _settle(keep, kept)


def _sum_rows(x: Array, skip: Array, bias: Array | None, store: Array) -> Values:
    """X + skip (+ bias) in the wide type, unrounded, also written to ``store`` (which may be an input)."""
    wide = widen(x)
    total = store if store.dtype == wide.dtype else np.empty(wide.shape, wide.dtype)
    np.add(wide, widen(skip), out=total)
    if bias is not None:
        np.add(total, widen(bias), out=total)
    if total is not store:
        copy_into(store, total)
    return total


def embed_layer_norm(call: Call) -> None:
    """EmbedLayerNormalization: layer norm of word + position (+ segment) embeddings.

    Inputs: ids [B,S], segment ids or absent, word, position, segment tables, gamma, beta, mask or absent,
    position ids or absent. Outputs: Y [B,S,H], mask_index [B], embedding sum.
    """
    ids = call.array(0)
    positions = call.array(8) if call.has(8) else np.arange(ids.shape[1])[None, :]
    total = np.add(widen(call.array(2)[ids]), widen(call.array(3)[positions]))
    if call.has(1):
        total = np.add(total, widen(call.array(4)[call.array(1)]))
    if call.wants(2):
        copy_into(call.output(2, total.shape), total)
    if call.wants(1):
        mask = call.optional(7)
        copy_into(call.output(1, (ids.shape[0],)), 0 if mask is None else mask.sum(axis=1))
    out, width = call.output(0, total.shape), total.shape[-1]
    target = _row_target(out, width)
    epsilon = call.node.number("epsilon", 1e-12)
    _scale_centred(as_rows(total, width), epsilon, target, call.array(5), call.array(6), None, None)
    _settle(target, out)


_SKIP_IN_PLACE = ((0, 0), (0, 1), (3, 0), (3, 1))

SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "RMSNormalization", rms_norm, in_place=((0, 0),)),
    OpSpec("", "SimplifiedLayerNormalization", rms_norm, in_place=((0, 0),)),
    OpSpec("com.microsoft", "SimplifiedLayerNormalization", rms_norm, in_place=((0, 0),)),
    OpSpec("", "LayerNormalization", layer_norm, in_place=((0, 0),)),
    OpSpec("com.microsoft", "SkipSimplifiedLayerNormalization", skip_rms_norm, in_place=_SKIP_IN_PLACE),
    OpSpec("com.microsoft", "SkipLayerNormalization", skip_layer_norm, in_place=_SKIP_IN_PLACE),
    OpSpec("com.microsoft", "EmbedLayerNormalization", embed_layer_norm),
)

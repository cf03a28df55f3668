"""Host kernels: the norms of decoders (RMS, layer, and both with a skip connection)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.ops.kernels.common import F32, axis_of, copy_into, widen
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values

    RowStatistic: TypeAlias = Callable[[Values, float], Values]


def inverse_rms(x: Values, epsilon: float) -> Values:
    """1/√(mean x² + ε) of the last axis of contiguous wide ``x``, keeping that axis with extent 1."""
    mean = np.asarray(np.vecdot(x, x))
    np.divide(mean, max(x.shape[-1], 1), out=mean)
    np.add(mean, epsilon, out=mean)
    np.sqrt(mean, out=mean)
    return np.expand_dims(np.reciprocal(mean, out=mean), -1)


def rms_norm(call: Call) -> None:
    """RMSNormalization and SimplifiedLayerNormalization: x/√(mean x²+ε)·scale (operators 2.4, 3.3)."""
    source = call.array(0)
    axis = axis_of(call, call.node.integer("axis", -1), source.ndim)
    out = call.output(0, source.shape, call.array(1).dtype)
    if source.size == 0:
        return
    wide = widen(source)
    inverse = _per_row(inverse_rms, wide, axis, call.node.number("epsilon", 1e-5))
    if call.wants(1):
        copy_into(call.output(1, inverse.shape, F32), inverse)
    _scaled(wide, inverse, call.array(1), out)


def _per_row(function: RowStatistic, x: Values, axis: int, epsilon: float) -> Values:
    """``function`` over all axes from ``axis`` on; the result keeps them with extent 1."""
    if axis == x.ndim - 1:
        return function(x, epsilon)
    rows = x.reshape(*x.shape[:axis], prod(x.shape[axis:]))
    return function(rows, epsilon).reshape(x.shape[:axis] + (1,) * (x.ndim - axis))


def _scaled(x: Values, inverse: Values, scale: Array, out: Array) -> None:
    """``out`` = x·inverse·scale, rounded once; ``out`` may be ``x``."""
    target = out if out.dtype == x.dtype else np.empty(x.shape, x.dtype)
    np.multiply(x, inverse, out=target)
    np.multiply(target, widen(scale), out=out, casting="same_kind")


def layer_norm(call: Call) -> None:
    """LayerNormalization: (x−µ)/√(σ²+ε)·scale + B, population variance, over the axes from ``axis`` on."""
    source = call.array(0)
    axis = axis_of(call, call.node.integer("axis", -1), source.ndim)
    out = call.output(0, source.shape)
    if source.size == 0:
        return
    wide = widen(source)
    count = prod(wide.shape[axis:])
    mean = np.add.reduce(wide, axis=tuple(range(axis, wide.ndim)), keepdims=True)
    np.divide(mean, count, out=mean)
    if call.wants(1):
        copy_into(call.output(1, mean.shape, F32), mean)
    centred = out if out.dtype == wide.dtype and out.flags.c_contiguous else np.empty(wide.shape, wide.dtype)
    np.subtract(wide, mean, out=centred)
    inverse = _per_row(inverse_rms, centred, axis, call.node.number("epsilon", 1e-5))
    if call.wants(2):
        copy_into(call.output(2, inverse.shape, F32), inverse)
    _shifted(centred, inverse, call.array(1), call.optional(2), out)


def _shifted(centred: Values, inverse: Values, scale: Array, bias: Array | None, out: Array) -> None:
    """``out`` = centred·inverse·scale + bias, rounded once; ``centred`` is overwritten."""
    if bias is None:
        _scaled(centred, inverse, scale, out)
        return
    np.multiply(centred, inverse, out=centred)
    np.multiply(centred, widen(scale), out=centred)
    np.add(centred, widen(bias), out=out, casting="same_kind")


def _skip_sum(call: Call, bias_index: int) -> Values:
    """Input + skip (+ bias) in the wide type, unrounded; output 3 is written when it is wanted.

    The sum lives in output 3 or output 0 when their type is the wide type, else in fresh memory.
    """
    source, skip = call.array(0), call.array(1)
    kept = call.output(3, source.shape) if call.wants(3) else None
    home = call.output(0, source.shape) if kept is None else kept
    wide = widen(source)
    total = home if home.dtype == wide.dtype and home.flags.c_contiguous else np.empty(wide.shape, wide.dtype)
    np.add(wide, widen(skip), out=total)
    bias = call.optional(bias_index)
    if bias is not None:
        np.add(total, widen(bias), out=total)
    if kept is not None:
        copy_into(kept, total)
    return total


def skip_rms_norm(call: Call) -> None:
    """SkipSimplifiedLayerNormalization: RMS norm of input + skip (+ bias); Y from the unrounded sum."""
    total = _skip_sum(call, 3)
    out = call.output(0, total.shape)
    inverse = inverse_rms(total, call.node.number("epsilon", 1e-12))
    if call.wants(1):
        call.output(1, inverse.shape, F32)[...] = 0
    if call.wants(2):
        copy_into(call.output(2, inverse.shape, F32), inverse)
    _scaled(total, inverse, call.array(2), out)


def skip_layer_norm(call: Call) -> None:
    """SkipLayerNormalization: layer norm of input + skip (+ bias); Y from the unrounded sum."""
    total = _skip_sum(call, 4)
    out = call.output(0, total.shape)
    mean = np.add.reduce(total, axis=-1, keepdims=True)
    np.divide(mean, max(total.shape[-1], 1), out=mean)
    if call.wants(1):
        copy_into(call.output(1, mean.shape, F32), mean)
    centred = np.subtract(total, mean)
    inverse = inverse_rms(centred, call.node.number("epsilon", 1e-12))
    if call.wants(2):
        copy_into(call.output(2, inverse.shape, F32), inverse)
    _shifted(centred, inverse, call.array(2), call.optional(3), out)


def embed_layer_norm(call: Call) -> None:
    """EmbedLayerNormalization: layer norm of word + position (+ segment) embeddings.

    Inputs: ids [B,S], segment ids or absent, word, position, segment tables, gamma, beta, mask or absent,
    position ids or absent. Outputs: Y [B,S,H], mask_index [B], embedding sum.
    """
    ids = call.array(0)
    batch, length = ids.shape
    positions = call.array(8) if call.has(8) else np.arange(length)[None, :]
    total = np.add(widen(call.array(2)[ids]), widen(call.array(3)[positions]))
    if call.has(1):
        total = np.add(total, widen(call.array(4)[call.array(1)]))
    if call.wants(2):
        copy_into(call.output(2, total.shape), total)
    if call.wants(1):
        mask = call.optional(7)
        copy_into(call.output(1, (batch,)), 0 if mask is None else mask.sum(axis=1))
    centred = np.subtract(total, np.mean(total, axis=-1, keepdims=True))
    inverse = inverse_rms(centred, call.node.number("epsilon", 1e-12))
    _shifted(centred, inverse, call.array(5), call.array(6), call.output(0, total.shape))


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

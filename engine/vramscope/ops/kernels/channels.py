"""Host kernels: normalisation over batches, channels, groups and p-norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels.common import axis_of, copy_into, invalid, widen
from vramscope.ops.kernels.normalization import inverse_rms
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values


def per_channel(values: Array, rank: int) -> Values:
    """A [C] vector (widened) that broadcasts over [N, C, …] of ``rank``."""
    return widen(values).reshape((-1,) + (1,) * max(rank - 2, 0))


def batch_norm(call: Call) -> None:
    """BatchNormalization: with the running statistics, or in training mode with the batch's own."""
    source = call.array(0)
    out = call.output(0, source.shape)
    x = widen(source)
    mean, variance = widen(call.array(3)), widen(call.array(4))
    if call.node.integer("training_mode", 0):
        mean, variance = _batch_statistics(call, x, mean, variance)
    inverse = np.reciprocal(np.sqrt(np.add(variance, call.node.number("epsilon", 1e-5))))
    factor = np.multiply(inverse, widen(call.array(1)))
    target = out if out.dtype == x.dtype else np.empty(x.shape, x.dtype)
    np.subtract(x, per_channel(mean, x.ndim), out=target, casting="same_kind")
    np.multiply(target, per_channel(factor, x.ndim), out=target, casting="same_kind")
    np.add(target, per_channel(call.array(2), x.ndim), out=out, casting="same_kind")


def _batch_statistics(call: Call, x: Values, mean: Values, variance: Values) -> tuple[Values, Values]:
    """The batch's mean and variance; outputs 1 and 2 are the updated running ones."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    now_mean, now_variance = np.mean(x, axis=axes), np.var(x, axis=axes)
    momentum = call.node.number("momentum", 0.9)
    for index, old, now in ((1, mean, now_mean), (2, variance, now_variance)):
        if call.wants(index):
            copy_into(call.output(index, old.shape), old * momentum + now * (1 - momentum))
    return now_mean, now_variance


def instance_norm(call: Call) -> None:
    """InstanceNormalization: each channel of each instance over its spatial axes."""
    source = call.array(0)
    _grouped(call, source, source.shape[1], source.shape[1])


def group_norm(call: Call) -> None:
    """GroupNormalization: scale and bias one a channel from opset 21 on, one a group before."""
    source = call.array(0)
    _grouped(call, source, call.node.integer("num_groups", 1), call.array(1).size)


def _grouped(call: Call, source: Array, groups: int, scales: int) -> None:
    """Normalise over each group of channels; ``scales`` scale values are spread over the channels."""
    out = call.output(0, source.shape)
    batch, channels = source.shape[:2]
    if groups < 1 or channels % groups:
        raise invalid(call, f"num_groups {groups}", f"it does not divide {channels} channels")
    if source.size == 0:
        return
    rows = widen(source).reshape(batch * groups, -1)
    centred = np.subtract(rows, np.mean(rows, axis=-1, keepdims=True))
    inverse = inverse_rms(centred, call.node.number("epsilon", 1e-5))
    np.multiply(centred, inverse, out=centred)
    spread = centred.reshape(source.shape)
    scale = np.repeat(widen(call.array(1)), channels // scales)
    bias = np.repeat(widen(call.array(2)), channels // scales)
    np.multiply(spread, per_channel(scale, source.ndim), out=spread)
    np.add(spread, per_channel(bias, source.ndim), out=out, casting="same_kind")


def lp_norm(call: Call) -> None:
    """LpNormalization: x over its 1- or 2-norm along ``axis``; a zero norm gives zeros."""
    source = call.array(0)
    axis = axis_of(call, call.node.integer("axis", -1), source.ndim)
    out = call.output(0, source.shape)
    x = widen(source)
    if call.node.integer("p", 2) == 1:
        norm = np.add.reduce(np.absolute(x), axis=axis, keepdims=True)
    else:
        norm = np.sqrt(np.add.reduce(np.square(x), axis=axis, keepdims=True))
    copy_into(out, np.divide(x, np.where(norm == 0, 1, norm)))


def local_response_norm(call: Call) -> None:
    """LRN: x / (bias + alpha/size · Σ x² over ``size`` neighbouring channels)^beta."""
    source = call.array(0)
    out = call.output(0, source.shape)
    x = widen(source)
    size, channels = call.node.integer("size", 1), source.shape[1]
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    square = np.square(x)
    total = np.zeros_like(square)
    for shift in range(-before, after + 1):
        low, high = max(0, -shift), min(channels, channels - shift)
        if low < high:
            total[:, low:high] += square[:, low + shift : high + shift]
    total *= call.node.number("alpha", 1e-4) / size
    total += call.node.number("bias", 1.0)
    copy_into(out, x / np.power(total, call.node.number("beta", 0.75)))


def mean_variance_norm(call: Call) -> None:
    """MeanVarianceNormalization: (x − µ)/(σ + 1e-9) over ``axes``."""
    source = call.array(0)
    out = call.output(0, source.shape)
    axes = call.node.integers("axes", (0, 2, 3))
    x = widen(source)
    centred = x - np.mean(x, axis=axes, keepdims=True)
    deviation = np.sqrt(np.mean(np.square(centred), axis=axes, keepdims=True))
    copy_into(out, centred / (deviation + 1e-9))


_IN_PLACE = ((0, 0),)

SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "BatchNormalization", batch_norm, in_place=_IN_PLACE),
    OpSpec("", "InstanceNormalization", instance_norm, in_place=_IN_PLACE),
    OpSpec("", "GroupNormalization", group_norm, in_place=_IN_PLACE),
    OpSpec("", "LpNormalization", lp_norm, in_place=_IN_PLACE),
    OpSpec("", "LRN", local_response_norm, in_place=_IN_PLACE),
    OpSpec("", "MeanVarianceNormalization", mean_variance_norm, in_place=_IN_PLACE),
)

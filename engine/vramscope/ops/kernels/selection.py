"""Host kernels whose output extents depend on values, and reordering by blocks and sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.ops.kernels.common import axis_of, copy_into, invalid
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values


def non_zero(call: Call) -> None:
    """NonZero: coordinates [rank, count] in row-major order; a scalar counts as a vector of one."""
    source = call.array(0)
    found = np.argwhere(source.reshape(1) if source.ndim == 0 else source).T
    copy_into(call.output(0, found.shape, np.int64), found)


def _has_axis(call: Call) -> bool:
    return "axis" in call.node.attributes


def compress(call: Call) -> None:
    """Compress: the slices along ``axis`` (default: the flattened elements) where the condition holds."""
    source: Values = call.array(0)
    condition: Values = call.array(1)
    rows = source if _has_axis(call) else source.reshape(-1)
    kept = np.compress(condition, rows, axis=call.node.integer("axis", 0))
    copy_into(call.output(0, kept.shape, source.dtype), kept)


def unique(call: Call) -> None:
    """Unique: values (sorted, or in order of first appearance), first indices, inverse indices, counts."""
    source = call.array(0)
    axis = axis_of(call, call.node.integer("axis", 0), source.ndim) if _has_axis(call) else -1
    rows = source.reshape(-1) if axis < 0 else source
    along = max(axis, 0)
    if from_numpy(source.dtype) is ElementType.STRING:
        rows = rows.astype(np.str_)
    values, first, inverse, counts = np.unique(
        rows, return_index=True, return_inverse=True, return_counts=True, axis=along
    )
    inverse = inverse.reshape(-1)
    if not call.node.integer("sorted", 1):
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        values, first = np.take(values, order, axis=along), first[order]
        inverse, counts = rank[inverse], counts[order]
    _put_all(call, (values.astype(source.dtype), first, inverse, counts))


def _put_all(call: Call, results: tuple[Values, ...]) -> None:
    for index, result in enumerate(results):
        if call.wants(index):
            copy_into(call.output(index, result.shape, result.dtype), result)


def depth_to_space(call: Call) -> None:
    """DepthToSpace: channels become blocks of pixels, depth first (DCR) or column first (CRD)."""
    source, size = call.array(0), call.node.integer("blocksize", 1)
    batch, channels, height, width = source.shape
    depth = channels // (size * size)
    if call.node.text("mode", "DCR") == "DCR":
        blocks = source.reshape(batch, size, size, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = source.reshape(batch, depth, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    shape = (batch, depth, height * size, width * size)
    copy_into(call.output(0, shape, source.dtype), blocks.reshape(shape))


def space_to_depth(call: Call) -> None:
    """SpaceToDepth: blocks of pixels become channels, depth first (DCR) or column first (CRD)."""
    source, size = call.array(0), call.node.integer("blocksize", 1)
    batch, channels, height, width = source.shape
    blocks = source.reshape(batch, channels, height // size, size, width // size, size)
    order = (0, 3, 5, 1, 2, 4) if call.node.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    shape = (batch, channels * size * size, height // size, width // size)
    copy_into(call.output(0, shape, source.dtype), blocks.transpose(order).reshape(shape))


def reverse_sequence(call: Call) -> None:
    """ReverseSequence: the first sequence_lens[b] steps of each batch entry reversed, the rest kept."""
    source, lengths = call.array(0), call.array(1)
    time, batch = call.node.integer("time_axis", 0), call.node.integer("batch_axis", 1)
    out = call.output(0, source.shape, source.dtype)
    if np.may_share_memory(source, out):
        source = source.copy()
    read, write = np.moveaxis(source, (batch, time), (0, 1)), np.moveaxis(out, (batch, time), (0, 1))
    for entry, length in enumerate(lengths.tolist()):
        _reverse(read[entry], write[entry], length)


def _reverse(source: Array, out: Array, length: int) -> None:
    copy_into(out[:length], source[:length][::-1])
    copy_into(out[length:], source[length:])


def dropout(call: Call) -> None:
    """Dropout at inference: the input itself, and a mask of ones.

    Raises:
        VramscopeError: the node asks for training, whose random mask no run could repeat.
    """
    source = call.array(0)
    training = call.has(2) and bool(call.array(2).reshape(-1)[0])
    ratio = float(call.array(1).reshape(-1)[0]) if call.has(1) else 0.5
    if training and ratio != 0:
        raise invalid(call, "input training_mode", "it is true", "Export the model for inference")
    copy_into(call.output(0, source.shape, source.dtype), source)
    if call.wants(1):
        call.output(1, source.shape)[...] = 1


_DATA_DEPENDENT = "the output's extent depends on the data"

SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "NonZero", non_zero, data_dependent=True, capture_refusal=_DATA_DEPENDENT),
    OpSpec("", "Compress", compress, data_dependent=True, capture_refusal=_DATA_DEPENDENT),
    OpSpec("", "Unique", unique, data_dependent=True, capture_refusal=_DATA_DEPENDENT),
    OpSpec("", "NonMaxSuppression", data_dependent=True, capture_refusal=_DATA_DEPENDENT),
    OpSpec("", "StringSplit", data_dependent=True, capture_refusal=_DATA_DEPENDENT),
    OpSpec("", "DepthToSpace", depth_to_space),
    OpSpec("", "SpaceToDepth", space_to_depth),
    OpSpec("", "ReverseSequence", reverse_sequence),
    OpSpec("", "Dropout", dropout, in_place=((0, 0),), host_inputs=(1, 2)),
)

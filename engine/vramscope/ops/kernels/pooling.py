"""Host kernels: MaxPool, AveragePool, LpPool and the global forms, one place of the kernel at a time."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType, bit_width
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.kernels.windows import channels, fill_padded, windows
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.kernels.windows import Windows
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

_HALVES = (ElementType.FLOAT16, ElementType.BFLOAT16)


def _form(node: Node, shape: tuple[int, ...]) -> Windows:
    if len(shape) < 3:
        raise ModelGraphError(
            f"input 0 of {node.qualified}", f"rank {len(shape)} has no windows", "", node.name
        )
    return windows(node, shape[2:], node.integers("kernel_shape"))


def max_pool_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """One padded image in its own type; with Indices also a mask of one image's windows."""
    source = query.input(0)
    form = _form(query.node, source.shape)
    depth = source.shape[1]
    sizes = {
        "padded": bit_width(source.dtype) // 8 * depth * prod(form.padded),
        "better": depth * prod(form.output) if query.outputs > 1 else 0,
    }
    return lay_out("host-max-pool", sizes)


def max_pool(call: Call) -> None:
    """Y and, where wanted, Indices [N, C, output] of X [N, C, spatial].

    Indices count in the whole of X, row by row, or column by column with storage_order 1; the first of equal
    maxima wins.
    """
    source = call.array(0)
    form = _form(call.node, source.shape)
    shape = (*source.shape[:2], *form.output)
    out = call.output(0, shape)
    indices = call.output(1, shape, np.int64) if call.wants(1) else None
    requirement = max_pool_workspace(query_of(call))
    padded = region_of(call, requirement, "padded", (source.shape[1], *form.padded), source.dtype)
    for number, image in enumerate(source):
        fill_padded(image, form, _lowest(source.dtype), padded)
        if indices is None:
            _maximum(form, padded, out[number])
        else:
            better = region_of(call, requirement, "better", shape[1:], np.bool_)
            _maximum_with_index(call.node, form, (padded, out[number], better), indices[number])
            base = np.arange(number * shape[1], (number + 1) * shape[1]) * prod(form.extent)
            np.add(indices[number], base.reshape(-1, *(1,) * len(form.extent)), out=indices[number])


def _lowest(dtype: np.dtype[np.generic]) -> float:
    return float(np.iinfo(dtype.name).min) if dtype.kind in "iu" else -np.inf


def _maximum(form: Windows, padded: Values, out: Array) -> None:
    for number, (_, part) in enumerate(form.offsets()):
        shifted = padded[channels(*part)]
        if number == 0:
            np.copyto(out, shifted)
        else:
            np.maximum(out, shifted, out=out)


def _maximum_with_index(
    node: Node, form: Windows, arrays: tuple[Values, Array, Values], indices: Array
) -> None:
    padded, out, better = arrays
    seen = np.zeros(form.output, np.bool_)
    for place, part in form.offsets():
        shifted = padded[channels(*part)]
        flat, valid = _positions(node, form, place)
        np.greater(shifted, out, out=better)
        np.logical_and(better, seen, out=better)
        np.logical_or(better, valid & ~seen, out=better)
        np.logical_and(better, valid, out=better)
        np.copyto(out, shifted, where=better)
        np.copyto(indices, flat, where=better)
        seen |= valid


def _positions(node: Node, form: Windows, place: tuple[int, ...]) -> tuple[Values, Values]:
    """For one place of the kernel: the flat index in a channel, and whether it is inside, both [output]."""
    flat: Values = np.zeros((), np.int64)
    valid: Values = np.ones((), np.bool_)
    for i in form.axes:
        position = np.arange(form.output[i]) * form.strides[i] - form.before[i] + place[i] * form.dilations[i]
        column_major = node.integer("storage_order", 0) == 1
        step = prod(form.extent[:i]) if column_major else prod(form.extent[i + 1 :])
        flat = flat[..., np.newaxis] + position * step
        valid = valid[..., np.newaxis] & (position >= 0) & (position < form.extent[i])
    return flat, valid


def sum_pool_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """One padded image in f32 (f64 for double); half types also one image's f32 result."""
    source = query.input(0)
    form = _form(query.node, source.shape)
    itemsize = 8 if source.dtype is ElementType.DOUBLE else 4
    half = source.dtype in _HALVES
    sizes = {
        "padded": itemsize * source.shape[1] * prod(form.padded),
        "result": itemsize * source.shape[1] * prod(form.output) if half else 0,
    }
    return lay_out("host-sum-pool", sizes)


def sum_pool(call: Call) -> None:
    """AveragePool and LpPool: Y [N, C, output] of X [N, C, spatial]; sums in f32, one rounding."""
    source = call.array(0)
    form = _form(call.node, source.shape)
    out = call.output(0, (*source.shape[:2], *form.output))
    requirement = sum_pool_workspace(query_of(call))
    dtype = np.dtype(np.float64 if source.dtype == np.float64 else np.float32)
    padded = region_of(call, requirement, "padded", (source.shape[1], *form.padded), dtype)
    power = call.node.integer("p", 2) if call.node.operator == "LpPool" else 0
    counts = form.valid_counts(include_padding=call.node.integer("count_include_pad", 0) == 1)
    for image, target in zip(source, out, strict=True):
        half = target.dtype != dtype
        result: Values = region_of(call, requirement, "result", target.shape, dtype) if half else target
        fill_padded(image, form, 0, padded)
        if power:
            np.abs(padded, out=padded)
            np.power(padded, power, out=padded)
        result[...] = 0
        for _, part in form.offsets():
            np.add(result, padded[channels(*part)], out=result)
        if power:
            np.power(result, 1.0 / power, out=result)
        else:
            np.divide(result, counts, out=result, dtype=dtype, casting="unsafe")
        if half:
            np.copyto(target, result, casting="unsafe")


def global_pool(call: Call) -> None:
    """GlobalMaxPool, GlobalAveragePool and GlobalLpPool: Y [N, C, 1, …] of X [N, C, spatial]."""
    source = call.array(0)
    axes = tuple(range(2, source.ndim))
    out = call.output(0, (*source.shape[:2], *(1,) * len(axes)))
    if call.node.operator == "GlobalMaxPool":
        np.maximum.reduce(source, axis=axes, out=out, keepdims=True)
        return
    dtype = np.dtype(np.float64 if source.dtype == np.float64 else np.float32)
    flat = source.reshape(*source.shape[:2], -1)
    power = call.node.integer("p", 2)
    for index in np.ndindex(source.shape[:2]):
        row: Values = flat[index].astype(dtype)
        if call.node.operator == "GlobalLpPool":
            out[index] = np.power(np.add.reduce(np.abs(row) ** power), 1.0 / power)
        else:
            out[index] = np.add.reduce(row) / row.size


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "MaxPool", max_pool, workspace=max_pool_workspace),
    OpSpec("", "AveragePool", sum_pool, workspace=sum_pool_workspace),
    OpSpec("", "LpPool", sum_pool, workspace=sum_pool_workspace),
    OpSpec("", "GlobalMaxPool", global_pool),
    OpSpec("", "GlobalAveragePool", global_pool),
    OpSpec("", "GlobalLpPool", global_pool),
)

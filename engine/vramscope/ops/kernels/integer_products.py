"""Host kernels: products of 8-bit integers, exact in f64 BLAS (a sum of K products stays below 2**53)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from vramscope.graph.dtypes import from_numpy
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.kernels.products import product_shape
from vramscope.ops.kernels.quantize import integer_range, quantize_dynamically
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

_TILE = 1 << 18
_ROWS = 512


@dataclass(frozen=True, slots=True)
class _Roles:
    """Which input is what in one operator; −1: it has none."""

    left: int
    right: int
    left_zero: int
    right_zero: int


_ROLES = {
    "MatMulInteger": _Roles(0, 1, 2, 3),
    "QLinearMatMul": _Roles(0, 3, 2, 5),
    "DynamicQuantizeMatMul": _Roles(0, 1, -1, 3),
    "MatMulIntegerToFloat": _Roles(0, 1, 4, 5),
}


def integer_product_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """A block of left rows, a tile of the right operand and their product, all in f64."""
    roles = _ROLES[query.node.operator]
    left, right = query.input(roles.left).shape, query.input(roles.right).shape
    depth = left[-1] if left else 0
    rows = min(left[-2] if len(left) > 1 else 1, _ROWS)
    tile = _tile_columns(depth, right[-1] if len(right) > 1 else 1)
    sizes = {
        "left": 8 * rows * depth,
        "right": 8 * depth * tile,
        "product": 8 * rows * tile,
        "dynamic": 4 * prod(left) if query.node.operator == "DynamicQuantizeMatMul" else 0,
    }
    return lay_out("host-integer-product", sizes)


def _tile_columns(depth: int, columns: int) -> int:
    return max(1, min(columns, _TILE // max(depth, 1)))


def _at(index: tuple[int, ...], part: tuple[slice, slice]) -> tuple[Any, ...]:
    """One block of one batch entry."""
    return (*index, *part)


def _column(parameter: Array | None, *, last: bool) -> Array | None:
    """A zero point or scale so that it broadcasts over [rows, columns]: 1-D and not ``last`` is one a row."""
    if parameter is None or parameter.size == 1:
        return None if parameter is None else parameter.reshape(())
    if parameter.ndim == 1:
        return parameter if last else parameter[:, np.newaxis]
    return parameter


def _block(
    parameter: Array | None, batch: tuple[int, ...], shape: tuple[int, int], part: tuple[slice, slice]
) -> Array:
    """The part of a parameter that belongs to one block of one batch entry; 0 where there is none."""
    if parameter is None or parameter.ndim == 0:
        return np.zeros(()) if parameter is None else parameter
    full = np.broadcast_to(
        parameter, (*(len(batch) * (1,) if parameter.ndim <= 2 else parameter.shape[:-2]), *shape)
    )
    own = tuple(index if extent > 1 else 0 for index, extent in zip(batch, full.shape[:-2], strict=True))
    found: Array = full[own][part]
    return found


def _products(
    call: Call,
    operands: tuple[Array, Array],
    zeros: tuple[Array | None, Array | None],
    out: Array,
    finish: Callable[[Values, tuple[int, ...], tuple[slice, slice]], None],
) -> None:
    """Hand every block of ``(A − a0) · (B − b0)`` to ``finish`` with its batch index and place."""
    left = operands[0][np.newaxis] if operands[0].ndim == 1 else operands[0]
    right = operands[1][:, np.newaxis] if operands[1].ndim == 1 else operands[1]
    rows, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    lefts = np.broadcast_to(left, (*batch, rows, depth))
    rights = np.broadcast_to(right, (*batch, depth, columns))
    requirement = integer_product_workspace(query_of(call))
    step, height = _tile_columns(depth, columns), min(rows, _ROWS)
    for index in np.ndindex(batch):
        for top in range(0, rows, max(height, 1)):
            high = slice(top, min(top + height, rows))
            wide = region_of(call, requirement, "left", (high.stop - top, depth), np.float64)
            zero = _block(zeros[0], index, (rows, depth), (high, slice(None)))
            np.subtract(lefts[index][high], zero, out=wide, dtype=np.float64, casting="unsafe")
            for start in range(0, columns, step):
                across = slice(start, min(start + step, columns))
                tile = region_of(call, requirement, "right", (depth, across.stop - start), np.float64)
                zero = _block(zeros[1], index, (depth, columns), (slice(None), across))
                np.subtract(rights[index][:, across], zero, out=tile, dtype=np.float64, casting="unsafe")
                product = region_of(call, requirement, "product", (wide.shape[0], tile.shape[1]), np.float64)
                np.matmul(wide, tile, out=product)
                finish(product, index, (high, across))


def _matrices(out: Array, operands: tuple[Array, Array]) -> Array:
    """The output with the axes that a 1-D operand takes away."""
    if operands[0].ndim == 1:
        out = np.expand_dims(out, out.ndim - (operands[1].ndim > 1))
    return out[..., np.newaxis] if operands[1].ndim == 1 else out


def matmul_integer(call: Call) -> None:
    """Y int32 = (A − a0) · (B − b0); a0 one number or one a row, b0 one number or one a column."""
    operands = (call.array(0), call.array(1))
    shape = product_shape(call.node, operands[0].shape, operands[1].shape)
    out = _matrices(call.output(0, shape, np.int32), operands)
    zeros = (_column(call.optional(2), last=False), _column(call.optional(3), last=True))

    def finish(product: Values, index: tuple[int, ...], part: tuple[slice, slice]) -> None:
        np.copyto(out[_at(index, part)], product, casting="unsafe")

    _products(call, operands, zeros, out, finish)


def qlinear_matmul(call: Call) -> None:
    """Y = saturate(round((A − a0) · (B − b0) · sa · sb / sy) + y0); sa by row, sb by column."""
    operands = (call.array(0), call.array(3))
    kind = call.array(7).dtype
    shape = product_shape(call.node, operands[0].shape, operands[1].shape)
    out = _matrices(call.output(0, shape, kind), operands)
    zeros = (_column(call.array(2), last=False), _column(call.array(5), last=True))
    scales = (_column(call.array(1), last=False), _column(call.array(4), last=True))
    target, offset = call.array(6).astype(np.float32), float(call.array(7).reshape(-1)[0])

    def finish(product: Values, index: tuple[int, ...], part: tuple[slice, slice]) -> None:
        whole = (out.shape[-2], out.shape[-1])
        left = _block(scales[0], index, whole, part).astype(np.float32)
        factor = left * _block(scales[1], index, whole, part).astype(np.float32) / target.reshape(-1)[0]
        np.multiply(product, factor, out=product)
        np.rint(product, out=product)
        np.add(product, offset, out=product)
        np.clip(product, *integer_range(from_numpy(kind)), out=product)
        np.copyto(out[_at(index, part)], product, casting="unsafe")

    _products(call, operands, zeros, out, finish)


def dynamic_quantize_matmul(call: Call) -> None:
    """Y f32 = dequantised(A as uint8) · ((B − b0) · sb) + bias; A is quantised by its own range."""
    source: Values = call.array(0)
    requirement = integer_product_workspace(query_of(call))
    codes = region_of(call, requirement, "dynamic", source.shape)
    scale, zero = quantize_dynamically(source, codes)
    _scaled(
        call,
        (codes, call.array(1)),
        (np.asarray(zero), call.optional(3)),
        (np.asarray(scale), call.array(2)),
        4,
    )


def matmul_integer_to_float(call: Call) -> None:
    """Y f32 = ((A − a0) · sa) · ((B − b0) · sb) + bias."""
    operands = (call.array(0), call.array(1))
    zeros, scales = (call.optional(4), call.optional(5)), (call.array(2), call.array(3))
    _scaled(call, operands, zeros, scales, 6)


def _scaled(
    call: Call,
    operands: tuple[Array, Array],
    zeros: tuple[Array | None, Array | None],
    scales: tuple[Array, Array],
    bias: int,
) -> None:
    shape = product_shape(call.node, operands[0].shape, operands[1].shape)
    out = _matrices(call.output(0, shape, scales[1].dtype), operands)
    added = call.optional(bias)
    left, right = _column(scales[0], last=False), _column(scales[1], last=True)

    def finish(product: Values, index: tuple[int, ...], part: tuple[slice, slice]) -> None:
        whole = (out.shape[-2], out.shape[-1])
        np.multiply(product, _block(left, index, whole, part), out=product)
        np.multiply(product, _block(right, index, whole, part), out=product)
        if added is not None:
            np.add(product, added[part[1]], out=product)
        np.copyto(out[_at(index, part)], product, casting="unsafe")

    _products(call, operands, (_column(zeros[0], last=False), _column(zeros[1], last=True)), out, finish)


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "MatMulInteger", matmul_integer, workspace=integer_product_workspace),
    OpSpec("", "QLinearMatMul", qlinear_matmul, workspace=integer_product_workspace),
    OpSpec(
        "com.microsoft",
        "DynamicQuantizeMatMul",
        dynamic_quantize_matmul,
        workspace=integer_product_workspace,
    ),
    OpSpec(
        "com.microsoft", "MatMulIntegerToFloat", matmul_integer_to_float, workspace=integer_product_workspace
    ),
)

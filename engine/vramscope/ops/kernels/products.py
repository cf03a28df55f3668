"""The product of two batched matrices: BLAS for f32 and f64, f32 tiles of planned scratch for half types.

A weight is never copied whole. For float16 and bfloat16 a tile of it is widened into planned scratch, the
BLAS library multiplies and accumulates in f32, and each output element is rounded once, after the epilogue
(bias, activation). The tile size is where widening and reading back balance on current processors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.ops.kernels.widening import widen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vramscope.graph.model import Array, Node

Index: TypeAlias = "tuple[int | slice, ...]"
Epilogue: TypeAlias = "Callable[[Array, Index], None]"
"""Finishes an f32 (or f64) block in place; the index says which part of the output the block is."""

TILE_ELEMENTS = 1 << 19
TILE_COLUMNS = 1024
FEW_ROWS = 8
ROW_BLOCK = 512


def product_shape(node: Node, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of ``numpy.matmul(left, right)``.

    Raises:
        ModelGraphError: the contracted extents or the batch extents do not fit together.
    """
    problem = f"{list(left)} by {list(right)}"
    if not left or not right:
        raise ModelGraphError(
            f"a product of shapes {problem}", "a scalar has no axis to contract", "", node.name
        )
    depth = right[0] if len(right) == 1 else right[-2]
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise ModelGraphError(
            f"a product of shapes {problem}", "the batch axes do not broadcast", "", node.name
        ) from None
    if left[-1] != depth:
        raise ModelGraphError(
            f"a product of shapes {problem}", f"{left[-1]} columns meet {depth} rows", "", node.name
        )
    rows = () if len(left) == 1 else (left[-2],)
    columns = () if len(right) == 1 else (right[-1],)
    return (*batch, *rows, *columns)


@dataclass(frozen=True, slots=True)
class HalfGeometry:
    """Extents of the scratch of one half-precision product: ``rows`` by ``depth`` by ``columns``."""

    rows: int
    depth: int
    columns: int

    @property
    def block(self) -> int:
        """Rows of the left operand that are widened at once."""
        return min(self.rows, ROW_BLOCK)

    @property
    def few(self) -> bool:
        """Whether the left operand is so short that reading the weight is the whole cost."""
        return self.block <= FEW_ROWS

    @property
    def tile_columns(self) -> int:
        """Columns of the right operand in one tile of full depth."""
        return max(1, min(self.columns, TILE_COLUMNS, TILE_ELEMENTS // max(self.depth, 1)))

    @property
    def tile_depth(self) -> int:
        """Rows of the right operand in one tile of full width."""
        return max(1, min(self.depth, TILE_ELEMENTS // max(self.columns, 1)))

    def sizes(self) -> dict[str, int]:
        """Bytes of each region: widened left rows, a tile of the right operand, the f32 result.

        No region shrinks when an extent grows, so scratch planned for a bound serves every smaller call.
        """
        few = min(self.rows, FEW_ROWS) * self.columns
        tile = min(self.depth * self.columns, max(TILE_ELEMENTS, self.depth, self.columns))
        result = max(self.block * min(self.columns, TILE_COLUMNS), few)
        return {
            "left": 4 * self.block * self.depth,
            "tile": 4 * tile,
            "result": 4 * result,
            "partial": 4 * few,
        }


def half_geometry(left: tuple[int, ...], right: tuple[int, ...]) -> HalfGeometry:
    """The geometry of ``left @ right``; a right operand without batch axes takes all rows at once."""
    rows = 1 if len(left) == 1 else left[-2]
    if len(right) <= 2:
        rows = prod(left[:-1])
    return HalfGeometry(rows, left[-1], 1 if len(right) == 1 else right[-1])


@dataclass(frozen=True, slots=True)
class HalfScratch:
    """Flat f32 views of the planned regions of a half-precision product."""

    geometry: HalfGeometry
    left: Array
    tile: Array
    result: Array
    partial: Array


def product_operands(left: Array, right: Array, out: Array) -> tuple[Array, Array, Array]:
    """The arrays to hand to ``numpy.matmul`` for ``out = left @ right``, all of them views.

    A right operand without batch axes is read once for all batches: the left rows are taken as one matrix.
    """
    flat = left.ndim > 2 and left.flags.c_contiguous and out.flags.c_contiguous and left.size > 0
    if right.ndim != 2 or not flat:
        return left, right, out
    return left.reshape(-1, left.shape[-1]), right, out.reshape(-1, right.shape[1])


def multiply_halves(
    left: Array, right: Array, out: Array, scratch: HalfScratch, epilogue: Epilogue | None = None
) -> None:
    """``out = left @ right`` in f32 with one rounding; operands of two or more axes, float16 or bfloat16."""
    if out.size == 0:
        return
    batch = out.shape[:-2]
    lefts = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    rights = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    for index in np.ndindex(batch):
        run = _few_rows if scratch.geometry.few else _many_rows
        run(lefts[index], rights[index], out[index], scratch, epilogue or _nothing, index)


def _nothing(_block: Array, _index: Index) -> None:
    """The epilogue of a bare product."""


def _take(flat: Array, shape: tuple[int, ...]) -> Array:
    return flat[: prod(shape)].reshape(shape)


def _widened_columns(right: Array, tile: Array) -> Array:
    """``right`` in f32 in the memory order it has, so that neither side is read across its rows."""
    if right.strides[-1] == right.itemsize or right.strides[0] != right.itemsize:
        target = _take(tile, right.shape)
        widen(right, target)
        return target
    target = _take(tile, right.shape[::-1])
    widen(right.T, target)
    return target.T


def _spans(extent: int, step: int) -> Iterator[slice]:
    for start in range(0, extent, step):
        yield slice(start, min(start + step, extent))


def _few_rows(
    left: Array, right: Array, out: Array, scratch: HalfScratch, epilogue: Epilogue, index: tuple[int, ...]
) -> None:
    wide = _take(scratch.left, left.shape)
    widen(left, wide)
    result = _take(scratch.result, out.shape)
    if right.shape[0] == 0:
        result[...] = 0
    elif right.strides[-1] == right.itemsize and right.shape[1] > 1:
        _accumulate(wide, right, result, scratch)
    else:
        for columns in _spans(right.shape[1], scratch.geometry.tile_columns):
            np.matmul(wide, _widened_columns(right[:, columns], scratch.tile), out=result[:, columns])
    epilogue(result, index)
    np.copyto(out, result, casting="unsafe")


def _accumulate(wide: Array, right: Array, result: Array, scratch: HalfScratch) -> None:
    """Whole rows of the right operand at a time: it is read in the order it lies in memory."""
    for number, depth in enumerate(_spans(right.shape[0], scratch.geometry.tile_depth)):
        tile = _take(scratch.tile, right[depth].shape)
        widen(right[depth], tile)
        if number == 0:
            np.matmul(wide[:, depth], tile, out=result)
        else:
            partial = _take(scratch.partial, result.shape)
            np.matmul(wide[:, depth], tile, out=partial)
            np.add(result, partial, out=result)


def _many_rows(
    left: Array, right: Array, out: Array, scratch: HalfScratch, epilogue: Epilogue, index: tuple[int, ...]
) -> None:
    for rows in _spans(left.shape[0], scratch.geometry.block):
        wide = _take(scratch.left, left[rows].shape)
        widen(left[rows], wide)
        for columns in _spans(right.shape[1], scratch.geometry.tile_columns):
            block = _take(scratch.result, out[rows, columns].shape)
            np.matmul(wide, _widened_columns(right[:, columns], scratch.tile), out=block)
            epilogue(block, (*index, rows, columns))
            np.copyto(out[rows, columns], block, casting="unsafe")

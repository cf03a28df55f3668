"""Seeded random weights, drawn tile by tile so that no order or precision of writing changes their values."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from vramscope.build.quantize import quantize_q4, quantize_q8
from vramscope.build.rope import angles
from vramscope.build.weights import PIECE_ELEMENTS, Storage, WeightKind, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from vramscope.build.weights import Fill, Piece, TensorSpec, Weight
    from vramscope.graph.model import Array

TILE = 512
"""Rows and columns of a tile; each has a generator of its own, seeded by (seed, name, tile row, column)."""


def random_fill(seed: int, deviation: float) -> Fill:
    """Weights of one seed: normal(0, ``deviation``); norm weights are 1 + such a number.

    ``PCG64`` under ``SeedSequence([seed, crc32(name), tile row, tile column])`` draws float64 normals, which
    are rounded to float32 once: the same model in every precision and on every machine. ``deviation`` is
    the configuration's ``initializer_range`` (Hugging Face's default is 0.02).
    """

    def fill(weight: Weight) -> Iterator[Piece]:
        if weight.kind in (WeightKind.COSINE, WeightKind.SINE):
            return table_pieces(weight)
        return _weight_pieces(weight, seed, deviation)

    return fill


def table_pieces(weight: Weight) -> Iterator[Piece]:
    """The cosine or sine table of a weight's rotary settings, some positions at a time."""
    (spec,) = weight.tensors
    assert weight.rope is not None
    function = np.cos if weight.kind is WeightKind.COSINE else np.sin
    count = max(1, PIECE_ELEMENTS // weight.columns)
    for first in range(0, weight.rows, count):
        part = function(angles(weight.rope, 2 * weight.columns, first, min(count, weight.rows - first)))
        values = stored(part, spec)
        yield spec, first * weight.columns * values.itemsize, values


def _weight_pieces(weight: Weight, seed: int, deviation: float) -> Iterator[Piece]:
    if weight.storage is not Storage.DENSE:
        yield from _quantized_pieces(weight, seed, deviation)
        return
    (spec,) = weight.tensors
    offset = 0
    for band in _dense_bands(weight, seed, deviation):
        values = stored(band + 1 if weight.kind is WeightKind.NORM else band, spec)
        yield spec, offset, values
        offset += values.nbytes


def _dense_bands(weight: Weight, seed: int, deviation: float) -> Iterator[npt.NDArray[np.float32]]:
    """Consecutive parts of the stored matrix, TILE stored rows at a time."""
    tile_rows, tile_columns = -(-weight.rows // TILE), -(-weight.columns // TILE)
    if weight.kind is WeightKind.LINEAR:
        for column in range(tile_columns):
            tiles = [_tile(weight, seed, deviation, (row, column)).T for row in range(tile_rows)]
            yield np.concatenate(tiles, axis=1)
        return
    for row in range(tile_rows):
        yield _row_band(weight, seed, deviation, row)


def _row_band(weight: Weight, seed: int, deviation: float, row: int) -> npt.NDArray[np.float32]:
    columns = range(-(-weight.columns // TILE))
    return np.concatenate([_tile(weight, seed, deviation, (row, column)) for column in columns], axis=1)


def _tile(weight: Weight, seed: int, deviation: float, at: tuple[int, int]) -> npt.NDArray[np.float32]:
    shape = (min(TILE, weight.rows - at[0] * TILE), min(TILE, weight.columns - at[1] * TILE))
    sequence = np.random.SeedSequence([seed, zlib.crc32(weight.name.encode()), *at])
    drawn = np.random.Generator(np.random.PCG64(sequence)).standard_normal(shape)
    return (drawn * deviation).astype(np.float32)


def _quantized_pieces(weight: Weight, seed: int, deviation: float) -> Iterator[Piece]:
    for row in range(-(-weight.rows // TILE)):
        band = _row_band(weight, seed, deviation, row)
        parts: tuple[Array, ...] = quantize_q4(band) if weight.storage is Storage.Q4 else quantize_q8(band)
        yield from row_pieces(weight.tensors, parts, row * TILE)


def row_pieces(specs: tuple[TensorSpec, ...], parts: tuple[Array, ...], first_row: int) -> Iterator[Piece]:
    """Places rows ``first_row ...`` of each of a weight's tensors."""
    for spec, part in zip(specs, parts, strict=True):
        values = stored(part, spec)
        yield spec, first_row * (spec.size // spec.shape[0]), values

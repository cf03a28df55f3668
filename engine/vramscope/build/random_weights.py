"""Seeded random weights, drawn tile by tile so that no order or precision of writing changes their values."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.build.quantize import quantize_q4, quantize_q8
from vramscope.build.rope import angles
from vramscope.build.weights import PIECE_ELEMENTS, Storage, WeightKind, stored
from vramscope.build.work import Cancel, never

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from vramscope.build.weights import Fill, Piece, TensorSpec, Weight
    from vramscope.graph.model import Array

    Floats: TypeAlias = npt.NDArray[np.float32]

TILE = 512
"""Rows and columns of a tile; each has a generator of its own, seeded by (seed, name, tile row, column)."""


def random_fill(seed: int, deviation: float, cancel: Cancel = never) -> Fill:
    """Weights of one seed: normal(0, ``deviation``); norm weights are 1 + such a number.

    ``PCG64`` under ``SeedSequence([seed, crc32(name), tile row, tile column])`` draws float64 normals, which
    are rounded to float32 once: the same model in every precision and on every machine. ``deviation`` is
    the configuration's ``initializer_range`` (Hugging Face's default is 0.02). ``cancel`` is asked at every
    tile.
    """
    draw = _Draw(seed, deviation, cancel)

    def fill(weight: Weight) -> Iterator[Piece]:
        if weight.kind in (WeightKind.COSINE, WeightKind.SINE):
            return table_pieces(weight)
        return _dense_pieces(weight, draw) if weight.storage is Storage.DENSE else _coded_pieces(weight, draw)

    return fill


@dataclass(frozen=True, slots=True)
class _Draw:
    """What every tile is drawn from, and whom to ask before."""

    seed: int
    deviation: float
    cancel: Cancel

    def tile(self, weight: Weight, row: int, column: int) -> Floats:
        self.cancel()
        shape = (min(TILE, weight.rows - row * TILE), min(TILE, weight.columns - column * TILE))
        sequence = np.random.SeedSequence([self.seed, zlib.crc32(weight.name.encode()), row, column])
        drawn = np.random.Generator(np.random.PCG64(sequence)).standard_normal(shape)
        return (drawn * self.deviation).astype(np.float32)


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


def _dense_pieces(weight: Weight, draw: _Draw) -> Iterator[Piece]:
    """The stored matrix from top to bottom, about PIECE_ELEMENTS at a time."""
    (spec,) = weight.tensors
    offset = 0
    for part in _columns(weight, draw) if weight.kind is WeightKind.LINEAR else _rows(weight, draw):
        values = stored(part + 1 if weight.kind is WeightKind.NORM else part, spec)
        yield spec, offset, values
        offset += values.nbytes


def _coded_pieces(weight: Weight, draw: _Draw) -> Iterator[Piece]:
    first = 0
    for part in _rows(weight, draw):
        coded: tuple[Array, ...] = quantize_q4(part) if weight.storage is Storage.Q4 else quantize_q8(part)
        yield from row_pieces(weight.tensors, coded, first)
        first += len(part)


def _rows(weight: Weight, draw: _Draw) -> Iterator[Floats]:
    """Consecutive rows of the [rows, columns] matrix."""
    columns = range(-(-weight.columns // TILE))
    for row in range(-(-weight.rows // TILE)):
        yield from _slices([draw.tile(weight, row, column) for column in columns])


def _columns(weight: Weight, draw: _Draw) -> Iterator[Floats]:
    """Consecutive columns of the matrix, as the rows of its transpose: MatMul's layout."""
    rows = range(-(-weight.rows // TILE))
    for column in range(-(-weight.columns // TILE)):
        yield from _slices([draw.tile(weight, row, column).T for row in rows])


def _slices(tiles: list[Floats]) -> Iterator[Floats]:
    """Tiles that stand side by side, joined a few rows at a time."""
    count = max(1, PIECE_ELEMENTS // sum(tile.shape[1] for tile in tiles))
    for first in range(0, len(tiles[0]), count):
        yield np.concatenate([tile[first : first + count] for tile in tiles], axis=1)


def row_pieces(specs: tuple[TensorSpec, ...], parts: tuple[Array, ...], first_row: int) -> Iterator[Piece]:
    """Places rows ``first_row ...`` of each of a weight's tensors."""
    for spec, part in zip(specs, parts, strict=True):
        values = stored(part, spec)
        yield spec, first_row * (spec.size // spec.shape[0]), values

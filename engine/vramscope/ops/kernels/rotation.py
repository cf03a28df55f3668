"""Rotary position embedding of one tile [..., positions, D], in place, with planned spare memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import BindingError

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node


@dataclass(frozen=True, slots=True)
class Rotation:
    """Angles of one batch entry.

    Attributes:
        cos: [positions, R/2], R channels are rotated and the rest passes through.
        sin: as ``cos``.
        positions: the row of the cache for each position of the batch entry, or the row of the first one.
        interleaved: pairs are (2i, 2i+1) and not (i, i + R/2).
    """

    cos: Array
    sin: Array
    positions: Array | int
    interleaved: bool = False

    def angles(self, start: int, rows: int) -> tuple[Array, Array]:
        """Cosines and sines [rows, R/2] of positions [start, start + rows) of the batch entry."""
        if isinstance(self.positions, int):
            first = self.positions + start
            return self.cos[first : first + rows], self.sin[first : first + rows]
        index = self.positions[start : start + rows].astype(np.intp)
        return np.take(self.cos, index, axis=0), np.take(self.sin, index, axis=0)


def rotate(tile: Array, rotation: Rotation, start: int, spare: Array) -> None:
    """Rotate ``tile`` in place: (x, y) → (x·cos − y·sin, x·sin + y·cos).

    Args:
        tile: [heads…, rows, D] in float32 or float64; row 0 is position ``start`` of the batch entry.
        rotation: the angles.
        start: position of row 0.
        spare: flat memory of at least R numbers a row.
    """
    cos, sin = rotation.angles(start, tile.shape[-2])
    half = cos.shape[1]
    lead = tile.shape[:-1]
    if rotation.interleaved:
        pairs = tile[..., : 2 * half].reshape(*lead, half, 2).swapaxes(-1, -2)
    else:
        pairs = tile[..., : 2 * half].reshape(*lead, 2, half)
    crossed = spare[: pairs.size].reshape(*lead, 2, half)
    np.multiply(pairs[..., ::-1, :], sin[:, None], out=crossed, casting="unsafe")
    np.multiply(pairs, cos[:, None], out=pairs, casting="unsafe")
    first, second = pairs[..., 0, :], pairs[..., 1, :]
    np.subtract(first, crossed[..., 0, :], out=first)
    np.add(second, crossed[..., 1, :], out=second)


def check_positions(lowest: int, highest: int, rows: int, node: Node) -> None:
    """Every position must be a row of the cos/sin cache.

    Raises:
        BindingError: a position is negative or past the cache's end.
    """
    if lowest < 0 or highest >= rows:
        wrong = lowest if lowest < 0 else highest
        raise BindingError(
            f"position {wrong:,} of {node.qualified}",
            f"the cos/sin cache has rows for positions 0 to {rows - 1:,}",
            "Use a shorter context, or a model exported with a longer rotary cache",
            node.name,
        )

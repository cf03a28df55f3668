"""How much scratch one attention node takes and how it is laid out: the estimator and the kernel ask here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels.planned import lay_out, regions_of

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call

ROWS = 1024
"""Query rows (heads × positions) that one tile holds at most, unless there are more heads than that."""
SCORES = 1 << 19
"""Scores that one tile holds at most (2 MiB of float32), unless one position of one head group needs more."""
WIDENED = 1 << 18
"""Keys or values that are widened at once, in elements."""
_TILES = ("queries", "outputs", "scores", "widened")


@dataclass(frozen=True, slots=True)
class AttentionExtent:
    """What the scratch of an attention node depends on.

    Attributes:
        heads: query heads; ``kv_heads`` divides it.
        kv_heads: key/value heads.
        queries: query positions of one batch entry.
        keys: the most keys one query can meet (physical extent, not the valid length).
        width: the larger of the key's and the value's head size.
        itemsize: bytes of one number in arithmetic (4; 8 for double).
        widen: keys and values are stored in another type than arithmetic uses.
    """

    heads: int
    kv_heads: int
    queries: int
    keys: int
    width: int
    itemsize: int = 4
    widen: bool = False

    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The regions every attention kernel has, as (name, bytes).

        The query and output tiles hold at least one position of every head, the score tile at least one
        position of one head group, the widened tile at least sixteen positions of every head.
        """
        rows = min(self.heads * self.queries, max(self.heads, ROWS))
        group_row = self.heads // max(self.kv_heads, 1) * self.keys
        scores = min(rows * self.keys, max(group_row, SCORES))
        position = self.kv_heads * self.width
        widened = min(position * self.keys, max(position * 16, WIDENED)) if self.widen else 0
        tile = rows * self.width * self.itemsize
        return (
            ("queries", tile),
            ("outputs", tile),
            ("scores", scores * self.itemsize),
            ("widened", widened * self.itemsize),
        )


@dataclass(frozen=True, slots=True)
class Scratch:
    """The planned tiles of one attention node, flat, in the type of its arithmetic."""

    queries: Array
    outputs: Array
    scores: Array
    widened: Array
    bytes: dict[str, Array]
    """Every further region of the node, as bytes."""

    def rows(self, width: int) -> int:
        """Rows of ``width`` numbers that the query tile holds."""
        return self.queries.size // max(width, 1)


def take_scratch(call: Call, sizes: tuple[tuple[str, int], ...], compute: np.dtype[np.generic]) -> Scratch:
    """The tiles of ``call``'s planned workspace.

    Raises:
        VramscopeError: less is prepared than the node needs.
    """
    empty = np.empty(0, np.uint8)
    parts = regions_of(call, lay_out("attention tiles", dict(sizes)))
    queries, outputs, scores, widened = (parts.pop(name, empty).view(compute) for name in _TILES)
    return Scratch(queries, outputs, scores, widened, parts)

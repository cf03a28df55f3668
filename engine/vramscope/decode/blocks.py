"""Blocks of a paged cache: a free list, and a block table a sequence that grows inside the reserved pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import InputError
from vramscope.run.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.decode.feeds import Feeds
    from vramscope.decode.session_state import RunState
    from vramscope.graph.model import Array
    from vramscope.plan.pool import BlockPool
    from vramscope.run.runner import Runner

UNMAPPED = -1
"""Stands in a block table where a sequence has no block."""


@dataclass(frozen=True, slots=True)
class BlockUse:
    """How much of a pool is in use: blocks taken of all, positions held by them, and positions used."""

    block_size: int
    blocks: int
    taken: int
    held: int
    used: int


class BlockTables:
    """The blocks of one batch of sequences. Nothing is copied: a sequence that grows is given more blocks."""

    def __init__(self, pool: BlockPool, batch: int) -> None:
        """All blocks are free."""
        self.pool = pool
        self.batch = batch
        self.restart([0] * batch)

    def restart(self, lengths: Sequence[int]) -> None:
        """Takes every block back; the sequences to come have these lengths, and grow together."""
        self._free = list(range(self.pool.blocks))[::-1]
        self._tables: list[list[int]] = [[] for _ in range(self.batch)]
        longest = max(lengths)
        self._shorter = [longest - length for length in lengths]

    def hold(self, position: int) -> bool:
        """Gives every sequence blocks for its positions; whether any was given.

        Args:
            position: tokens of the longest sequence.

        Raises:
            InputError: the pool has too few free blocks; no sequence was given any.
        """
        missing = [self._missing(entry, position) for entry in range(self.batch)]
        if sum(missing) > len(self._free):
            pool = self.pool
            raise InputError(
                f"position {position:,}",
                f"it takes {sum(missing):,} more blocks of {pool.block_size:,} tokens, and of the KV pool's "
                f"{pool.blocks:,} blocks {len(self._free):,} are free",
                "Plan more blocks (--kv-blocks), a smaller batch or shorter prompts",
            )
        for table, count in zip(self._tables, missing, strict=True):
            table.extend(self._free.pop() for _ in range(count))
        return any(missing)

    def _missing(self, entry: int, position: int) -> int:
        wanted = self.pool.count(max(position - self._shorter[entry], 0))
        return max(wanted - len(self._tables[entry]), 0)

    def room(self, limit: int) -> int:
        """The most tokens, ``limit`` at most, that the longest sequence can have before the pool ends."""
        low, high = 0, min(limit, self.pool.table * self.pool.block_size)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.fits(middle) else (low, middle - 1)
        return low

    def fits(self, position: int) -> bool:
        """Whether there are blocks for so many tokens of the longest sequence."""
        missing = sum(self._missing(entry, position) for entry in range(self.batch))
        return missing <= len(self._free) and position <= self.pool.table * self.pool.block_size

    def reach(self) -> int:
        """The tokens that the longest sequence can have before any sequence needs another block."""
        size = self.pool.block_size
        return min(len(table) * size + less for table, less in zip(self._tables, self._shorter, strict=True))

    def table(self) -> Array:
        """The block table, int32 [batch, blocks a sequence]; −1 where a sequence has none."""
        found = np.full((self.batch, self.pool.table), UNMAPPED, np.int32)
        for row, blocks in zip(found, self._tables, strict=True):
            row[: len(blocks)] = blocks
        return found

    def use(self, position: int) -> BlockUse:
        """What is taken when the longest sequence has ``position`` tokens."""
        taken = sum(map(len, self._tables))
        used = sum(max(position - less, 0) for less in self._shorter)
        size = self.pool.block_size
        return BlockUse(size, self.pool.blocks, taken, taken * size, used)


def hold_blocks(runner: Runner, feeds: Feeds, run: RunState, position: int) -> None:
    """Gives a session's sequences blocks for so many tokens and says so, where the cache is paged.

    Raises:
        InputError: the pool has too few free blocks; nothing changed.
    """
    uploaded = feeds.hold(position)
    if uploaded and feeds.blocks is not None:
        run.uploaded(uploaded)
        use = feeds.blocks.use(position)
        runner.say(
            EventKind.GROW, "KV blocks", f"{use.taken:,} of {use.blocks:,} are taken", step=run.position
        )

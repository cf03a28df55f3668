"""Live memory as series of numbers: bytes and allocation counts over time and per step, bounded in length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vramscope.messages.live import SnapshotInfo, TokenInfo

CAPACITY = 20_000
"""Points a series keeps; older ones fall off."""


class Series:
    """Points appended at the end, the oldest dropped beyond a capacity."""

    def __init__(self, columns: int, capacity: int = CAPACITY) -> None:
        self._data = np.zeros((2 * capacity, columns), np.float64)
        self._capacity = capacity
        self._start = self._stop = 0

    def __len__(self) -> int:
        return self._stop - self._start

    def append(self, *values: float) -> None:
        """One point."""
        if self._stop == len(self._data):
            kept = self._data[self._start : self._stop].copy()
            self._data[: len(kept)] = kept
            self._start, self._stop = 0, len(kept)
        self._data[self._stop] = values
        self._stop += 1
        self._start = max(self._start, self._stop - self._capacity)

    def column(self, index: int) -> NDArray[np.float64]:
        """The values of one column, oldest first (a view, shape ``(points,)``)."""
        column: NDArray[np.float64] = self._data[self._start : self._stop, index]
        return column

    def last(self) -> NDArray[np.float64]:
        """The newest point, shape ``(columns,)``."""
        point: NDArray[np.float64] = self._data[self._stop - 1]
        return point

    def clear(self) -> None:
        """Forgets every point."""
        self._start = self._stop = 0


class LiveSeries:
    """What the plots draw, fed by tokens and snapshots in the order in which they arrive.

    Counts come from the ledger alone, through snapshots: a step is drawn once the snapshot after it is here.
    """

    def __init__(self) -> None:
        self.time = Series(3)
        """Seconds since the run began, bytes held, allocations ever made."""
        self.steps = Series(4)
        """Step, allocations in it, bytes held after it, 1 when it was replayed."""
        self._waiting: list[TokenInfo] = []
        self._count = 0
        self._origin: float | None = None

    def clear(self) -> None:
        """A run begins; the ledger goes on counting."""
        self.time.clear()
        self.steps.clear()
        self._waiting = []
        self._origin = None

    def add_token(self, token: TokenInfo) -> None:
        """A step has ended; the next snapshot says what it allocated."""
        self._waiting.append(token)

    def add_snapshot(self, snapshot: SnapshotInfo) -> None:
        """The ledger's numbers, after every step that came before."""
        if self._origin is None:
            self._origin = snapshot.seconds
        total = sum(item.total_count for item in snapshot.counters)
        made = total - self._count if total >= self._count else total
        self._count = total
        self.time.append(snapshot.seconds - self._origin, snapshot.allocated_bytes, total)
        tokens, self._waiting = self._waiting, []
        counts = shares(made, len(tokens), snapshot.allocations_last_step)
        for token, count in zip(tokens, counts, strict=True):
            self.steps.append(token.step, count, snapshot.allocated_bytes, float(token.replayed))


def shares(made: int, steps: int, last: int) -> list[int]:
    """Allocations of each of ``steps`` steps of which only the sum and the last one's are known.

    What is not the last one's is the first one's: steps in the middle of a run allocate nothing, and if one
    did, the sum would say so.
    """
    if not steps:
        return []
    final = min(last, made) if steps > 1 else made
    counts = [0] * steps
    counts[-1] = final
    counts[0] += made - final
    return counts

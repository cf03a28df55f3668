"""Live memory as series of numbers: bytes and allocation counts over time and per step, bounded in length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vramscope.messages.live import EventInfo, SnapshotInfo, TokenInfo

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
    """What the plots draw, fed by events, tokens and snapshots in the order in which they arrive.

    Events and snapshots are timed by two clocks with different origins; both are laid upon one axis that
    begins at 0 with the run.
    """

    def __init__(self) -> None:
        self.time = Series(3)
        """Seconds, bytes held, allocations ever made."""
        self.steps = Series(4)
        """Step, allocations in it, bytes held after it, 1 when it was replayed."""
        self._bytes = 0
        self._count = 0
        self._since_token = 0
        self._event_origin: float | None = None
        self._snapshot_origin: float | None = None

    def clear(self) -> None:
        """As before anything ran."""
        self.time.clear()
        self.steps.clear()
        self._bytes = self._count = 0
        self._since_token = 0
        self._event_origin = self._snapshot_origin = None

    def add_events(self, events: Sequence[EventInfo]) -> None:
        """Allocations and releases move the held bytes and the count."""
        for event in events:
            if event.kind == "allocate":
                self._bytes += event.bytes
                self._count += 1
                self._since_token += 1
            elif event.kind == "release":
                self._bytes -= event.bytes
            else:
                continue
            if self._event_origin is None:
                self._event_origin = event.seconds - self._newest()
            self._point(event.seconds - self._event_origin)

    def add_snapshot(self, snapshot: SnapshotInfo) -> None:
        """What the ledger says is the truth: it corrects what lost events left behind."""
        self._bytes = snapshot.allocated_bytes
        self._count = sum(item.total_count for item in snapshot.counters)
        if self._snapshot_origin is None:
            self._snapshot_origin = snapshot.seconds - self._newest()
        self._point(snapshot.seconds - self._snapshot_origin)

    def _newest(self) -> float:
        return float(self.time.last()[0]) if len(self.time) else 0.0

    def _point(self, seconds: float) -> None:
        self.time.append(max(seconds, self._newest()), self._bytes, self._count)

    def add_token(self, token: TokenInfo) -> None:
        """A step has ended: its allocations are those since the step before."""
        made, self._since_token = self._since_token, 0
        if len(self.steps) and token.step <= self.steps.last()[0]:
            self.steps.clear()
        self.steps.append(token.step, made, self._bytes, float(token.replayed))

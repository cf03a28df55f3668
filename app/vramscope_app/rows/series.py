"""Points in bounded buffers, and their peaks: what is drawn costs the same however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CAPACITY = 250_000
"""Points a series keeps; older ones fall off."""
FIRST_ROOM = 4096
"""Points that a series has room for before it grows."""


class Series:
    """Points appended at the end, the oldest dropped beyond a capacity; the buffer grows as it fills."""

    def __init__(self, columns: int, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._most = capacity + max(capacity // 4, 1)
        self._data = np.empty((columns, min(FIRST_ROOM, self._most)), np.float64)
        self._start = self._stop = 0

    def __len__(self) -> int:
        return self._stop - self._start

    def append(self, *values: float) -> None:
        """One point."""
        if self._stop == self._data.shape[1]:
            self._make_room()
        self._data[:, self._stop] = values
        self._stop += 1
        self._start = max(self._start, self._stop - self._capacity)

    def _make_room(self) -> None:
        """Moves what is kept to the front, of a larger buffer while the capacity allows one."""
        kept, count = self._data[:, self._start : self._stop], len(self)
        room = min(2 * count, self._most)
        if room > self._data.shape[1]:
            self._data = np.empty((len(kept), room), np.float64)
        for row, values in zip(self._data, kept, strict=True):  # a row at a time: numpy copies what overlaps
            row[:count] = values
        self._start, self._stop = 0, count

    def column(self, index: int) -> Floats:
        """The values of one column, oldest first (a view, shape ``(points,)``)."""
        column: Floats = self._data[index, self._start : self._stop]
        return column

    def last(self) -> Floats:
        """The newest point, shape ``(columns,)``."""
        point: Floats = self._data[:, self._stop - 1]
        return point

    def clear(self) -> None:
        """Forgets every point."""
        self._start = self._stop = 0


def peaks(x: Floats, y: Floats, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
    """The points between ``low`` and ``high``; of more than a few a column the least and the largest.

    Args:
        x: ascending, shape ``(points,)``.
        y: beside it; NaN where there is none.
        low: where the picture begins.
        high: where it ends.
        columns: pixels across.

    Returns:
        At most ``2 * columns + 4`` points in the same order; no peak is lost.
    """
    first = max(int(np.searchsorted(x, low)) - 1, 0)
    stop = min(int(np.searchsorted(x, high, "right")) + 1, len(x))
    x, y = x[first:stop], y[first:stop]
    if len(x) <= 2 * columns:
        return x, y
    starts = np.arange(0, len(x), -(-len(x) // columns))
    least, most = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)
    places = np.append(np.repeat(x[starts], 2), x[-1])
    return places, np.append(np.column_stack([least, most]).ravel(), y[-1])

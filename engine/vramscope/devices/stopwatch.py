"""Time between marks on a device: how long each node of a step took."""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter
from typing import Protocol


class Stopwatch(Protocol):
    """Marks are set while work is issued; they are read when it is done."""

    def mark(self, step: int = -1) -> None:
        """Sets a mark behind everything issued so far: the end of a step of the program, or a beginning."""

    def take(self) -> tuple[tuple[int, float], ...]:
        """Each step with the seconds since the mark before it; forgets the marks, waits for the last."""


class HostStopwatch:
    """Work is done when its call returns, so the clock's reading is the mark."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []

    def mark(self, step: int = -1) -> None:
        """Reads the clock."""
        self._marks.append((step, perf_counter()))

    def take(self) -> tuple[tuple[int, float], ...]:
        """Seconds up to the mark of each step."""
        marks, self._marks = self._marks, []
        pairs = pairwise(marks)
        return tuple((step, end - start) for (_, start), (step, end) in pairs if step >= 0)

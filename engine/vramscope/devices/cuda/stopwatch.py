"""Time between marks on the card: an event behind each launch, read once the last one is reached."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


class EventStopwatch:
    """Events of one stream (CUDA runtime, event management), good to about half a microsecond.

    An event between two launches keeps the second from beginning while the first one ends: a timed step is
    longer than a step by itself.
    """

    def __init__(self, runtime: Any, stream: Any) -> None:  # noqa: ANN401 - CuPy has no types
        self._runtime, self._stream = runtime, stream
        self._spare: list[int] = []
        self._marks: list[tuple[int, int]] = []

    def mark(self, step: int = -1) -> None:
        """Records an event behind what was issued."""
        event = self._spare.pop() if self._spare else self._runtime.eventCreate()
        self._runtime.eventRecord(event, self._stream.ptr)
        self._marks.append((step, event))

    def take(self) -> tuple[tuple[int, float], ...]:
        """Seconds up to the event of each step; the events are used again."""
        marks, self._marks = self._marks, []
        if marks:
            self._runtime.eventSynchronize(marks[-1][1])
        self._spare += [event for _, event in marks]
        elapsed, pairs = self._runtime.eventElapsedTime, pairwise(marks)
        return tuple((step, elapsed(start, end) / 1000) for (_, start), (step, end) in pairs if step >= 0)

    def __del__(self) -> None:
        """Gives the events back."""
        for event in (*self._spare, *(event for _, event in self._marks)):
            self._runtime.eventDestroy(event)

"""Large uploads through page-locked memory: several threads fill pieces of it while the card fetches others.

A copy straight from pageable or mapped memory waits for one thread of the driver; weights come several times
as fast this way.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vramscope.graph.model import Array

PIECE = 2 * 2**20
"""Bytes of one piece."""
MOST_THREADS = 8
"""Threads that fill pieces at most: the bus is full with as many."""
STAGED_BYTES = 2**20
"""Uploads from this size on are worth the page-locked memory."""
UNTIMED = 2
"""``cudaEventDisableTiming``."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A piece that is being filled: its slot, where it goes, how much it is."""

    slot: int
    target: int
    size: int
    filled: Future[Any]


class Staging:
    """A ring of page-locked pieces for one stream; taken when it is first needed, given back by ``close``."""

    def __init__(self, runtime: Any, stream: int, threads: int = 0) -> None:  # noqa: ANN401 - CuPy has no types
        """Nothing is taken yet.

        Args:
            runtime: CuPy's ``cupy.cuda.runtime``.
            stream: the handle of the stream that copies follow.
            threads: that fill pieces; 0: as many as are of use here.
        """
        self._runtime = runtime
        self._stream = stream
        self._threads = threads or min(MOST_THREADS, len(os.sched_getaffinity(0)))
        self._base = 0
        self._events: list[int] = []
        self._pool: ThreadPoolExecutor | None = None
        self._turn = 0

    def copy(self, target: int, source: Array) -> None:
        """Copies a contiguous host array to a device address; returns once the array has been read."""
        pool, start, size = self._opened(), source.__array_interface__["data"][0], source.nbytes
        jobs: deque[_Job] = deque()
        for offset in range(0, size, PIECE):
            if len(jobs) == len(self._events):
                self._send(jobs.popleft())
            slot, self._turn = self._turn, (self._turn + 1) % len(self._events)
            self._runtime.eventSynchronize(self._events[slot])
            count = min(PIECE, size - offset)
            filled = pool.submit(ctypes.memmove, self._base + slot * PIECE, start + offset, count)
            jobs.append(_Job(slot, target + offset, count, filled))
        while jobs:
            self._send(jobs.popleft())

    def close(self) -> None:
        """Gives everything back; nothing may be under way."""
        if self._pool is None:
            return
        self._pool.shutdown()
        for event in self._events:
            self._runtime.eventDestroy(event)
        self._runtime.freeHost(self._base)
        self._pool, self._events, self._base, self._turn = None, [], 0, 0

    def _opened(self) -> ThreadPoolExecutor:
        if self._pool is None:
            slots = 2 * self._threads
            self._base = self._runtime.hostAlloc(slots * PIECE, 0)
            self._events = [self._runtime.eventCreateWithFlags(UNTIMED) for _ in range(slots)]
            self._pool = ThreadPoolExecutor(self._threads, "upload")
        return self._pool

    def _send(self, job: _Job) -> None:
        job.filled.result()
        kind, runtime = self._runtime.memcpyHostToDevice, self._runtime
        runtime.memcpyAsync(job.target, self._base + job.slot * PIECE, job.size, kind, self._stream)
        runtime.eventRecord(self._events[job.slot], self._stream)

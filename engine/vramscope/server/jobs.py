"""Requests in line for the device thread: one runs, the others wait, and any of them can be cancelled."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vramscope.errors import CancelledError

if TYPE_CHECKING:
    from vramscope.protocol import Request


@dataclass(frozen=True, slots=True)
class Job:
    """One request and its cancel flag."""

    request: Request
    flag: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Called by long work between nodes and tensors.

        Raises:
            CancelledError: the user asked to stop.
        """
        if self.flag.is_set():
            raise cancelled(self.request.method)


def cancelled(method: str) -> CancelledError:
    """The error of a request that was stopped."""
    return CancelledError(f"{method}", "it was cancelled", "The session is as it was; ask again")


class JobQueue:
    """A first-in first-out line; a newer ``plan`` pushes out older ones that still wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._closed = False

    def put(self, request: Request) -> list[Request]:
        """Adds a request; returns the waiting plan requests that it makes pointless."""
        with self._changed:
            stale = self._waiting_plans() if request.method == "plan" else []
            for job in stale:
                self._waiting.remove(job)
            self._waiting.append(Job(request))
            self._changed.notify()
            return [job.request for job in stale]

    def _waiting_plans(self) -> list[Job]:
        return [job for job in self._waiting if job.request.method == "plan"]

    def take(self) -> Job | None:
        """Ends the running job and waits for the next; None once closed."""
        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            self._running = self._waiting.popleft()
            return self._running

    def cancel(self, identity: int) -> tuple[bool, Request | None]:
        """Flags the running job or takes a waiting one out.

        Returns:
            Whether the request was there, and the waiting request that must now be answered as cancelled.
        """
        with self._changed:
            if self._running is not None and self._running.request.id == identity:
                self._running.flag.set()
                return True, None
            for job in self._waiting:
                if job.request.id == identity:
                    self._waiting.remove(job)
                    return True, job.request
        return False, None

    def close(self) -> None:
        """Cancels the running job, forgets the waiting ones, ends :meth:`take`."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            if self._running is not None:
                self._running.flag.set()
            self._changed.notify()

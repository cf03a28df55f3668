"""What the server says, in order: answers at once, everything live in one write at most every 33 ms.

Any thread may put things in; one thread writes. The thread that owns the device is never held up by a slow
reader: events beyond a bound are dropped and counted, progress and snapshots keep only the newest.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from vramscope.messages.live import EventInfo, Events, Progress, SnapshotInfo
from vramscope.protocol import Answer, Failure, Message, Notification, pack, raw
from vramscope.server.streams import write_all

if TYPE_CHECKING:
    import msgspec

INTERVAL = 1 / 30
"""Seconds between two writes of live notifications."""

BATCH = 512
"""Events in one notification."""

CAPACITY = 16 * BATCH
"""Events that wait at most; later ones are dropped and counted."""


@dataclass(slots=True)
class Live:
    """What waits to be said and may be merged: events, and the newest progress and snapshot."""

    events: list[EventInfo] = field(default_factory=list)
    dropped: int = 0
    progress: Progress | None = None
    snapshot: SnapshotInfo | None = None

    def frames(self) -> list[bytes]:
        """Everything as frames, oldest kind first."""
        said: list[bytes] = []
        if self.progress is not None:
            said.append(notification("progress", self.progress))
        for start in range(0, len(self.events), BATCH):
            batch = self.events[start : start + BATCH]
            dropped = self.dropped if start + BATCH >= len(self.events) else 0
            said.append(notification("events", Events(events=batch, dropped=dropped)))
        if self.snapshot is not None:
            said.append(notification("snapshot", self.snapshot))
        return said

    def __bool__(self) -> bool:
        return bool(self.events) or self.progress is not None or self.snapshot is not None


def notification(method: str, params: msgspec.Struct) -> bytes:
    """One notification as a frame."""
    return pack(Notification(method=method, params=raw(params)))


class Outbox:
    """Collects messages from every thread and writes them from its own."""

    def __init__(self, fd: int) -> None:
        """Starts the writing thread. ``fd`` is written until :meth:`close`."""
        self._fd = fd
        self._changed = threading.Condition()
        self._frames: deque[bytes] = deque()
        self._live = Live()
        self._urgent = False
        self._closed = False
        self._thread = threading.Thread(target=self._write_until_closed, name="outbox", daemon=True)
        self._thread.start()

    def send(self, message: Answer | Failure) -> None:
        """Puts an answer after everything live that came before it, and has it written now.

        Raises:
            ProtocolError: it is larger than a frame may be; nothing was put.
        """
        self._append(message, urgent=True)

    def notify(self, method: str, params: msgspec.Struct) -> None:
        """Puts a notification that must arrive, in order: a token, a table's chunk.

        Raises:
            ProtocolError: it is larger than a frame may be; nothing was put.
        """
        self._append(Notification(method=method, params=raw(params)), urgent=False)

    def _append(self, message: Message, *, urgent: bool) -> None:
        frame = pack(message)
        with self._changed:
            self._settle()
            self._frames.append(frame)
            self._urgent = self._urgent or urgent
            self._changed.notify()

    def event(self, info: EventInfo) -> None:
        """Puts an event; when :data:`CAPACITY` wait already it is only counted."""
        with self._changed:
            if len(self._live.events) >= CAPACITY:
                self._live.dropped += 1
                return
            self._live.events.append(info)
            self._changed.notify()

    def progress(self, info: Progress) -> None:
        """Puts progress in the place of older progress."""
        with self._changed:
            self._live.progress = info
            self._changed.notify()

    def snapshot(self, info: SnapshotInfo) -> None:
        """Puts a snapshot in the place of an older one."""
        with self._changed:
            self._live.snapshot = info
            self._changed.notify()

    def close(self, timeout: float = 2.0) -> None:
        """Writes what waits and ends the thread, within ``timeout`` seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout)

    def _settle(self) -> None:
        """Live things become frames, so that what is put next comes after them. Holds the lock."""
        if self._live:
            self._frames.extend(self._live.frames())
            self._live = Live()

    def _write_until_closed(self) -> None:
        written = 0.0
        while (data := self._next(written)) is not None:
            try:
                write_all(self._fd, data)
            except OSError:
                return
            written = monotonic()

    def _next(self, written: float) -> bytes | None:
        """What to write next: waits for something, then for its time; None once closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._frames or self._live or self._closed)
            rest = written + INTERVAL - monotonic()
            if rest > 0:
                self._changed.wait_for(self._at_once, rest)
            self._settle()
            data = b"".join(self._frames)
            self._frames.clear()
            self._urgent = False
            return data or None

    def _at_once(self) -> bool:
        return self._urgent or self._closed or len(self._live.events) >= BATCH

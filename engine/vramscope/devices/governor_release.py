"""Releases that wait for the device, and buffers that stay because a graph may still use them.

Work that was launched may still use a buffer that its owner no longer needs. It is retired with a question
that says when the device is done; only then is it freed, and only then does the free count (semantics 1.8,
2.10).
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import ReleasePendingError, VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

SETTLE_SECONDS = 30.0
"""How long a replacement waits for the old workspace (semantics 1.8)."""

POLL_SECONDS = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class PendingRelease:
    """One retired buffer: a barrier waits for its ``owner``; ``ready`` tells if the device is done."""

    owner: Hashable
    size: int
    ready: Callable[[], bool]
    free: Callable[[], None]


class DeferredReleases:
    """Retired buffers of one device. Any thread may retire; freeing is done by whoever polls or settles."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        """``clock`` and ``sleep``: in seconds."""
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._pending: list[PendingRelease] = []
        self._held = 0

    @property
    def pending(self) -> tuple[PendingRelease, ...]:
        """What is retired and not freed yet, oldest first."""
        with self._lock:
            return tuple(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Bytes that are retired and not freed yet."""
        return sum(item.size for item in self.pending)

    def retire(
        self, owner: Hashable, size: int, ready: Callable[[], bool], free: Callable[[], None]
    ) -> PendingRelease:
        """Hands a buffer over. ``free`` is called exactly once, after ``ready`` said yes."""
        item = PendingRelease(owner, size, ready, free)
        with self._lock:
            self._pending.append(item)
        return item

    def poll(self) -> int:
        """Frees everything that the device is done with; returns how many buffers that was."""
        return self._free_ready(self.pending)

    def settle(self, owner: Hashable, timeout: float = SETTLE_SECONDS) -> None:
        """Waits until every release of ``owner`` is done; other releases do not matter.

        Raises:
            ReleasePendingError: not within ``timeout`` seconds. Nothing is lost: settle again.
        """
        deadline = self._clock() + timeout
        while mine := tuple(item for item in self.pending if item.owner == owner):
            if self._free_ready(mine):
                continue
            if self._clock() >= deadline:
                raise ReleasePendingError(
                    what=f"the release of {sum(item.size for item in mine):,} bytes of {owner}",
                    why=f"the device was not done with it within {timeout:g} s",
                    remedy="Wait for the device and try again",
                )
            self._sleep(POLL_SECONDS)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Frees nothing inside the block: a graph is being captured, and a free would be illegal."""
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1

    def _free_ready(self, items: tuple[PendingRelease, ...]) -> int:
        return sum(self._free_one(item) for item in items if item.ready())

    def _free_one(self, item: PendingRelease) -> bool:
        """Frees one, unless another thread took it first or frees are held back."""
        with self._lock:
            if self._held or item not in self._pending:
                return False
            self._pending.remove(item)
        item.free()
        return True


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A buffer that stays allocated because retiring its graph failed: a replay may still touch it."""

    what: str
    size: int
    why: str
    retire_graph: Callable[[], object]
    free: Callable[[], None]


class Quarantine:
    """Buffers that may not be freed. They stay charged, and are shown as what they are."""

    def __init__(self) -> None:
        self._items: list[Quarantined] = []

    @property
    def items(self) -> tuple[Quarantined, ...]:
        """What is held, oldest first."""
        return tuple(self._items)

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return sum(item.size for item in self._items)

    def drop(
        self, what: str, size: int, retire_graph: Callable[[], object], free: Callable[[], None]
    ) -> bool:
        """Retires the graph over a buffer, then frees the buffer; True when both are done (semantics 2.6).

        When the graph cannot be retired, the buffer is kept here instead.

        Args:
            what: the buffer's name.
            size: its bytes.
            retire_graph: resets the graph; raises VramscopeError when it could not.
            free: gives the buffer back.
        """
        try:
            retire_graph()
        except VramscopeError as failure:
            self._items.append(Quarantined(what, size, str(failure), retire_graph, free))
            return False
        free()
        return True

    def retry(self) -> int:
        """Tries each held buffer once more; returns how many bytes were freed."""
        items, self._items = self._items, []
        return sum(
            item.size for item in items if self.drop(item.what, item.size, item.retire_graph, item.free)
        )

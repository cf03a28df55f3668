"""What a running request says while it runs and must ask: progress, cancel, events, tokens, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.run.events import (
    CancelCheck,
    EventSink,
    Progress,
    ignore_event,
    ignore_progress,
    never_cancelled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.messages.live import SnapshotInfo, TokenInfo


def ignore_token(_token: TokenInfo) -> None:
    """A token callback for callers that do not listen."""


def ignore_snapshot(_build: Callable[[], SnapshotInfo], *, final: bool) -> None:
    """A snapshot callback for callers that do not listen."""


@dataclass(frozen=True, slots=True)
class Listener:
    """The callbacks of one request, all called from the thread that owns the device.

    ``snapshot`` is offered a way to build a snapshot at every step and may leave it unused; ``final`` means
    that the request is about to end.
    """

    progress: Progress = ignore_progress
    cancel: CancelCheck = never_cancelled
    event: EventSink = ignore_event
    token: Callable[[TokenInfo], None] = ignore_token
    snapshot: SnapshotOffer = ignore_snapshot


if TYPE_CHECKING:
    from typing import Protocol

    class SnapshotOffer(Protocol):
        """Takes a way to build a snapshot."""

        def __call__(self, build: Callable[[], SnapshotInfo], /, *, final: bool) -> None:
            """Builds and shows one, or leaves it."""

"""What happens while running, as small frozen facts that the window and the command line show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class EventKind(Enum):
    """The kinds of things that happen."""

    ALLOCATE = "allocate"
    RELEASE = "release"
    PHASE = "phase"
    CAPTURE = "capture"
    DECLINE = "decline"
    REPLAY = "replay"
    INVALIDATE = "invalidate"
    TRANSFER = "transfer"
    GROW = "grow"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: seconds since the session began, step, subject and bytes."""

    seconds: float
    kind: EventKind
    step: int
    subject: str
    text: str
    bytes: int = 0
    component: str = ""


EventSink: TypeAlias = Callable[[Event], None]
Progress: TypeAlias = Callable[[str, int, int], None]
"""``(stage, done, total)``; total 0 means not known."""
CancelCheck: TypeAlias = Callable[[], None]
"""Raises ``CancelledError`` once the user has asked to stop; called between nodes and between tensors."""


def ignore_event(_event: Event) -> None:
    """An event sink for callers that do not listen."""


def ignore_progress(_stage: str, _done: int, _total: int) -> None:
    """A progress callback for callers that do not listen."""


def never_cancelled() -> None:
    """A cancel check that never cancels."""

"""What changes while a decode session runs: position, counts, the bound step; and what verification saves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.types import Transfers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Array


class StepKind(Enum):
    """How a step ran."""

    PREFILL = "prefill"
    EAGER = "eager"
    SLOWED = "slowed"
    """Eager, while temporaries are measured or a graph is recorded: slower than itself."""
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Started:
    """A step under way: its phase, the clock at its beginning, the number of allocations before it."""

    phase: str
    seconds: float
    allocations: int


@dataclass(slots=True, eq=False)
class RunState:
    """The mutable part of a decode session."""

    position: int = 0
    capacity: int = 0
    carried: int = 0
    """Valid rows of past buffers that present ones stand apart from."""
    finished: str = ""
    eager_steps: int = 0
    timed_steps: int = 0
    replayed_steps: int = 0
    eager_seconds: float = 0.0
    replayed_seconds: float = 0.0
    allocations: int = 0
    transfers: Transfers = field(default_factory=Transfers)
    warmed: frozenset[int] = frozenset()
    tokens: tuple[int, ...] = ()
    """The last one of every sequence, as the host knows it."""
    logits: Array = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def uploaded(self, size: int) -> None:
        """Counts one upload, unless nothing had to be."""
        if size == 0:
            return
        old = self.transfers
        self.transfers = replace(old, uploads=old.uploads + 1, upload_bytes=old.upload_bytes + size)

    def downloaded(self, size: int) -> None:
        """Counts one download."""
        old = self.transfers
        self.transfers = replace(old, downloads=old.downloads + 1, download_bytes=old.download_bytes + size)

    def count(self, seconds: float, allocations: int, kind: StepKind, steps: int = 1) -> None:
        """Counts a step, or several that ran as one.

        A slowed step counts as a step, but not in the eager speed.
        """
        self.allocations = allocations
        if kind is StepKind.REPLAY:
            self.replayed_steps += steps
            self.replayed_seconds += seconds
        elif kind is not StepKind.PREFILL:
            self.eager_steps += 1
        if kind is StepKind.EAGER:
            self.timed_steps += 1
            self.eager_seconds += seconds


@dataclass(frozen=True, slots=True)
class SavedState:
    """A decode session's changing bytes at one moment."""

    position: int
    tokens: tuple[int, ...]
    contents: Mapping[str, Array]

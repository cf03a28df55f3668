"""Who holds the recorded graphs of a session: segments per slot under a token (semantics 2.8).

It stands for the provider's side. Whoever evicts a kernel or drops a binding retires a graph here, and the
slot finds out at its next replay.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import NeverCapturedError, VramscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.devices.base import Replay


@dataclass(frozen=True, slots=True)
class GraphToken:
    """One installed graph: its slot and which generation of that slot it is."""

    slot: str
    generation: int


class GraphStore:
    """Recorded segments by slot. A token of an older generation is *not held*."""

    def __init__(self) -> None:
        """Holds nothing."""
        self._segments: dict[str, tuple[Replay, ...]] = {}
        self._generations: dict[str, int] = {}
        self._causes: dict[str, tuple[GraphToken, str]] = {}
        """By slot: the last graph that was dropped, and why."""
        self._capturing = ""

    def install(self, slot: str, segments: tuple[Replay, ...]) -> GraphToken:
        """Holds the segments of a capture; an older graph of the slot is dropped."""
        generation = self._generations.get(slot, 0) + 1
        self._generations[slot] = generation
        self._segments[slot] = segments
        return GraphToken(slot, generation)

    def has(self, token: GraphToken) -> bool:
        """Whether at least one segment of this very generation is held."""
        return self._generations.get(token.slot) == token.generation and bool(self._segments.get(token.slot))

    def segment(self, token: GraphToken, position: int) -> Replay:
        """One recorded segment.

        Raises:
            NeverCapturedError: the graph is not held, or has no such segment.
        """
        segments = self._segments.get(token.slot, ()) if self.has(token) else ()
        if not 0 <= position < len(segments):
            raise NeverCapturedError(
                f"segment {position} of slot {token.slot}",
                f"{len(segments)} segments are held",
                "Capture a step first",
            )
        return segments[position]

    def retire(self, token: GraphToken, cause: str) -> bool:
        """Drops a graph; whether it was held. The cause is kept for the slot to find.

        Raises:
            VramscopeError: a graph is being captured: a reset is refused meanwhile.
        """
        if not self.has(token):
            return False
        if self._capturing:
            raise VramscopeError(
                f"graph {token.generation} of slot {token.slot}",
                f"it cannot be dropped while slot {self._capturing} is capturing",
                "Close bindings between steps",
            )
        del self._segments[token.slot]
        self._causes[token.slot] = (token, cause)
        return True

    def cause(self, token: GraphToken) -> str:
        """Why a graph that is no longer held was dropped; empty when nobody said."""
        dropped, cause = self._causes.get(token.slot, (token, ""))
        return cause if dropped == token else ""

    @contextmanager
    def capturing(self, slot: str) -> Iterator[None]:
        """Held around a capture: resets are refused inside."""
        before, self._capturing = self._capturing, slot
        try:
            yield
        finally:
            self._capturing = before

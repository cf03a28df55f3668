"""What a plan says about weights: each stored one, all of them, and which stay under a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class WeightRow:
    """One stored weight: how many graph values share it, and what equal content elsewhere would save."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    users: int
    duplicate_of: str = ""


@dataclass(frozen=True, slots=True)
class StreamingPlan:
    """Which weights stay under a budget, and where the others lie in the window while a step reads them.

    Attributes:
        budget: bytes that weights may take.
        least: the least budget that works.
        resident: identities of streamable weights that are loaded for good all the same.
        offsets: identity of each streamed weight → its place in the window.
        window: bytes of the window.
        step_pages: copies that one pass over the program makes, at most.
        step_bytes: bytes of these copies.
    """

    budget: int
    least: int
    resident: frozenset[str]
    offsets: Mapping[str, int]
    window: int
    step_pages: int
    step_bytes: int


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """Weights: exact bytes (tied ones once), and bytes that merging equal ones would save.

    ``bytes`` is what they take of the device; under a ``streaming`` plan less than all of them.
    """

    bytes: int
    rows: tuple[WeightRow, ...]
    tied_savings: int
    """Bytes saved because several values share one stored weight."""
    duplicate_bytes: int
    """Bytes stored twice: equal contents under different names."""
    streaming: StreamingPlan | None = None

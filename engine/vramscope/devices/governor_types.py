"""What the memory governor speaks of: tiers, roles, holders, authorities, and the interface of a governor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vramscope.errors import InvalidRequestError
from vramscope.graph.dtypes import BYTES_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self


class Tier(Enum):
    """Where bytes live, in the order in which they are demoted."""

    DEVICE = "device"
    HOST = "host"
    DISK = "disk"

    @property
    def below(self) -> Tier | None:
        """The tier that bytes are demoted to; None below the last."""
        order = tuple(Tier)
        place = order.index(self) + 1
        return order[place] if place < len(order) else None


@dataclass(frozen=True, slots=True)
class KvCache:
    """Keys and values of past tokens."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Kernel scratch; ``step_scoped`` when it goes back after every step."""

    step_scoped: bool


@dataclass(frozen=True, slots=True)
class Weights:
    """Model weights."""


@dataclass(frozen=True, slots=True)
class Activation:
    """Values between nodes."""


Role: TypeAlias = KvCache | Workspace | Weights | Activation
"""What reserved bytes are for."""


@dataclass(frozen=True, slots=True, eq=False)
class Authority:
    """Who decides about one device's memory. Two authorities are never equal, whatever their names."""

    name: str


@dataclass(frozen=True, slots=True)
class Holder:
    """Someone who may hold bytes: issued by a governor, opaque to everybody else."""

    number: int
    name: str
    authority: Authority


Reclaim: TypeAlias = "Callable[[Tier, int], int]"
"""Asks a holder for bytes of a tier: it shrinks or closes leases of its own, and returns how many bytes it
gave. It may give less, and 0. It is called with no lock held."""


class CapacityLease(Protocol):
    """Bytes granted by a governor; every byte of it is released exactly once."""

    @property
    def size(self) -> int:
        """Bytes held now; 0 after ``close``."""

    @property
    def holder(self) -> Holder:
        """Whose bytes they are."""

    def grow(self, extra: int) -> None:
        """Claims ``extra`` bytes more; refused, it leaves the lease as it was."""

    def shrink(self, size: int) -> int:
        """Gives back up to ``size`` bytes; returns how many."""

    def give_to(self, other: CapacityLease, size: int) -> int:
        """Moves up to ``size`` bytes to a lease of the same governor and tier; returns how many."""

    def close(self) -> int:
        """Gives back the rest and returns how much that was: 0 the second time."""

    def __enter__(self) -> Self:
        """The lease itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the lease."""


class MemoryGovernor(Protocol):
    """Grants bytes of tiers. The engine uses nothing else of a governor, so a third party's will do."""

    @property
    def authority(self) -> Authority:
        """Who decides here."""

    def issue_holder(self, name: str, *, reclaim: Reclaim | None = None, priority: int = 0) -> Holder:
        """A new holder; holders of lower ``priority`` are asked first for bytes."""

    def dismiss_holder(self, holder: Holder) -> None:
        """Ends a holder that this governor issued and that holds no lease any more."""

    def reserve(self, tier: Tier, size: int, role: Role, holder: Holder) -> CapacityLease:
        """Grants ``size`` bytes or raises TierExhaustedError and changes nothing."""

    def record_committed(self, tier: Tier, size: int, role: Role, holder: Holder) -> CapacityLease:
        """Counts bytes that are out already, whatever the limit says."""

    def set_limit(self, tier: Tier, limit: int | None) -> None:
        """Sets a limit; may go below usage and revokes nothing."""

    def available(self, tier: Tier) -> int | None:
        """Bytes that a reservation could get now; None when the limit is unknown."""

    def oversubscribed_bytes(self, tier: Tier) -> int:
        """Bytes out above the limit."""


def checked_bytes(size: int, what: str) -> int:
    """``size`` itself, when it is a number of bytes.

    Raises:
        InvalidRequestError: not an int, negative, or more than 2**63 - 1.
    """
    if isinstance(size, bool) or not isinstance(size, int):
        raise InvalidRequestError(what, f"{size!r} is not a whole number of bytes", "Give an int")
    if size < 0:
        raise InvalidRequestError(what, f"{size:,} bytes is negative", "Give 0 or more")
    if size > BYTES_LIMIT:
        raise InvalidRequestError(what, f"{size:,} bytes is more than 2**63 - 1", "Ask for less")
    return size

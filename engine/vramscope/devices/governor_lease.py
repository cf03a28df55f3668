"""One holder's bytes of one tier: grown, shrunk, and given back exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from vramscope.devices.governor_types import CapacityLease, Holder, Role, Tier


@dataclass(frozen=True, slots=True)
class Charge:
    """One lease as a snapshot shows it; ``size`` in bytes."""

    tier: Tier
    role: Role
    holder: Holder
    size: int


class Keeper(Protocol):
    """Who granted leases: every change of one goes through it. What each raises, the lease says."""

    def grow(self, lease: GovernorLease, extra: int) -> None:
        """Claims ``extra`` bytes more for a lease."""

    def shrink(self, lease: GovernorLease, size: int) -> int:
        """Takes at most ``size`` bytes back."""

    def transfer(self, source: GovernorLease, target: CapacityLease, size: int) -> int:
        """Moves at most ``size`` bytes from one lease to another."""

    def close(self, lease: GovernorLease) -> int:
        """Takes a lease back whole."""


class GovernorLease:
    """Bytes of one tier, held by one holder. Close it, or use it in a ``with``; closing twice is harmless."""

    def __init__(self, governor: Keeper, number: int, tier: Tier, role: Role, holder: Holder) -> None:
        """Made by a governor alone."""
        self._governor = governor
        self._size = 0
        self.number = number
        self.tier = tier
        self.role = role
        self.holder = holder

    @property
    def size(self) -> int:
        """Bytes held now; 0 once closed."""
        return self._size

    @property
    def charge(self) -> Charge:
        """The lease as data."""
        return Charge(self.tier, self.role, self.holder, self._size)

    def set_size(self, size: int) -> None:
        """For the governor alone, under its lock."""
        self._size = size

    def grow(self, extra: int) -> None:
        """Claims ``extra`` bytes more: only the difference is asked for.

        Raises:
            TierExhaustedError: the limit does not hold it; the lease is as it was.
            CapacityUnavailableError: a holder that was asked failed, or the device is lost.
            InvalidRequestError: the lease is closed, or ``extra`` is no number of bytes.
        """
        self._governor.grow(self, extra)

    def shrink(self, size: int) -> int:
        """Gives back ``min(size, held)`` bytes and returns that number; 0 after a device loss."""
        return self._governor.shrink(self, size)

    def give_to(self, other: CapacityLease, size: int) -> int:
        """Moves ``min(size, held)`` bytes to ``other`` and returns that number; nothing is free in between.

        Raises:
            InvalidRequestError: ``other`` is closed, of another tier, or of another governor.
        """
        return self._governor.transfer(self, other, size)

    def close(self) -> int:
        """Gives back what is left and returns how much; 0 the second time.

        After a device loss it returns 0: the bytes stay charged until the governor is terminated.
        """
        return self._governor.close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

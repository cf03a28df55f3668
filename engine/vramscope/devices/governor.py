"""The memory governor: grants bytes of each tier to holders under a limit, and gets every one back once.

Rules (semantics 2.11): (G1) the sum of leases stays within the limit for admission; (G2) a refused request
changes nothing; (G3) a holder is never robbed: it is asked, may give less, and then the requester is refused;
(G4) every byte is released exactly once. All methods may be called from any thread; holders are asked with no
lock held.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vramscope.devices.governor_book import TierBook
from vramscope.devices.governor_lease import Charge, GovernorLease
from vramscope.devices.governor_types import Authority, Holder, Reclaim, Role, Tier, checked_bytes
from vramscope.errors import (
    CapacityUnavailableError,
    InvalidRequestError,
    TierExhaustedError,
    VramscopeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope.devices.governor_types import CapacityLease

T = TypeVar("T")

WORKSPACE_HOLDER, KV_HOLDER, OTHER_HOLDER = 64, 65, 66
"""Numbers of the holders that every governor has (semantics 2.10)."""


@dataclass(slots=True)
class _Seat:
    """How a holder is asked for bytes: never without ``reclaim``, lower ``priority`` first."""

    holder: Holder
    reclaim: Reclaim | None
    priority: int


class Governor:
    """Grants bytes of every tier under that tier's limit."""

    def __init__(self, limits: Mapping[Tier, int | None], name: str = "device") -> None:
        """``limits``: bytes per tier; None or absent where the capacity was not measured."""
        self._authority = Authority(name)
        self._lock = threading.Lock()
        self._books = {tier: TierBook(tier) for tier in Tier}
        self._leases: dict[int, GovernorLease] = {}
        self._seats: dict[Holder, _Seat] = {}
        self._next_lease, self._next_holder = 1, OTHER_HOLDER + 1
        self._lost = ""
        self.workspace = self._seat(WORKSPACE_HOLDER, "workspace")
        self.kv_cache = self._seat(KV_HOLDER, "KV cache")
        self.other = self._seat(OTHER_HOLDER, "other")
        for tier, limit in limits.items():
            self.set_limit(tier, limit)

    @property
    def authority(self) -> Authority:
        """Who decides here."""
        return self._authority

    def issue_holder(self, name: str, *, reclaim: Reclaim | None = None, priority: int = 0) -> Holder:
        """A new holder, never asked for bytes without ``reclaim``; lower ``priority`` is asked first."""
        with self._lock:
            self._next_holder += 1
            return self._seat(self._next_holder - 1, name, reclaim, priority)

    def dismiss_holder(self, holder: Holder) -> None:
        """Ends a holder, which must hold nothing.

        Raises:
            InvalidRequestError: a foreign holder, a built-in one, or one with an open lease.
        """
        with self._lock:
            self._known(holder)
            if holder.number <= OTHER_HOLDER:
                raise InvalidRequestError(f"holder {holder.name}", "every governor has it for good")
            if any(lease.holder == holder for lease in self._leases.values()):
                raise InvalidRequestError(
                    f"holder {holder.name}", "it still has an open lease", "Close its leases first"
                )
            del self._seats[holder]

    def set_reclaim(self, holder: Holder, reclaim: Reclaim | None, priority: int = 0) -> None:
        """Sets how and in which order a holder is asked: the built-in holders start without."""
        with self._lock:
            self._known(holder)
            self._seats[holder] = _Seat(holder, reclaim, priority)

    def reserve(self, tier: Tier, size: int, role: Role, holder: Holder) -> GovernorLease:
        """Grants ``size`` bytes (0 is legal), asking other holders when the tier is full.

        Raises:
            TierExhaustedError: the limit does not hold it, also after every other holder was asked.
            CapacityUnavailableError: a holder that was asked failed, or the device is lost.
            InvalidRequestError: a foreign holder, or a size that is no number of bytes.
        """
        checked_bytes(size, f"a reservation for {holder.name}")
        return self._admit(tier, size, holder, lambda: self._issue(tier, size, role, holder))

    def record_committed(self, tier: Tier, size: int, role: Role, holder: Holder) -> GovernorLease:
        """Counts bytes that are out already. It may oversubscribe: see ``oversubscribed_bytes``.

        Raises:
            InvalidRequestError: a foreign holder, or a size that is no number of bytes.
        """
        checked_bytes(size, f"committed bytes of {holder.name}")
        with self._lock:
            self._known(holder)
            self._books[tier].require_countable(size)
            return self._issue(tier, size, role, holder)

    def set_limit(self, tier: Tier, limit: int | None) -> None:
        """Sets a tier's limit, None for unknown. It may go below usage; nothing is revoked."""
        if limit is not None:
            checked_bytes(limit, f"the {tier.value} limit")
        with self._lock:
            self._books[tier].limit = limit

    def limit(self, tier: Tier) -> int | None:
        """A tier's limit; None when it is unknown."""
        with self._lock:
            return self._books[tier].limit

    def used(self, tier: Tier) -> int:
        """The sum of a tier's leases."""
        with self._lock:
            return self._books[tier].used

    def growing(self, tier: Tier) -> int:
        """Bytes reserved for mapped growth that is not settled yet."""
        with self._lock:
            return self._books[tier].growing

    def available(self, tier: Tier) -> int | None:
        """Limit − used − growth reservations, at least 0; None when the limit is unknown."""
        with self._lock:
            return self._books[tier].available

    def oversubscribed_bytes(self, tier: Tier) -> int:
        """Used − limit, at least 0. 0 available can mean full or over: this tells which."""
        with self._lock:
            return self._books[tier].oversubscribed

    def charges(self) -> tuple[Charge, ...]:
        """Every open lease, oldest first."""
        with self._lock:
            return tuple(lease.charge for lease in self._leases.values())

    def held(self, holder: Holder, tier: Tier) -> int:
        """Bytes of a tier that one holder has."""
        with self._lock:
            return self._held(holder, tier)

    # What leases call

    def grow(self, lease: GovernorLease, extra: int) -> None:
        """See ``GovernorLease.grow``."""
        checked_bytes(extra, f"growth of {lease.holder.name}")
        with self._lock:
            self._require_open(lease)
        self._admit(lease.tier, extra, lease.holder, lambda: self._enlarge(lease, extra))

    def shrink(self, lease: GovernorLease, size: int) -> int:
        """See ``GovernorLease.shrink``."""
        checked_bytes(size, f"shrinking of {lease.holder.name}")
        with self._lock:
            return 0 if self._lost else self._reduce(lease, size)

    def transfer(self, lease: GovernorLease, other: CapacityLease, size: int) -> int:
        """See ``GovernorLease.give_to``."""
        checked_bytes(size, f"bytes of {lease.holder.name} for {other.holder.name}")
        with self._lock:
            target = next((item for item in self._leases.values() if item is other), None)
            if target is None or target.tier is not lease.tier:
                raise InvalidRequestError(
                    f"bytes of {lease.holder.name} for {other.holder.name}",
                    "only an open lease of the same tier and governor can take them",
                )
            given = 0 if self._lost else self._reduce(lease, size)
            self._enlarge(target, given)
            return given

    def close(self, lease: GovernorLease) -> int:
        """See ``GovernorLease.close``."""
        with self._lock:
            if self._lost:
                return 0
            given = self._reduce(lease, lease.size)
            self._leases.pop(lease.number, None)
            return given

    # What mapped growth calls: bytes between free, growing, and a lease

    def take_growth(self, tier: Tier, most: int) -> int:
        """Reserves up to ``most`` free bytes for growth and returns how many.

        Raises:
            CapacityUnavailableError: the device is lost.
        """
        with self._lock:
            self._require_device(f"growth in the {tier.value} tier")
            book = self._books[tier]
            book.require_countable(most)
            taken = most if book.available is None else min(most, book.available)
            book.growing += taken
            return taken

    def growth_from(self, lease: GovernorLease, size: int) -> int:
        """Turns up to ``size`` bytes of a lease into growth and returns how many."""
        with self._lock:
            taken = self._reduce(lease, size)
            self._books[lease.tier].growing += taken
            return taken

    def growth_to(self, lease: GovernorLease, size: int) -> None:
        """Turns growth into bytes of a lease; of a closed one, into free bytes."""
        with self._lock:
            self._books[lease.tier].growing -= size
            if lease.number in self._leases:
                self._enlarge(lease, size)

    def drop_growth(self, tier: Tier, size: int) -> None:
        """Turns growth into free bytes."""
        with self._lock:
            self._books[tier].growing -= size

    # The end of a device

    def lose_device(self, reason: str) -> None:
        """The device is gone: nothing is granted any more, and every charge stays until ``terminate``."""
        with self._lock:
            self._lost = reason

    def terminate(self) -> int:
        """Ends every lease and returns how many bytes were charged: the process gave all memory back."""
        with self._lock:
            charged = sum(self._reduce(lease, lease.size) for lease in self._leases.values())
            self._leases.clear()
            return charged

    # Inside, with the lock held where nothing else is said

    def _admit(self, tier: Tier, size: int, holder: Holder, effect: Callable[[], T]) -> T:
        """Runs ``effect`` under the lock as soon as ``size`` bytes are free. Called without the lock."""
        asked: dict[Holder, VramscopeError | None] = {}
        while True:
            with self._lock:
                self._known(holder)
                self._require_device(f"{size:,} bytes for {holder.name}")
                book = self._books[tier]
                if book.fits(size):
                    return effect()
                missing = book.missing(size)
                seat = self._next_seat(tier, missing, holder, asked)
                if seat is None:
                    raise _with_cause(book.refusal(size, holder.name), asked)
            asked[seat.holder] = _ask(seat, tier, missing)

    def _next_seat(
        self, tier: Tier, missing: int, holder: Holder, asked: Mapping[Holder, object]
    ) -> _Seat | None:
        """Who is asked next; None when all that are left together could not give enough."""
        seats = [
            seat
            for seat in self._seats.values()
            if seat.reclaim and seat.holder != holder and seat.holder not in asked
        ]
        if sum(self._held(seat.holder, tier) for seat in seats) < missing:
            return None
        return min(seats, key=lambda seat: (seat.priority, seat.holder.number))

    def _issue(self, tier: Tier, size: int, role: Role, holder: Holder) -> GovernorLease:
        lease = GovernorLease(self, self._next_lease, tier, role, holder)
        self._next_lease += 1
        self._leases[lease.number] = lease
        self._enlarge(lease, size)
        return lease

    def _enlarge(self, lease: GovernorLease, size: int) -> None:
        self._require_open(lease)
        lease.set_size(lease.size + size)
        self._books[lease.tier].used += size

    def _reduce(self, lease: GovernorLease, size: int) -> int:
        given = min(size, lease.size)
        lease.set_size(lease.size - given)
        self._books[lease.tier].used -= given
        return given

    def _held(self, holder: Holder, tier: Tier) -> int:
        return sum(
            lease.size for lease in self._leases.values() if lease.holder == holder and lease.tier is tier
        )

    def _seat(self, number: int, name: str, reclaim: Reclaim | None = None, priority: int = 0) -> Holder:
        holder = Holder(number, name, self._authority)
        self._seats[holder] = _Seat(holder, reclaim, priority)
        return holder

    def _known(self, holder: Holder) -> None:
        if holder not in self._seats:
            raise InvalidRequestError(
                f"holder {holder.name}",
                f"it was issued by {holder.authority.name}, not by this governor",
                "Ask this governor for a holder",
            )

    def _require_open(self, lease: GovernorLease) -> None:
        if lease.number not in self._leases:
            raise InvalidRequestError(f"the lease of {lease.holder.name}", "it is closed", "Reserve anew")

    def _require_device(self, what: str) -> None:
        if self._lost:
            raise CapacityUnavailableError(what, f"the device is lost: {self._lost}", "Start a new process")


def _ask(seat: _Seat, tier: Tier, missing: int) -> VramscopeError | None:
    """Asks one holder for what is missing; its failure counts as 0 bytes and is kept for the refusal."""
    try:
        if seat.reclaim is not None:
            seat.reclaim(tier, missing)
    except VramscopeError as failure:
        return failure
    return None


def _with_cause(refusal: TierExhaustedError, asked: Mapping[Holder, VramscopeError | None]) -> VramscopeError:
    """The refusal, or, when a holder failed to give, one that wraps its failure."""
    for holder, failure in asked.items():
        if failure is not None:
            return CapacityUnavailableError(
                what=refusal.what,
                why=f"{refusal.why}, and {holder.name} failed to give any back: {failure}",
                remedy=refusal.remedy,
                cause=failure,
            )
    return refusal

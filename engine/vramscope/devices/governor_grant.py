"""Capacity found for one mapped growth: committed, kept, or put back where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import InvalidRequestError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from vramscope.devices.governor_growth import MappedZone, Member
    from vramscope.devices.governor_types import Role


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes that another member gave to a grant."""

    member: Member
    size: int


class Grant:
    """Reserved capacity of one member. Settle it once; unsettled, ``close`` or a ``with`` rolls it back."""

    def __init__(self, zone: MappedZone, member: Member, role: Role) -> None:
        """Made by ``MappedZone.grow`` alone."""
        self._zone = zone
        self.member = member
        self.role = role
        self._own = 0
        self._free = 0
        self._shares: list[Share] = []
        self._settled = False
        with zone.lock:
            member.open_grants += 1

    @property
    def size(self) -> int:
        """Bytes reserved."""
        return self._own + self._free + sum(share.size for share in self._shares)

    def take_own(self, most: int) -> None:
        """Promises up to ``most`` bytes of the member's own unused allowance."""
        with self._zone.lock:
            self._own = min(most, max(self.member.unused, 0))
            self.member.promised += self._own

    def take_free(self, most: int) -> None:
        """Reserves up to ``most`` bytes that nobody has."""
        with self._zone.lock:
            taken = self._zone.governor.take_growth(self._zone.tier, most)
            self._free += taken
            self._zone.count_pending(taken)

    def take_from(self, other: Member, offered: int) -> None:
        """Takes what another member gave, never more than it has unused."""
        with self._zone.lock:
            most = max(min(offered, other.unused), 0)
            taken = self._zone.governor.growth_from(other.lease, most)
            self._shares.append(Share(other, taken))
            self._zone.count_pending(taken, transferred=taken)

    def commit(self) -> None:
        """All of it was mapped."""
        self.commit_bytes(self.size)

    def commit_bytes(self, actual: int) -> None:
        """``actual`` bytes were mapped; the rest goes back, what others gave first of all.

        Raises:
            InvalidRequestError: more than was granted (everything is rolled back), or settled before.
        """
        with self._zone.lock:
            self._require_open()
            if not 0 <= actual <= self.size:
                granted = self.size
                self.close()
                raise InvalidRequestError(
                    f"committing {actual:,} bytes for {self.member.holder.name}",
                    f"{granted:,} were granted; the growth was rolled back",
                )
            self._return(self.size - actual)
            self._keep()
            mapped = self.member.by_role
            mapped[self.role] = mapped.get(self.role, 0) + actual
            self._end()

    def settle_retained(self) -> None:
        """Nothing was mapped, and the member keeps the capacity as unused allowance.

        Raises:
            InvalidRequestError: settled before.
        """
        with self._zone.lock:
            self._require_open()
            self._keep()
            self._end()

    def close(self) -> None:
        """Rolls back what was not settled; harmless afterwards."""
        with self._zone.lock:
            if self._settled:
                return
            self._return(self.size)
            self._end()
            self._zone.count_pending(0, rolled_back=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _return(self, excess: int) -> None:
        """Puts back ``excess`` bytes: to those who gave last, then to nobody, then to the own allowance."""
        governor = self._zone.governor
        kept: list[Share] = []
        for share in reversed(self._shares):
            back = min(excess, share.size)
            governor.growth_to(share.member.lease, back)
            self._zone.count_pending(-back, transferred=-back)
            kept.append(Share(share.member, share.size - back))
            excess -= back
        self._shares = kept
        back = min(excess, self._free)
        governor.drop_growth(self._zone.tier, back)
        self._zone.count_pending(-back)
        self._free -= back
        own = min(excess - back, self._own)
        self.member.promised -= own
        self._own -= own

    def _keep(self) -> None:
        """Turns what was found elsewhere into the member's allowance and ends the promise."""
        found = self.size - self._own
        self._zone.governor.growth_to(self.member.lease, found)
        self._zone.count_pending(-found)
        self.member.promised -= self._own
        self._own, self._free, self._shares = 0, 0, []

    def _end(self) -> None:
        self._settled = True
        self.member.open_grants -= 1

    def _require_open(self) -> None:
        if self._settled:
            raise InvalidRequestError(f"the grant of {self.member.holder.name}", "it was settled before")

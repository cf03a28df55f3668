"""A third party's governor: it shares nothing with the engine's own but the interface."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vramscope.devices.governor_types import Authority, Holder, Tier
from vramscope.errors import TierExhaustedError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from vramscope.devices.governor_types import CapacityLease, Reclaim, Role


@dataclass(eq=False)
class ForeignLease:
    """A lease as somebody else might write it."""

    governor: ForeignGovernor
    holder: Holder
    size: int

    def grow(self, extra: int) -> None:
        self.governor.admit(extra)
        self.size += extra

    def shrink(self, size: int) -> int:
        given = min(size, self.size)
        self.size -= given
        return given

    def give_to(self, other: CapacityLease, size: int) -> int:
        assert isinstance(other, ForeignLease)
        given = self.shrink(size)
        other.size += given
        return given

    def close(self) -> int:
        size, self.size = self.size, 0
        return size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(eq=False)
class ForeignGovernor:
    """Grants up to ``limit`` bytes over all tiers."""

    authority: Authority = field(default_factory=lambda: Authority("somebody else"))
    limit: int | None = 100
    leases: list[ForeignLease] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)

    def issue_holder(self, name: str, *, reclaim: Reclaim | None = None, priority: int = 0) -> Holder:
        self.holders.append(Holder(len(self.holders), name, self.authority))
        return self.holders[-1]

    def dismiss_holder(self, holder: Holder) -> None:
        self.holders.remove(holder)

    def admit(self, size: int) -> None:
        if size > (self.available(Tier.DEVICE) or 0):
            raise TierExhaustedError("bytes", "full", requested=size)

    def reserve(self, tier: Tier, size: int, role: Role, holder: Holder) -> CapacityLease:
        self.admit(size)
        return self.record_committed(tier, size, role, holder)

    def record_committed(self, tier: Tier, size: int, role: Role, holder: Holder) -> CapacityLease:
        self.leases.append(ForeignLease(self, holder, size))
        return self.leases[-1]

    def set_limit(self, tier: Tier, limit: int | None) -> None:
        self.limit = limit

    def available(self, tier: Tier) -> int | None:
        return (self.limit or 0) - sum(lease.size for lease in self.leases)

    def oversubscribed_bytes(self, tier: Tier) -> int:
        return max(-(self.available(tier) or 0), 0)

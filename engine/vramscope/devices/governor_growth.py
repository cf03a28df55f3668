"""Mapped allowances and growth: who may map physical bytes, granted one operation at a time, in order.

An allowance is a lease of the governor, so its bytes are charged there once; mapping inside it charges
nothing. Growth takes capacity from the member's own unused allowance, then from what nobody has, then from
other members by ascending reclaim priority, who are asked with no lock held. What it took belongs to a grant
until that is committed; anything else puts every byte back where it came from (semantics 2.11).
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vramscope.devices.governor_grant import Grant
from vramscope.devices.governor_types import Holder, KvCache, Role, Tier, Weights, Workspace, checked_bytes
from vramscope.errors import InvalidRequestError, TierExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vramscope.devices.governor import Governor
    from vramscope.devices.governor_lease import GovernorLease

MappedReclaim: TypeAlias = "Callable[[int], int]"
"""Asks a member for bytes of its allowance: it unmaps (and says so by ``note_unmapped``) as much as it likes
and returns how many bytes of its then unused allowance it gives up. It may return 0."""


@dataclass(frozen=True, slots=True)
class ZoneMetrics:
    """What mapped growth did so far, and what is mapped now; in bytes or in number."""

    attempts: int = 0
    failures: int = 0
    rollbacks: int = 0
    bytes_transferred: int = 0
    """Bytes that members gave to others and did not get back."""
    live_holders: int = 0
    mapped_bytes: int = 0
    weight_mapped: int = 0
    kv_mapped: int = 0
    workspace_mapped: int = 0
    total_allowance: int = 0
    total_owned: int = 0


class Member:
    """One holder's part of a zone: ``allowance`` bytes that it may map, ``mapped`` of them in use."""

    def __init__(
        self, zone: MappedZone, lease: GovernorLease, priority: int, reclaim: MappedReclaim | None
    ) -> None:
        """Made by ``MappedZone.join`` alone."""
        self._zone = zone
        self.lease = lease
        self.priority = priority
        self.reclaim = reclaim
        self.by_role: dict[Role, int] = {}
        self.promised = 0
        self.open_grants = 0

    @property
    def holder(self) -> Holder:
        """Whose it is."""
        return self.lease.holder

    @property
    def allowance(self) -> int:
        """Bytes that it may map."""
        return self.lease.size

    @property
    def mapped(self) -> int:
        """Bytes that it has mapped, over all roles."""
        return sum(self.by_role.values())

    @property
    def unused(self) -> int:
        """Bytes of the allowance that are neither mapped nor promised to an open grant."""
        return self.allowance - self.mapped - self.promised

    def grow(self, size: int, role: Role | None = None) -> Grant:
        """Capacity to map ``size`` bytes more; see ``MappedZone.grow``."""
        return self._zone.grow(self, size, role or self.lease.role)

    def note_unmapped(self, size: int, role: Role | None = None) -> None:
        """Says that ``size`` mapped bytes were unmapped; they stay in the allowance.

        Raises:
            InvalidRequestError: more than is mapped for that role.
        """
        self._zone.unmap(self, size, role or self.lease.role)

    def give_up(self, size: int) -> int:
        """Returns up to ``size`` bytes of unused allowance to nobody in particular; returns how many."""
        return self._zone.give_up(self, size)

    def leave(self) -> int:
        """Ends the membership and returns the bytes of allowance given back.

        Raises:
            InvalidRequestError: something is still mapped, or a grant is open.
        """
        return self._zone.leave(self)


class MappedZone:
    """The mapped bytes of one tier. Thread-safe; growth is served first come, first served."""

    def __init__(self, governor: Governor, tier: Tier = Tier.DEVICE) -> None:
        """``governor``: charges the allowances, each byte once."""
        self.governor = governor
        self.tier = tier
        self.lock = threading.RLock()
        self._queue = FifoQueue()
        self._members: list[Member] = []
        self._attempts = self._failures = self._rollbacks = self._transferred = self._pending = 0

    def join(
        self,
        holder: Holder,
        role: Role,
        *,
        allowance: int = 0,
        priority: int = 0,
        reclaim: MappedReclaim | None = None,
    ) -> Member:
        """A new member with ``allowance`` bytes charged to ``holder``.

        Raises:
            TierExhaustedError: the tier does not hold the allowance.
        """
        lease = self.governor.reserve(self.tier, allowance, role, holder)
        member = Member(self, lease, priority, reclaim)
        with self.lock:
            self._members.append(member)
        return member

    def grow(self, member: Member, size: int, role: Role) -> Grant:
        """Reserves capacity to map ``size`` bytes more; one operation at a time, in the order of asking.

        Raises:
            TierExhaustedError: not enough, also after everybody was asked; all capacity is where it was.
            InvalidRequestError: no number of bytes, or growth asked for by a holder while it is being asked.
        """
        checked_bytes(size, f"mapped growth of {member.holder.name}")
        with self._queue.turn():
            with self.lock:
                self._attempts += 1
            grant = Grant(self, member, role)
            try:
                self._fill(grant, size)
            except BaseException:
                with self.lock:
                    self._failures += 1
                grant.close()
                raise
            return grant

    def _fill(self, grant: Grant, size: int) -> None:
        grant.take_own(size)
        grant.take_free(size - grant.size)
        others = self._askable(grant.member)
        if size - grant.size > sum(other.allowance for other in others):
            raise self._refusal(grant, size)
        for other in others:
            if grant.size < size:
                self._ask(grant, other, size)
        if grant.size < size:
            raise self._refusal(grant, size)

    def _askable(self, member: Member) -> list[Member]:
        with self.lock:
            others = [other for other in self._members if other.reclaim and other is not member]
        return sorted(others, key=lambda other: (other.priority, other.holder.number))

    def _ask(self, grant: Grant, other: Member, size: int) -> None:
        """Asks one member with no lock held, then takes what it gives, never more than it has unused."""
        missing = size - grant.size
        offered = other.reclaim(missing) if other.reclaim else 0
        grant.take_from(other, min(offered, missing))
        grant.take_free(size - grant.size)

    def _refusal(self, grant: Grant, size: int) -> TierExhaustedError:
        name = grant.member.holder.name
        return TierExhaustedError(
            what=f"{size:,} mapped bytes for {name}",
            why=f"{grant.size:,} could be found in its allowance, free memory and what others gave",
            remedy="Unmap something, raise the limit, or lower the context or the batch",
            requested=size,
            available=grant.size,
            site=name,
            tier=self.tier.value,
        )

    def unmap(self, member: Member, size: int, role: Role) -> None:
        """See ``Member.note_unmapped``."""
        checked_bytes(size, f"unmapping of {member.holder.name}")
        with self.lock:
            mapped = member.by_role.get(role, 0)
            if size > mapped:
                raise InvalidRequestError(
                    f"unmapping {size:,} bytes of {member.holder.name}", f"only {mapped:,} are mapped"
                )
            member.by_role[role] = mapped - size

    def give_up(self, member: Member, size: int) -> int:
        """See ``Member.give_up``."""
        with self.lock:
            return member.lease.shrink(min(checked_bytes(size, "an allowance"), member.unused))

    def leave(self, member: Member) -> int:
        """See ``Member.leave``."""
        with self.lock:
            if member.mapped or member.open_grants:
                raise InvalidRequestError(
                    f"{member.holder.name} leaving the zone",
                    f"{member.mapped:,} bytes are mapped, {member.open_grants} grants are open",
                    "Unmap and settle first",
                )
            self._members = [other for other in self._members if other is not member]
            return member.lease.close()

    def count_pending(self, size: int, *, transferred: int = 0, rolled_back: bool = False) -> None:
        """For grants alone, under the lock: bytes that left their owners for a grant, or went back."""
        self._pending += size
        self._transferred += transferred
        self._rollbacks += rolled_back

    def metrics(self) -> ZoneMetrics:
        """The counts as they are now."""
        with self.lock:
            allowance = sum(member.allowance for member in self._members)
            return ZoneMetrics(
                self._attempts,
                self._failures,
                self._rollbacks,
                self._transferred,
                len(self._members),
                sum(member.mapped for member in self._members),
                self._mapped_for(Weights),
                self._mapped_for(KvCache),
                self._mapped_for(Workspace),
                allowance,
                allowance + self._pending,
            )

    def _mapped_for(self, kind: type[Role]) -> int:
        return sum(
            size
            for member in self._members
            for role, size in member.by_role.items()
            if isinstance(role, kind)
        )


class FifoQueue:
    """Lets one thread in at a time, in the order in which they came."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._inside: int | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for one's turn and holds it.

        Raises:
            InvalidRequestError: this thread is inside already, and would wait for itself.
        """
        me, ticket = threading.get_ident(), object()
        with self._changed:
            if self._inside == me:
                raise InvalidRequestError("mapped growth", "it was asked for from inside a reclaim callback")
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._waiting[0] is ticket)
            self._inside = me
        try:
            yield
        finally:
            with self._changed:
                self._inside = None
                self._waiting.popleft()
                self._changed.notify_all()

    @property
    def length(self) -> int:
        """How many are inside or waiting."""
        with self._changed:
            return len(self._waiting)

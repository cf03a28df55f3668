"""The governor and its mapped zone against plain arithmetic, over random sequences of operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vramscope.devices.governor import Governor
from vramscope.devices.governor_growth import MappedZone, Member
from vramscope.devices.governor_types import Activation, KvCache, Tier
from vramscope.errors import InvalidRequestError, TierExhaustedError

if TYPE_CHECKING:
    from vramscope.devices.governor_grant import Grant
    from vramscope.devices.governor_lease import GovernorLease

DEVICE = Tier.DEVICE
sizes = st.integers(0, 60)
tiers = st.sampled_from(Tier)


class GovernorMachine(RuleBasedStateMachine):
    """Leases without reclaim: what is granted, refused and left is a sum over a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: dict[Tier, int | None] = {Tier.DEVICE: 100, Tier.HOST: 50, Tier.DISK: None}
        self.governor = Governor(self.limits)
        self.held: dict[GovernorLease, int] = {}
        self.closed: list[GovernorLease] = []

    def used(self, tier: Tier) -> int:
        return sum(size for lease, size in self.held.items() if lease.tier is tier)

    def fits(self, tier: Tier, size: int) -> bool:
        limit = self.limits[tier]
        return limit is None or size == 0 or self.used(tier) + size <= limit

    @rule(tier=tiers, size=sizes)
    def reserve(self, tier: Tier, size: int) -> None:
        if not self.fits(tier, size):
            with pytest.raises(TierExhaustedError):
                self.governor.reserve(tier, size, Activation(), self.governor.other)
            return
        self.held[self.governor.reserve(tier, size, Activation(), self.governor.other)] = size

    @rule(tier=tiers, size=sizes)
    def record_committed(self, tier: Tier, size: int) -> None:
        self.held[self.governor.record_committed(tier, size, Activation(), self.governor.other)] = size

    @precondition(lambda self: self.held)
    @rule(data=st.data(), size=sizes)
    def grow(self, data: st.DataObject, size: int) -> None:
        lease = data.draw(st.sampled_from(list(self.held)))
        if not self.fits(lease.tier, size):
            with pytest.raises(TierExhaustedError):
                lease.grow(size)
            return
        lease.grow(size)
        self.held[lease] += size

    @precondition(lambda self: self.held)
    @rule(data=st.data(), size=sizes)
    def shrink(self, data: st.DataObject, size: int) -> None:
        lease = data.draw(st.sampled_from(list(self.held)))
        given = min(size, self.held[lease])
        assert lease.shrink(size) == given
        self.held[lease] -= given

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(list(self.held)))
        assert lease.close() == self.held.pop(lease)
        self.closed.append(lease)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), size=sizes)
    def give(self, data: st.DataObject, size: int) -> None:
        lease, other = (data.draw(st.sampled_from(list(self.held))) for _ in range(2))
        if lease.tier is not other.tier:
            with pytest.raises(InvalidRequestError, match="same tier"):
                lease.give_to(other, size)
            return
        given = min(size, self.held[lease])
        assert lease.give_to(other, size) == given
        self.held[lease] -= given
        self.held[other] += given

    @precondition(lambda self: self.closed and self.held)
    @rule(data=st.data(), size=sizes)
    def give_to_a_closed_one(self, data: st.DataObject, size: int) -> None:
        lease = data.draw(st.sampled_from(list(self.held)))
        with pytest.raises(InvalidRequestError, match="open lease"):
            lease.give_to(data.draw(st.sampled_from(self.closed)), size)

    @precondition(lambda self: self.closed)
    @rule(data=st.data(), size=sizes)
    def use_a_closed_one(self, data: st.DataObject, size: int) -> None:
        lease = data.draw(st.sampled_from(self.closed))
        assert (lease.close(), lease.shrink(size), lease.size) == (0, 0, 0)
        with pytest.raises(InvalidRequestError):
            lease.grow(size)

    @rule(tier=tiers, limit=st.none() | st.integers(0, 150))
    def set_limit(self, tier: Tier, limit: int | None) -> None:
        self.governor.set_limit(tier, limit)
        self.limits[tier] = limit

    @invariant()
    def arithmetic_agrees(self) -> None:
        for tier, limit in self.limits.items():
            used = self.used(tier)
            assert self.governor.used(tier) == used
            assert self.governor.limit(tier) == limit
            assert self.governor.available(tier) == (None if limit is None else max(limit - used, 0))
            assert self.governor.oversubscribed_bytes(tier) == (0 if limit is None else max(used - limit, 0))
        assert [item.size for item in self.governor.charges()] == list(self.held.values())


@dataclass
class Account:
    """What the model knows of a member, and of its grants."""

    allowance: int = 0
    mapped: int = 0
    promised: int = 0
    gives: int = 0
    grants: list[Grant] = field(default_factory=list)

    @property
    def unused(self) -> int:
        return self.allowance - self.mapped - self.promised


class ZoneMachine(RuleBasedStateMachine):
    """Three members; the one with the lower place is asked first and gives only unused bytes."""

    LIMIT = 100

    def __init__(self) -> None:
        super().__init__()
        self.governor = Governor({DEVICE: self.LIMIT})
        self.zone = MappedZone(self.governor)
        self.accounts = [Account(allowance) for allowance in (0, 20, 40)]
        self.members = [self.join(place) for place in range(3)]
        self.sources: dict[Grant, tuple[int, int, int, list[tuple[int, int]]]] = {}

    def join(self, place: int) -> Member:
        holder = self.governor.issue_holder(f"m{place}")
        return self.zone.join(
            holder,
            KvCache(),
            allowance=self.accounts[place].allowance,
            priority=place,
            reclaim=lambda _size: self.accounts[place].gives,
        )

    def free(self) -> int:
        pending = sum(free + sum(size for _, size in given) for _, _, free, given in self.sources.values())
        return self.LIMIT - sum(account.allowance for account in self.accounts) - pending

    @rule(place=st.integers(0, 2), gives=st.integers(0, 80))
    def be_generous(self, place: int, gives: int) -> None:
        self.accounts[place].gives = gives

    @rule(place=st.integers(0, 2), size=sizes)
    def grow(self, place: int, size: int) -> None:
        account = self.accounts[place]
        own = min(size, account.unused)
        free = min(size - own, self.free())
        left, given = size - own - free, []
        others = [other for other in range(3) if other != place]
        hopeless = left > sum(self.accounts[other].allowance for other in others)
        for other in others:
            taken = min(left, self.accounts[other].gives, self.accounts[other].unused)
            given.append((other, taken))
            left -= taken
        if left or hopeless:
            with pytest.raises(TierExhaustedError):
                self.members[place].grow(size)
            return
        grant = self.members[place].grow(size)
        assert grant.size == size
        account.promised += own
        for other, taken in given:
            self.accounts[other].allowance -= taken
        self.sources[grant] = place, own, free, given

    @precondition(lambda self: self.sources)
    @rule(data=st.data(), how=st.sampled_from(["commit", "part", "retain", "close", "too much"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        grant = data.draw(st.sampled_from(list(self.sources)))
        place, own, free, given = self.sources.pop(grant)
        size = own + free + sum(taken for _, taken in given)
        actual = {"commit": size, "part": data.draw(st.integers(0, size)), "retain": size}.get(how, 0)
        match how:
            case "commit":
                grant.commit()
            case "part":
                grant.commit_bytes(actual)
            case "retain":
                grant.settle_retained()
            case "close":
                grant.close()
            case _:
                with pytest.raises(InvalidRequestError):
                    grant.commit_bytes(size + 1)
        self.book(place, own, free, given, actual, mapped=0 if how == "retain" else actual)

    def book(
        self, place: int, own: int, free: int, given: list[tuple[int, int]], kept: int, *, mapped: int
    ) -> None:
        """The last source taken is the first that gets back what is not kept."""
        account = self.accounts[place]
        account.promised -= own
        excess = own + free + sum(taken for _, taken in given) - kept
        for other, taken in reversed(given):
            back = min(excess, taken)
            self.accounts[other].allowance += back
            account.allowance += taken - back
            excess -= back
        account.allowance += free - min(excess, free)
        account.mapped += mapped

    @rule(place=st.integers(0, 2), size=sizes)
    def unmap(self, place: int, size: int) -> None:
        account = self.accounts[place]
        if size > account.mapped:
            with pytest.raises(InvalidRequestError):
                self.members[place].note_unmapped(size)
            return
        self.members[place].note_unmapped(size)
        account.mapped -= size

    @rule(place=st.integers(0, 2), size=sizes)
    def give_up(self, place: int, size: int) -> None:
        account = self.accounts[place]
        given = min(size, account.unused)
        assert self.members[place].give_up(size) == given
        account.allowance -= given

    @invariant()
    def every_byte_has_one_owner(self) -> None:
        for account, member in zip(self.accounts, self.members, strict=True):
            assert (member.allowance, member.mapped, member.promised) == (
                account.allowance,
                account.mapped,
                account.promised,
            )
        assert self.governor.available(DEVICE) == self.free() >= 0
        total = self.governor.used(DEVICE) + self.governor.growing(DEVICE)
        assert self.zone.metrics().total_owned == total <= self.LIMIT


TestGovernorMachine = GovernorMachine.TestCase
TestGovernorMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestZoneMachine = ZoneMachine.TestCase
TestZoneMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

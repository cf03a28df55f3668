"""A session's leases against plain arithmetic, over random pledges, charges and refunds of two sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vramscope.devices.governor import Governor
from vramscope.devices.governor_types import Activation, KvCache, Tier, Workspace
from vramscope.devices.ledger import Site
from vramscope.errors import TierExhaustedError
from vramscope.run.leases import SessionLeases, purpose_of, role_of

LIMIT = 100
SITES = (Site("weights", "w"), Site("KV cache", "past"), Site("workspace", "step-scoped"))
sizes = st.integers(0, 60)


@dataclass
class Books:
    """What the model knows of one session: bytes used and pledged by purpose."""

    leases: SessionLeases
    used: dict[str, int] = field(default_factory=dict)
    pledged: dict[str, int] = field(default_factory=dict)
    buffers: list[tuple[Site, int]] = field(default_factory=list)

    def floor(self, purpose: str) -> int:
        return max(self.used.get(purpose, 0), self.pledged.get(purpose, 0))


class LeasesMachine(RuleBasedStateMachine):
    """Two sessions under one limit: nothing is charged twice, nothing is lost, a refusal changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.governor = Governor({Tier.DEVICE: LIMIT})
        self.sessions = [Books(SessionLeases(self.governor, name)) for name in "ab"]

    def left(self) -> int:
        return self.governor.available(Tier.DEVICE) or 0

    @rule(who=st.integers(0, 1), needs=st.dictionaries(st.sampled_from(SITES), sizes))
    def pledge(self, who: int, needs: dict[Site, int]) -> None:
        books = self.sessions[who]
        named = {purpose_of(site): size for site, size in needs.items()}
        before = books.leases.sizes
        wanted = {item: max(books.used.get(item, 0), size) for item, size in named.items()}
        growth = sum(max(size - before.get(item, 0), 0) for item, size in wanted.items())
        if growth > self.left():
            used = self.governor.used(Tier.DEVICE)
            with pytest.raises(TierExhaustedError):
                books.leases.pledge(named)
            assert self.governor.used(Tier.DEVICE) == used
            assert {item: size for item, size in books.leases.sizes.items() if size} == {
                item: size for item, size in before.items() if size
            }
            return
        books.leases.pledge(named)
        books.pledged.update(named)

    @rule(who=st.integers(0, 1), site=st.sampled_from(SITES), size=sizes)
    def charge(self, who: int, site: Site, size: int) -> None:
        books, purpose = self.sessions[who], purpose_of(site)
        room = books.leases.total - sum(books.used.values()) + self.left()
        if size > room:
            used, before = self.governor.used(Tier.DEVICE), books.leases.total
            with pytest.raises(TierExhaustedError):
                books.leases.charge(site, size)
            assert (self.governor.used(Tier.DEVICE), books.leases.total) == (used, before)
            return
        books.leases.charge(site, size)
        books.used[purpose] = books.used.get(purpose, 0) + size
        books.buffers.append((site, size))

    @precondition(lambda self: any(books.buffers for books in self.sessions))
    @rule(data=st.data())
    def refund(self, data: st.DataObject) -> None:
        books = data.draw(st.sampled_from([item for item in self.sessions if item.buffers]))
        site, size = books.buffers.pop(data.draw(st.integers(0, len(books.buffers) - 1)))
        books.leases.refund(site, size)
        books.used[purpose_of(site)] -= size

    @rule(who=st.integers(0, 1))
    def close(self, who: int) -> None:
        books = self.sessions[who]
        held = books.leases.total
        assert books.leases.close() == held
        assert (books.leases.close(), books.leases.sizes) == (0, {})
        self.sessions[who] = Books(SessionLeases(self.governor, "ab"[who]))

    @invariant()
    def arithmetic_agrees(self) -> None:
        total = 0
        for books in self.sessions:
            sizes_now = books.leases.sizes
            assert all(sizes_now[item] >= used for item, used in books.used.items())
            assert sum(sizes_now.values()) <= sum(books.floor(item) for item in sizes_now)
            total += sum(sizes_now.values())
        assert total == self.governor.used(Tier.DEVICE) <= LIMIT
        assert len(self.governor._seats) == 3 + sum(len(books.leases.sizes) for books in self.sessions)


TestLeases = LeasesMachine.TestCase
TestLeases.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_what_was_lent_comes_back_to_the_pledge_before_anybody_else_gets_it() -> None:
    governor = Governor({Tier.DEVICE: 100})
    leases = SessionLeases(governor, "a")
    weights, scratch = SITES[0], SITES[2]
    leases.pledge({"weights": 40, purpose_of(scratch): 60})
    leases.charge(weights, 90)
    assert leases.sizes == {"weights": 90, purpose_of(scratch): 10}
    with pytest.raises(TierExhaustedError):
        SessionLeases(governor, "b").charge(weights, 1)
    leases.refund(weights, 90)
    assert leases.sizes == {"weights": 40, purpose_of(scratch): 60}


def test_roles_follow_purposes() -> None:
    assert role_of(purpose_of(SITES[1])) == KvCache()
    assert role_of(purpose_of(SITES[2])) == Workspace(step_scoped=True)
    assert role_of(purpose_of(Site("workspace", "session-persistent"))) == Workspace(step_scoped=False)
    assert role_of(purpose_of(Site("activations", "arena"))) == Activation()


def test_a_refused_pledge_does_not_take_back_what_its_purpose_had_lent() -> None:
    governor = Governor({Tier.DEVICE: 100})
    leases = SessionLeases(governor, "a")
    leases.pledge({"weights": 1})
    leases.charge(SITES[2], 42)
    assert governor.used(Tier.DEVICE) == 42
    with pytest.raises(TierExhaustedError):
        leases.pledge({"weights": 1, "KV cache": 58})
    assert (governor.used(Tier.DEVICE), leases.sizes["weights"]) == (42, 0)

"""Mapped allowances and growth: order of sources, FIFO, rollback, no double charge (G-02)."""

from __future__ import annotations

import threading
import time

import pytest

from vramscope.devices.governor import Governor
from vramscope.devices.governor_grant import Grant
from vramscope.devices.governor_growth import FifoQueue, MappedZone, Member, ZoneMetrics
from vramscope.devices.governor_types import KvCache, Role, Tier, Weights, Workspace
from vramscope.errors import CapacityUnavailableError, InvalidRequestError, TierExhaustedError

DEVICE = Tier.DEVICE


class World:
    """A zone of 100 bytes, with members that give what they are told to."""

    def __init__(self, limit: int | None = 100) -> None:
        self.governor = Governor({DEVICE: limit})
        self.zone = MappedZone(self.governor)
        self.asked: list[tuple[str, int]] = []

    def member(
        self, name: str, allowance: int, *, mapped: int = 0, gives: int | None = None, priority: int = 0
    ) -> Member:
        """``gives``: bytes that it unmaps (where needed) and offers when asked; None: it is never asked."""

        def reclaim(size: int) -> int:
            self.asked.append((name, size))
            assert self.zone.metrics().attempts > 0
            offer = min(gives or 0, size, member.allowance)
            member.note_unmapped(max(offer - member.unused, 0))
            return offer

        member = self.zone.join(
            self.governor.issue_holder(name),
            KvCache(),
            allowance=allowance,
            priority=priority,
            reclaim=None if gives is None else reclaim,
        )
        member.by_role[KvCache()] = mapped
        return member

    def state(self) -> object:
        """Everything that a rolled back growth must not change."""
        members = [(m.allowance, m.promised, m.open_grants, m.unused) for m in self.zone._members]
        return members, self.governor.used(DEVICE), self.governor.growing(DEVICE), self.zone._pending


def test_g02_capacity_comes_from_the_own_allowance_then_free_memory_then_others_by_priority() -> None:
    world = World()
    me = world.member("me", 30, mapped=20)
    late = world.member("late", 30, mapped=30, gives=30, priority=9)
    soon = world.member("soon", 20, mapped=15, gives=15, priority=1)
    with me.grow(10) as grant:
        assert (me.promised, world.governor.growing(DEVICE), world.asked) == (10, 0, [])
        grant.commit()
    with me.grow(20) as grant:
        assert (world.governor.growing(DEVICE), world.asked) == (20, [])
        grant.commit()
    assert (me.allowance, me.mapped, world.governor.available(DEVICE)) == (50, 50, 0)
    with me.grow(25) as grant:
        grant.commit()
    assert world.asked == [("soon", 25), ("late", 10)]
    assert [(m.allowance, m.mapped) for m in (me, soon, late)] == [(75, 75), (5, 5), (20, 20)]
    assert world.governor.used(DEVICE) == 100


def test_g02_a_grant_reserves_its_capacity_until_it_is_settled() -> None:
    world = World()
    me, other = world.member("me", 0), world.member("other", 0)
    grant = me.grow(70)
    assert (world.governor.available(DEVICE), world.governor.used(DEVICE)) == (30, 0)
    with pytest.raises(TierExhaustedError):
        world.governor.reserve(DEVICE, 31, Weights(), world.governor.other)
    with pytest.raises(TierExhaustedError) as refusal:
        other.grow(31)
    assert (refusal.value.requested, refusal.value.available) == (31, 30)
    grant.close()
    assert world.governor.available(DEVICE) == 100


def test_g02_dropping_a_grant_puts_every_byte_back() -> None:
    world = World()
    me = world.member("me", 20, mapped=10)
    donor = world.member("donor", 60, mapped=20, gives=40)
    before = world.state()
    grant = me.grow(60)
    assert (donor.allowance, world.governor.growing(DEVICE)) == (30, 50)
    grant.close()
    grant.close()
    assert world.state() == before
    with pytest.raises(InvalidRequestError, match="settled"):
        grant.commit()
    metrics = world.zone.metrics()
    assert (metrics.rollbacks, metrics.bytes_transferred, metrics.failures) == (1, 0, 0)


def test_g02_a_failed_commit_rolls_everything_back() -> None:
    world = World()
    me, donor = world.member("me", 0), world.member("donor", 90, gives=50)
    before = world.state()
    grant = me.grow(40)
    assert donor.allowance == 60
    with pytest.raises(InvalidRequestError, match="rolled back"):
        grant.commit_bytes(41)
    assert world.state() == before
    assert (me.mapped, world.zone.metrics().rollbacks) == (0, 1)


def test_g02_a_refused_growth_leaves_everything_and_asks_nobody_in_vain() -> None:
    world = World()
    me = world.member("me", 10, mapped=5)
    world.member("donor", 60, mapped=60, gives=0)
    world.governor.reserve(DEVICE, 20, Weights(), world.governor.other)
    before = world.state()
    with pytest.raises(TierExhaustedError):
        me.grow(76)
    assert world.asked == []
    with pytest.raises(TierExhaustedError):
        me.grow(75)
    assert world.asked == [("donor", 60)]
    assert world.state() == before
    assert (world.zone.metrics().failures, world.zone.metrics().attempts) == (2, 2)


def test_g02_an_actual_smaller_than_the_grant_returns_the_rest_to_others_first() -> None:
    world = World()
    me = world.member("me", 10)
    donor = world.member("donor", 70, gives=70)
    me.grow(50).commit_bytes(25)
    assert [(m.allowance, m.mapped) for m in (me, donor)] == [(25, 25), (70, 0)]
    assert world.governor.available(DEVICE) == 5
    assert world.zone.metrics().bytes_transferred == 0
    donor.give_up(70)
    me.grow(30).commit_bytes(0)
    assert [me.allowance, me.mapped, me.promised] == [25, 25, 0]


@pytest.mark.parametrize(("actual", "left"), [(0, (10, 0, 0, 10)), (6, (10, 6, 0, 4)), (25, (25, 25, 0, 0))])
def test_g02_what_is_not_mapped_of_the_own_allowance_stays_there_unpromised(
    actual: int, left: tuple[int, int, int, int]
) -> None:
    world = World()
    me = world.member("me", 10)
    grant = me.grow(30)
    assert (me.promised, me.unused, grant.size) == (10, 0, 30)
    grant.commit_bytes(actual)
    assert (me.allowance, me.mapped, me.promised, me.unused) == left
    assert (grant.size, me.open_grants, world.governor.growing(DEVICE)) == (0, 0, 0)


def test_g02_a_grant_is_settled_once_whatever_way() -> None:
    world = World()
    me = world.member("me", 10)
    for settle in (Grant.commit, Grant.settle_retained, Grant.close):
        grant = me.grow(20)
        settle(grant)
        before = world.state()
        for again in (Grant.commit, Grant.settle_retained):
            with pytest.raises(InvalidRequestError, match="settled before"):
                again(grant)
        grant.close()
        assert (world.state(), me.open_grants, grant.size) == (before, 0, 0)


def test_g02_retained_capacity_stays_with_the_requester_unmapped() -> None:
    world = World()
    me, donor = world.member("me", 10), world.member("donor", 60, gives=60)
    me.grow(60).settle_retained()
    assert (me.allowance, me.mapped, me.unused, donor.allowance) == (60, 0, 60, 40)
    assert world.zone.metrics().bytes_transferred == 20
    me.grow(60).commit()
    assert world.asked == [("donor", 20)]
    assert (me.mapped, world.governor.used(DEVICE)) == (60, 100)


def test_g02_a_member_that_promises_more_than_it_has_gives_what_it_has() -> None:
    world = World()
    me = world.member("me", 0)
    liar = world.zone.join(world.governor.other, Weights(), allowance=100, reclaim=lambda size: size * 10)
    liar.by_role[Weights()] = 80
    with pytest.raises(TierExhaustedError):
        me.grow(30)
    assert (liar.allowance, liar.mapped) == (100, 80)
    me.grow(20).commit()
    assert (me.mapped, liar.allowance, liar.mapped) == (20, 80, 80)


def test_g02_what_a_member_gives_to_nobody_in_particular_serves_the_asker() -> None:
    world = World()
    me = world.member("me", 0)
    donor = world.zone.join(
        world.governor.other, Weights(), allowance=100, reclaim=lambda size: donor.give_up(size) * 0
    )
    me.grow(30).commit()
    assert (me.mapped, donor.allowance, world.zone.metrics().bytes_transferred) == (30, 70, 0)


def test_g02_mapping_inside_an_allowance_is_charged_once() -> None:
    world = World()
    me = world.member("me", 60)
    for role in (Workspace(step_scoped=False), Workspace(step_scoped=True)):
        me.grow(30, role).commit()
    assert (world.governor.used(DEVICE), world.governor.growing(DEVICE)) == (60, 0)
    assert world.zone.metrics() == ZoneMetrics(
        attempts=2, live_holders=1, mapped_bytes=60, workspace_mapped=60, total_allowance=60, total_owned=60
    )
    me.note_unmapped(10, Workspace(step_scoped=True))
    with pytest.raises(InvalidRequestError, match="only 20 are mapped"):
        me.note_unmapped(21, Workspace(step_scoped=True))
    assert (me.mapped, me.unused, world.governor.used(DEVICE)) == (50, 10, 60)


def test_g02_growth_is_first_come_first_served() -> None:
    queue, order = FifoQueue(), []

    def wait_and_note(number: int) -> None:
        with queue.turn():
            order.append(number)

    threads = [threading.Thread(target=wait_and_note, args=(number,)) for number in range(5)]
    with queue.turn():
        for count, thread in enumerate(threads, 2):
            thread.start()
            while queue.length < count:
                time.sleep(0.0005)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_g02_growth_asked_for_from_inside_a_callback_is_refused_and_the_queue_goes_on() -> None:
    world = World()
    me = world.member("me", 0)
    other = world.zone.join(
        world.governor.other, Weights(), allowance=100, reclaim=lambda size: other.grow(size).size
    )
    before = world.state()
    with pytest.raises(InvalidRequestError, match="inside a reclaim callback"):
        me.grow(10)
    assert world.state() == before
    other.give_up(100)
    me.grow(10).commit()
    assert me.mapped == 10


def test_g02_callbacks_run_without_locks() -> None:
    world = World()
    me = world.member("me", 0)
    results: list[object] = []

    def from_another_thread() -> None:
        results.append((world.zone.metrics().attempts, world.governor.charges()[0].size))

    def reclaim(size: int) -> int:
        thread = threading.Thread(target=from_another_thread)
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), "a lock is held while a member is asked"
        return size

    world.zone.join(world.governor.other, Weights(), allowance=100, reclaim=reclaim)
    me.grow(10).commit()
    assert results == [(1, 0)]


def test_g02_concurrent_growth_never_maps_more_than_there_is() -> None:
    world = World(1000)
    members = [world.member(f"m{number}", 50) for number in range(6)]
    wrong: list[int] = []

    def work(member: Member) -> None:
        for turn in range(40):
            try:
                with member.grow(10 + turn) as grant:
                    if turn % 3:
                        grant.commit()
            except TierExhaustedError:
                member.note_unmapped(member.mapped)
                member.give_up(member.unused)
            with world.governor._lock:
                book = world.governor._books[DEVICE]
                wrong.extend([book.used + book.growing] if book.used + book.growing > 1000 else [])

    threads = [threading.Thread(target=work, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert world.governor.growing(DEVICE) == 0
    assert world.governor.used(DEVICE) == sum(member.allowance for member in members) <= 1000
    assert all(0 <= member.mapped <= member.allowance for member in members)


def test_leaving_gives_the_allowance_back_once_nothing_is_mapped() -> None:
    world = World()
    me, donor = world.member("me", 20), world.member("donor", 60, gives=60)
    grant = me.grow(50)
    with pytest.raises(InvalidRequestError, match="1 grants are open"):
        me.leave()
    assert donor.leave() == 50
    grant.close()
    assert (world.governor.used(DEVICE), world.governor.available(DEVICE)) == (20, 80)
    me.grow(5).commit()
    with pytest.raises(InvalidRequestError, match="5 bytes are mapped"):
        me.leave()
    me.note_unmapped(5)
    assert (me.leave(), world.governor.used(DEVICE), world.zone.metrics().live_holders) == (20, 0, 0)


def test_growth_on_a_lost_device_is_refused_and_rolled_back() -> None:
    world = World()
    me = world.member("me", 20)
    world.governor.lose_device("gone")
    before = world.state()
    with pytest.raises(CapacityUnavailableError):
        me.grow(30)
    assert world.state() == before


@pytest.mark.parametrize(
    ("role", "field"),
    [
        (Weights(), "weight_mapped"),
        (KvCache(), "kv_mapped"),
        (Workspace(step_scoped=True), "workspace_mapped"),
    ],
)
def test_mapped_bytes_are_told_by_role(role: Role, field: str) -> None:
    world = World(None)
    world.member("me", 0).grow(7, role).commit()
    metrics = world.zone.metrics()
    parts = {name: getattr(metrics, name) for name in ("weight_mapped", "kv_mapped", "workspace_mapped")}
    assert parts == dict.fromkeys(parts, 0) | {field: 7}

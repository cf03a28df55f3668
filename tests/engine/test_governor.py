"""The governor's leases, limits, reclaim and authorities (G-01, G-03), alone and against plain arithmetic."""

from __future__ import annotations

import threading

import pytest

from vramscope.devices.governor import KV_HOLDER, OTHER_HOLDER, WORKSPACE_HOLDER, Governor
from vramscope.devices.governor_lease import Charge, GovernorLease
from vramscope.devices.governor_process import ProcessMemoryManager
from vramscope.devices.governor_types import Activation, KvCache, Tier, Weights, Workspace
from vramscope.errors import (
    CapacityUnavailableError,
    InvalidRequestError,
    OutOfBudgetError,
    TierExhaustedError,
)

DEVICE, HOST, DISK = Tier.DEVICE, Tier.HOST, Tier.DISK


def state(governor: Governor) -> object:
    """Everything that a refusal must not change."""
    return governor.charges(), [(governor.used(t), governor.growing(t), governor.limit(t)) for t in Tier]


def test_g01_the_limit_holds_exactly_its_bytes_and_not_one_more() -> None:
    governor = Governor({DEVICE: 100})
    governor.reserve(DEVICE, 100, Weights(), governor.other)
    with pytest.raises(TierExhaustedError) as refusal:
        governor.reserve(DEVICE, 1, Weights(), governor.other)
    assert (refusal.value.requested, refusal.value.available, refusal.value.tier) == (1, 0, "device")
    assert isinstance(refusal.value, OutOfBudgetError)


def test_g01_a_refused_request_changes_nothing() -> None:
    governor = Governor({DEVICE: 100})
    lease = governor.reserve(DEVICE, 70, KvCache(), governor.kv_cache)
    before = state(governor)
    with pytest.raises(TierExhaustedError):
        governor.reserve(DEVICE, 31, Weights(), governor.other)
    with pytest.raises(TierExhaustedError):
        lease.grow(31)
    assert state(governor) == before
    assert lease.size == 70


def test_g01_a_lease_is_returned_once() -> None:
    governor = Governor({DEVICE: 100})
    with governor.reserve(DEVICE, 60, Activation(), governor.other) as lease:
        assert governor.available(DEVICE) == 40
    assert governor.available(DEVICE) == 100
    governor.reserve(DEVICE, 80, Activation(), governor.other)
    assert (lease.close(), lease.shrink(5), lease.size, governor.used(DEVICE)) == (0, 0, 0, 80)
    with pytest.raises(InvalidRequestError, match="closed"):
        lease.grow(1)
    assert governor.used(DEVICE) == 80


def test_g01_growing_claims_only_the_difference() -> None:
    governor = Governor({DEVICE: 100})
    lease = governor.reserve(DEVICE, 60, KvCache(), governor.kv_cache)
    lease.grow(40)
    assert (lease.size, governor.used(DEVICE), governor.available(DEVICE)) == (100, 100, 0)
    assert lease.close() == 100


def test_g01_shrinking_is_capped_by_what_is_held() -> None:
    governor = Governor({DEVICE: 100})
    lease = governor.reserve(DEVICE, 60, KvCache(), governor.kv_cache)
    assert [lease.shrink(20), lease.shrink(0), lease.shrink(99)] == [20, 0, 40]
    assert (lease.size, lease.close(), governor.used(DEVICE)) == (0, 0, 0)


def test_g01_lowering_the_limit_revokes_nothing() -> None:
    governor = Governor({DEVICE: 100})
    lease = governor.reserve(DEVICE, 80, Weights(), governor.other)
    governor.set_limit(DEVICE, 50)
    assert (lease.size, governor.available(DEVICE), governor.oversubscribed_bytes(DEVICE)) == (80, 0, 30)
    with pytest.raises(TierExhaustedError, match="30 over it"):
        governor.reserve(DEVICE, 1, Weights(), governor.other)
    lease.shrink(31)
    assert (governor.available(DEVICE), governor.oversubscribed_bytes(DEVICE)) == (1, 0)


def test_g01_0_bytes_are_legal_also_when_the_tier_is_over_its_limit() -> None:
    governor = Governor({DEVICE: 0})
    governor.record_committed(DEVICE, 7, Weights(), governor.other)
    assert governor.reserve(DEVICE, 0, Weights(), governor.other).close() == 0


@pytest.mark.parametrize("size", [-1, 2**63, True, 2.0])
def test_g01_overflow_and_nonsense_are_refused(size: int) -> None:
    governor = Governor({})
    lease = governor.reserve(DEVICE, 1, Weights(), governor.other)
    before = state(governor)
    for ask in (
        lambda: governor.reserve(DEVICE, size, Weights(), governor.other),
        lambda: governor.record_committed(DEVICE, size, Weights(), governor.other),
        lambda: governor.set_limit(DEVICE, size),
        lambda: lease.grow(size),
        lambda: lease.shrink(size),
    ):
        with pytest.raises(InvalidRequestError):
            ask()
    assert state(governor) == before


def test_g01_a_sum_that_overflows_is_refused_where_no_limit_is_known() -> None:
    governor = Governor({DEVICE: None})
    governor.reserve(DEVICE, 2**63 - 1, Weights(), governor.other)
    assert (governor.available(DEVICE), governor.oversubscribed_bytes(DEVICE)) == (None, 0)
    for ask in (governor.reserve, governor.record_committed):
        with pytest.raises(InvalidRequestError, match="2\\*\\*63"):
            ask(DEVICE, 1, Weights(), governor.other)
    with pytest.raises(InvalidRequestError):
        governor.take_growth(DEVICE, 1)


def test_g01_tiers_are_independent() -> None:
    governor = Governor({DEVICE: 10, HOST: 20, DISK: 0})
    governor.reserve(DEVICE, 10, Weights(), governor.other)
    governor.reserve(HOST, 20, Weights(), governor.other)
    with pytest.raises(TierExhaustedError):
        governor.reserve(DISK, 1, Weights(), governor.other)
    assert [governor.used(tier) for tier in Tier] == [10, 20, 0]
    assert [tier.below for tier in Tier] == [HOST, DISK, None]


def test_g01_concurrent_requests_never_oversubscribe() -> None:
    governor = Governor({DEVICE: 1000})
    start, seen, wrong = threading.Barrier(8), [], []

    def worker(step: int) -> None:
        mine: list[GovernorLease] = []
        start.wait()
        for turn in range(60):
            try:
                mine.append(governor.reserve(DEVICE, 37 + step, Weights(), governor.other))
                mine[-1].grow(turn)
            except TierExhaustedError:
                seen.append(step)
                mine.pop().close() if mine else None
            if governor.oversubscribed_bytes(DEVICE):
                wrong.append(step)
        for lease in mine:
            lease.close()

    threads = [threading.Thread(target=worker, args=(step,)) for step in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert seen
    assert (governor.used(DEVICE), governor.charges()) == (0, ())


def test_g01_what_is_committed_already_may_oversubscribe_and_is_reported() -> None:
    governor = Governor({DEVICE: 100})
    lease = governor.record_committed(DEVICE, 130, Workspace(step_scoped=True), governor.workspace)
    assert (governor.available(DEVICE), governor.oversubscribed_bytes(DEVICE)) == (0, 30)
    assert governor.charges() == (Charge(DEVICE, Workspace(step_scoped=True), governor.workspace, 130),)
    assert lease.close() == 130
    assert governor.oversubscribed_bytes(DEVICE) == 0


def test_the_built_in_holders_have_the_known_numbers_and_others_come_after() -> None:
    governor = Governor({})
    built_in = governor.workspace.number, governor.kv_cache.number, governor.other.number
    assert built_in == (WORKSPACE_HOLDER, KV_HOLDER, OTHER_HOLDER) == (64, 65, 66)
    assert [governor.issue_holder(name).number for name in "ab"] == [67, 68]


def test_holders_are_asked_in_order_for_what_is_missing_without_a_lock() -> None:
    governor = Governor({DEVICE: 100})
    asked: list[tuple[str, int]] = []

    def giver(name: str, gives: int, priority: int) -> GovernorLease:
        def reclaim(tier: Tier, size: int) -> int:
            asked.append((name, size))
            assert governor.available(tier) is not None  # would wait forever with the lock held
            return lease.shrink(gives)

        holder = governor.issue_holder(name, reclaim=reclaim, priority=priority)
        lease = governor.reserve(DEVICE, 30, KvCache(), holder)
        return lease

    late, stingy, first = giver("late", 30, 5), giver("stingy", 0, 2), giver("first", 12, 1)
    granted = governor.reserve(DEVICE, 40, Weights(), governor.other)
    assert asked == [("first", 30), ("stingy", 18), ("late", 18)]
    assert [lease.size for lease in (first, stingy, late, granted)] == [18, 30, 0, 40]


def test_nobody_is_asked_when_all_together_could_not_give_enough() -> None:
    governor = Governor({DEVICE: 100})
    asked: list[int] = []

    def give_nothing(_tier: Tier, size: int) -> int:
        asked.append(size)
        return 0

    giver = governor.issue_holder("giver", reclaim=give_nothing)
    governor.reserve(DEVICE, 50, KvCache(), giver)
    governor.reserve(DEVICE, 50, Weights(), governor.other)
    with pytest.raises(TierExhaustedError):
        governor.reserve(DEVICE, 51, Weights(), governor.other)
    assert asked == []
    with pytest.raises(TierExhaustedError):
        governor.reserve(DEVICE, 50, Weights(), governor.other)
    assert asked == [50]
    with pytest.raises(TierExhaustedError):
        governor.reserve(DEVICE, 1, KvCache(), giver)
    assert asked == [50]


def test_a_lease_closed_while_others_are_asked_for_its_growth_stays_closed() -> None:
    governor = Governor({DEVICE: 100})
    lease = governor.reserve(DEVICE, 40, Weights(), governor.other)
    governor.set_reclaim(governor.kv_cache, lambda _tier, _size: lease.close() * 0)
    governor.reserve(DEVICE, 60, KvCache(), governor.kv_cache)
    with pytest.raises(InvalidRequestError, match="closed"):
        lease.grow(10)
    assert (lease.size, governor.used(DEVICE), len(governor.charges())) == (0, 60, 1)


def test_a_holder_that_fails_to_give_is_named_in_the_refusal() -> None:
    governor = Governor({DEVICE: 100})
    failure = InvalidRequestError("eviction", "the sequence is pinned")

    def reclaim(_tier: Tier, _size: int) -> int:
        raise failure

    governor.set_reclaim(governor.kv_cache, reclaim)
    lease = governor.reserve(DEVICE, 80, KvCache(), governor.kv_cache)
    with pytest.raises(CapacityUnavailableError, match=r"KV cache.*pinned") as refusal:
        governor.reserve(DEVICE, 40, Weights(), governor.other)
    assert refusal.value.cause is failure
    assert (lease.size, governor.used(DEVICE)) == (80, 80)


def test_g03_authorities_are_distinct_and_refuse_each_other_s_holders() -> None:
    manager = ProcessMemoryManager()
    first, second = manager.governor("cuda:0", {DEVICE: 100}), manager.governor("cuda:1", {DEVICE: 100})
    assert manager.devices() == ("cuda:0", "cuda:1")
    assert manager.governor("cuda:0", {DEVICE: 1}) is first
    assert first.limit(DEVICE) == 100
    assert first.authority != second.authority
    assert Governor({}, "cuda:0").authority != first.authority
    for ask in (first.reserve, first.record_committed):
        with pytest.raises(InvalidRequestError, match="issued by cuda:1"):
            ask(DEVICE, 0, Weights(), second.other)
    with pytest.raises(InvalidRequestError):
        first.set_reclaim(second.other, None)


def test_g03_sessions_of_one_process_share_a_device_s_limit() -> None:
    manager = ProcessMemoryManager()
    granted: list[GovernorLease] = []

    def session() -> None:
        governor = manager.governor("cuda:0", {DEVICE: 100})
        for _ in range(20):
            try:
                granted.append(governor.reserve(DEVICE, 9, KvCache(), governor.kv_cache))
            except TierExhaustedError:
                return

    threads = [threading.Thread(target=session) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 11
    assert manager.governor("cuda:0", {}).used(DEVICE) == 99


def test_g03_a_lost_device_keeps_its_charge_until_termination() -> None:
    manager = ProcessMemoryManager()
    governor = manager.governor("cuda:0", {DEVICE: 100})
    lease = governor.reserve(DEVICE, 60, Weights(), governor.other)
    manager.lose_device("cuda:0", "Xid 79: fallen off the bus")
    assert (lease.shrink(10), lease.close(), lease.size, governor.used(DEVICE)) == (0, 0, 60, 60)
    for ask in (
        lambda: governor.reserve(DEVICE, 0, Weights(), governor.other),
        lambda: lease.grow(1),
        lambda: governor.take_growth(DEVICE, 1),
    ):
        with pytest.raises(CapacityUnavailableError, match="Xid 79"):
            ask()
    assert manager.terminate() == {"cuda:0": 60}
    assert (lease.size, lease.close(), governor.charges()) == (0, 0, ())
    assert (governor.used(DEVICE), governor.held(governor.other, DEVICE)) == (0, 0)


def test_a_holder_is_dismissed_once_it_holds_nothing_and_its_number_is_never_used_again() -> None:
    governor = Governor({DEVICE: 100})
    holder = governor.issue_holder("a")
    lease = governor.reserve(DEVICE, 10, Activation(), holder)
    with pytest.raises(InvalidRequestError, match="open lease"):
        governor.dismiss_holder(holder)
    lease.close()
    governor.dismiss_holder(holder)
    with pytest.raises(InvalidRequestError, match="not by this governor"):
        governor.reserve(DEVICE, 0, Activation(), holder)
    with pytest.raises(InvalidRequestError, match="not by this governor"):
        governor.dismiss_holder(holder)
    assert governor.issue_holder("b").number == holder.number + 1
    with pytest.raises(InvalidRequestError, match="for good"):
        governor.dismiss_holder(governor.kv_cache)


def test_a_lost_device_moves_nothing_between_leases() -> None:
    governor = Governor({DEVICE: 100})
    one, two = (governor.reserve(DEVICE, 10, Activation(), governor.other) for _ in range(2))
    assert one.give_to(two, 4) == 4
    governor.lose_device("it fell off the bus")
    assert (one.give_to(two, 4), one.size, two.size) == (0, 6, 14)

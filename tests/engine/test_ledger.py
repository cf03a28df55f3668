"""The ledger's counts, limits and refusals, and the counts of allocations and frees (R-05)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vramscope.devices.governor_release import DeferredReleases
from vramscope.devices.host import HostDevice
from vramscope.devices.ledger import AllocationCounts, Counters, Lease, Ledger, Site
from vramscope.errors import InvalidRequestError, LedgerSealedError, OutOfBudgetError, VramscopeError

WEIGHT = Site("weights", "w")
SCRATCH = Site("workspace", "scores", "layer0/Attention")


def test_r05_an_allocation_counts_at_once_and_a_free_when_the_deferred_release_completes() -> None:
    device, releases = HostDevice(), DeferredReleases()
    done = False
    before = device.ledger.allocation_counts
    buffer = device.allocate(WEIGHT, 64)
    assert device.ledger.allocation_counts == AllocationCounts(before.allocations + 1, before.frees)
    releases.retire("w", buffer.size, lambda: done, lambda: device.release(buffer))
    assert releases.poll() == 0
    assert device.ledger.allocation_counts == AllocationCounts(1, 0)
    done = True
    assert releases.poll() == 1
    assert device.ledger.allocation_counts == AllocationCounts(1, 1)


def test_r05_a_borrowed_buffer_moves_nothing() -> None:
    ledger = Ledger(100)
    lease = ledger.borrow(WEIGHT, 10**9)
    assert (ledger.allocation_counts, ledger.total, ledger.sites) == (AllocationCounts(), Counters(), {})
    ledger.give_back(lease)
    assert (ledger.allocation_counts, ledger.total, ledger.available) == (AllocationCounts(), Counters(), 100)
    with pytest.raises(VramscopeError, match="given back already"):
        ledger.give_back(lease)


def test_memory_that_the_system_refuses_stays_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise MemoryError

    device = HostDevice(100)
    monkeypatch.setattr(np, "empty", refuse)
    with pytest.raises(MemoryError):
        device.allocate(WEIGHT, 64)
    assert (device.ledger.available, device.ledger.total.current_count) == (100, 0)


def test_the_budget_holds_exactly_its_bytes_and_a_refusal_names_the_site() -> None:
    ledger = Ledger(100)
    ledger.take(WEIGHT, 60)
    with pytest.raises(OutOfBudgetError, match="scores of layer0/Attention") as refusal:
        ledger.take(SCRATCH, 41)
    assert (refusal.value.requested, refusal.value.available) == (41, 40)
    assert SCRATCH not in ledger.sites
    assert ledger.take(SCRATCH, 40).number == 2
    assert (ledger.available, ledger.oversubscribed) == (0, 0)


def test_a_lower_budget_revokes_nothing_and_the_excess_is_told() -> None:
    ledger = Ledger()
    assert (ledger.available, ledger.oversubscribed, ledger.budget) == (None, 0, None)
    lease = ledger.take(WEIGHT, 60)
    ledger.set_budget(50)
    assert (ledger.available, ledger.oversubscribed, ledger.budget) == (0, 10, 50)
    ledger.give_back(lease)
    assert (ledger.available, ledger.oversubscribed) == (50, 0)
    ledger.set_budget(None)
    assert ledger.available is None
    with pytest.raises(InvalidRequestError):
        ledger.set_budget(-1)


@pytest.mark.parametrize("size", [-1, 2**63, True, 1.5])
def test_what_is_no_number_of_bytes_is_refused(size: int) -> None:
    ledger = Ledger()
    for ask in (ledger.take, ledger.borrow):
        with pytest.raises(InvalidRequestError):
            ask(WEIGHT, size)
    assert ledger.total == Counters()


def test_a_sealed_ledger_refuses_even_0_bytes_and_says_why() -> None:
    ledger = Ledger()
    with ledger.sealed("a replay"):
        with ledger.sealed("a capture"), pytest.raises(LedgerSealedError, match="a capture"):
            ledger.take(WEIGHT, 0)
        with pytest.raises(LedgerSealedError, match="a replay"):
            ledger.take(SCRATCH, 1)
    assert ledger.take(WEIGHT, 0).size == 0


def test_a_component_s_peak_is_that_of_the_sum() -> None:
    ledger = Ledger()
    for name in ("a", "b"):
        ledger.give_back(ledger.take(Site("kv", name), 10))
    assert ledger.component("kv") == Counters(0, 10, 20, 0, 1, 2)
    assert ledger.component("never") == Counters()


def test_phases_count_what_was_taken_in_them_and_what_was_out_meanwhile() -> None:
    ledger = Ledger()
    ledger.take(WEIGHT, 100)
    with ledger.phase("prefill"):
        kept = ledger.take(SCRATCH, 30)
        with ledger.phase("verify"):
            ledger.give_back(ledger.take(SCRATCH, 5))
    with ledger.phase("decode"):
        ledger.give_back(kept)
        ledger.take(SCRATCH, 7)
    assert ledger.phases == {
        "prefill": Counters(0, 30, 30, 0, 1, 1),
        "verify": Counters(0, 5, 5, 0, 1, 1),
        "decode": Counters(7, 7, 7, 1, 1, 1),
    }
    assert ledger.phase_peaks == {"prefill": 130, "verify": 135, "decode": 130}


def test_an_outer_phase_sees_what_an_inner_one_left_and_an_idle_one_sees_0() -> None:
    ledger = Ledger()
    with ledger.phase("idle"):
        assert ledger.phase_peaks == {"idle": 0}
    with ledger.phase("outer"), ledger.phase("inner"):
        ledger.take(WEIGHT, 5)
    assert ledger.phase_peaks == {"idle": 0, "outer": 5, "inner": 5}
    assert set(ledger.phases) == {"inner"}


class LedgerMachine(RuleBasedStateMachine):
    """The ledger against plain arithmetic over a dict of what is out."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.budget: int | None = None
        self.out: dict[int, Lease] = {}
        self.gone: list[Lease] = []
        self.history: list[dict[int, Lease]] = []
        self.taken: list[int] = []

    @rule(name=st.sampled_from("ab"), component=st.sampled_from("xy"), size=st.integers(0, 40))
    def take(self, name: str, component: str, size: int) -> None:
        fits = self.budget is None or size <= max(self.budget - self.sum(), 0)
        if not fits:
            with pytest.raises(OutOfBudgetError):
                self.ledger.take(Site(component, name), size)
            return
        lease = self.ledger.take(Site(component, name), size)
        self.out[lease.number] = lease
        self.taken.append(size)
        self.history.append(dict(self.out))

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        lease = self.out.pop(data.draw(st.sampled_from(sorted(self.out))))
        self.ledger.give_back(lease)
        self.gone.append(lease)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def give_back_again(self, data: st.DataObject) -> None:
        with pytest.raises(VramscopeError):
            self.ledger.give_back(data.draw(st.sampled_from(self.gone)))

    @rule(budget=st.none() | st.integers(0, 120))
    def set_budget(self, budget: int | None) -> None:
        self.ledger.set_budget(budget)
        self.budget = budget

    def sum(self) -> int:
        return sum(lease.size for lease in self.out.values())

    @invariant()
    def totals_agree(self) -> None:
        peak = max((sum(lease.size for lease in out.values()) for out in self.history), default=0)
        most = max((len(out) for out in self.history), default=0)
        expected = Counters(self.sum(), peak, sum(self.taken), len(self.out), most, len(self.taken))
        assert self.ledger.total == expected
        assert self.ledger.allocation_counts == AllocationCounts(len(self.taken), len(self.gone))
        over = 0 if self.budget is None else max(self.sum() - self.budget, 0)
        assert self.ledger.oversubscribed == over

    @invariant()
    def sites_and_components_agree(self) -> None:
        for site, counters in self.ledger.sites.items():
            mine = [lease.size for lease in self.out.values() if lease.site == site]
            assert (counters.current_bytes, counters.current_count) == (sum(mine), len(mine))
        for component in "xy":
            sizes = [
                sum(lease.size for lease in out.values() if lease.site.component == component)
                for out in self.history
            ]
            assert self.ledger.component(component).peak_bytes == max(sizes, default=0)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_entering_a_phase_lasts_until_another_is_entered_and_blocks_return_to_it() -> None:
    ledger = Ledger()
    ledger.enter("loading")
    ledger.take(WEIGHT, 10)
    ledger.enter("decode")
    lease = ledger.take(WEIGHT, 5)
    with ledger.phase("growing"):
        ledger.give_back(ledger.take(WEIGHT, 7))
    ledger.enter("decode")
    ledger.give_back(lease)
    ledger.enter("replay")
    assert ledger.phase_peaks == {"loading": 10, "decode": 15, "growing": 22, "replay": 10}
    assert {name: item.total_bytes for name, item in ledger.phases.items()} == {
        "loading": 10,
        "decode": 5,
        "growing": 7,
    }

"""Bindings whose memory is committed range by range: charges, refusals, addresses, captured graphs (G-05)."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from cuda_twin import twin_device
from foreign_governor import ForeignGovernor
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from small_models import opened

from vramscope.api import make_plan
from vramscope.devices.governor import Governor
from vramscope.devices.governor_mapping import GRANULE, HostMapper
from vramscope.devices.governor_types import Tier
from vramscope.devices.host import HostDevice
from vramscope.errors import BindingError, InvalidRequestError, OutOfBudgetError, TierExhaustedError
from vramscope.graph.dtypes import ElementType
from vramscope.plan.types import Scenario
from vramscope.run.device_binding import BindingSpec, DeviceIoBinding, span_of
from vramscope.run.session import ProgramSession
from vramscope.run.session_types import SessionOptions

PAGE = mmap.PAGESIZE
COLUMNS = PAGE // 4
ROWS = 8
GRAPH = f"g (float[N,{COLUMNS}] x) => (float[N,{COLUMNS}] y) {{ y = Relu(x) }}"


def session_under(governor: Governor, device: HostDevice | None = None) -> ProgramSession:
    model = opened(GRAPH)
    plan = make_plan(model, Scenario(batch=ROWS))
    session = ProgramSession(model, plan, device or HostDevice(), SessionOptions(governor=governor))
    session.prepare()
    return session


def virtual(session: ProgramSession, name: str = "x") -> DeviceIoBinding:
    """One page a row, none of them backed."""
    names = {"input_name": "x"} if name == "x" else {"output_name": "y"}
    return session.governance.virtual_binding((ROWS, COLUMNS), granule=PAGE, **names)


def rows(count: int, value: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.full((count, COLUMNS), value, np.float32)


# ------------------------------------------------------------------------------------ committing


def test_g05_addresses_cost_nothing_and_a_commit_charges_its_granules_once() -> None:
    governor, device = Governor({Tier.DEVICE: 2**30}), HostDevice()
    session = session_under(governor, device)
    used, held = governor.used(Tier.DEVICE), device.ledger.total.current_bytes
    x = virtual(session)
    assert (x.committed_bytes, x.committed_ranges) == (0, ())
    assert (governor.used(Tier.DEVICE), device.ledger.total.current_bytes) == (used, held)
    assert x.commit(10, PAGE + 1) == 2 * PAGE
    assert x.commit(0, 2 * PAGE) == 0
    assert x.commit(4 * PAGE, 4 * PAGE + 1) == PAGE
    assert list(x.committed_ranges) == [(0, 2 * PAGE), (4 * PAGE, 5 * PAGE)]
    assert governor.used(Tier.DEVICE) == used + 3 * PAGE == used + x.committed_bytes
    assert device.ledger.total.current_bytes == held + 3 * PAGE
    assert session.governance.mapped.mapped_bytes == 3 * PAGE
    assert x.decommit(PAGE + 1, 5 * PAGE) == PAGE
    assert x.decommit(0, PAGE - 1) == 0, "a granule goes only as a whole"
    assert list(x.committed_ranges) == [(0, 2 * PAGE)]
    assert governor.used(Tier.DEVICE) == used + 2 * PAGE
    x.close()
    x.close()
    assert (governor.used(Tier.DEVICE), device.ledger.total.current_bytes) == (used, held)
    assert session.governance.mapped.live_holders == 0
    session.close()
    assert governor.charges() == ()
    assert len(governor._seats) == 3


def test_g05_a_refused_commit_changes_nothing_whoever_refuses() -> None:
    governor, device = Governor({Tier.DEVICE: 2**30}), HostDevice()
    session = session_under(governor, device)
    x = virtual(session)
    x.commit(0, PAGE)
    governor.set_limit(Tier.DEVICE, governor.used(Tier.DEVICE) + PAGE)
    with pytest.raises(TierExhaustedError):
        x.commit(0, 3 * PAGE)
    before = (governor.used(Tier.DEVICE), device.ledger.total.current_bytes, x.committed_ranges)
    governor.set_limit(Tier.DEVICE, 2**30)
    device.ledger.set_budget(device.ledger.total.current_bytes + 2 * PAGE)
    with pytest.raises(OutOfBudgetError):
        x.commit(0, 4 * PAGE)
    assert (governor.used(Tier.DEVICE), device.ledger.total.current_bytes, x.committed_ranges) == before
    assert x.commit(0, 3 * PAGE) == 2 * PAGE


def test_decommitted_bytes_are_lost_and_read_as_zero_when_they_come_back() -> None:
    session = session_under(Governor({}))
    x = virtual(session)
    x.commit(0, 2 * PAGE)
    x.set_logical((2, COLUMNS))
    x.write(rows(2, 3))
    x.decommit(PAGE, 2 * PAGE)
    with pytest.raises(BindingError, match="Commit the range first"):
        x.read_logical()
    x.commit(PAGE, 2 * PAGE)
    assert np.unique(x.read_logical()[0]).tolist() == [3]
    assert np.unique(x.read_logical()[1]).tolist() == [0]


def test_what_is_not_committed_cannot_be_bound_written_or_read() -> None:
    session = session_under(Governor({}))
    x, y = virtual(session), session.allocate_binding((ROWS, COLUMNS), output_name="y")
    x.commit(0, 2 * PAGE)
    with pytest.raises(BindingError, match=rf"reaches byte {ROWS * PAGE:,}"):
        session.run_with_device_bindings({}, [x, y])
    x.set_logical((2, COLUMNS))
    y.set_logical((2, COLUMNS))
    x.write(np.arange(2 * COLUMNS, dtype=np.float32).reshape(2, COLUMNS) - 3)
    session.run_with_device_bindings({}, [x, y])
    assert y.read()[0, :5].tolist() == [0, 0, 0, 0, 1]
    with pytest.raises(BindingError, match="Commit the range first"):
        x.write(rows(ROWS, 1))
    with pytest.raises(BindingError, match="Commit the range first"):
        x.read()
    with pytest.raises(InvalidRequestError, match="has bytes 0 to"):
        x.commit(0, ROWS * PAGE + 1)


def test_ordinary_memory_is_committed_as_a_whole() -> None:
    session = session_under(Governor({}))
    y = session.allocate_binding((ROWS, COLUMNS), output_name="y")
    assert (y.committed_bytes, y.committed_ranges) == (ROWS * PAGE, ((0, ROWS * PAGE),))
    assert y.commit(0, 1) == 0
    with pytest.raises(InvalidRequestError, match="as a whole"):
        y.decommit(0, PAGE)


@pytest.mark.parametrize(
    ("shape", "end"),
    [((2, 3, 4), 96), ((1, 3, 4), 48), ((2, 1, 2), (12 + 1 + 1) * 4), ((0, 3, 4), 0), ((1, 1, 1), 4)],
)
def test_a_prefix_reaches_its_last_element_in_the_physical_strides(shape: tuple[int, ...], end: int) -> None:
    assert span_of(shape, BindingSpec("x", "", ElementType.FLOAT, (2, 3, 4))) == end


# ------------------------------------------------------------------------------------ graphs


def test_g05_growth_in_place_keeps_the_captured_graph() -> None:
    session = session_under(Governor({}))
    x, y = virtual(session), virtual(session, "y")
    for item in (x, y):
        item.commit(0, 2 * PAGE)
        item.set_logical((2, COLUMNS))
    address = x.address
    session.run_with_device_bindings({}, [x, y])
    assert session.try_capture([x, y]).is_single_graph
    for item in (x, y):
        item.commit(0, 4 * PAGE)
    assert x.address == address
    x.write(rows(2, 7))
    assert session.replay([x, y])
    assert np.unique(y.read_logical()).tolist() == [7]
    assert session.slot.invalidations == 0


def test_g05_cycles_of_growing_and_shrinking_leak_nothing() -> None:
    governor, device = Governor({Tier.DEVICE: 2**30}), HostDevice()
    session = session_under(governor, device)
    before = (governor.used(Tier.DEVICE), device.ledger.total.current_bytes)
    x = virtual(session)
    for turn in range(20):
        x.commit(0, (1 + turn % ROWS) * PAGE)
        assert x.committed_bytes == (1 + turn % ROWS) * PAGE
        x.decommit(0, ROWS * PAGE)
    assert (governor.used(Tier.DEVICE), device.ledger.total.current_bytes) == before
    x.close()
    assert (governor.used(Tier.DEVICE), device.ledger.total.current_bytes) == before


def test_g05_host_memory_gives_its_pages_back_and_keeps_its_addresses() -> None:
    mapper = HostMapper(3 * PAGE, PAGE)
    mapper.map(1)
    view = mapper.view(PAGE, PAGE)
    view[:] = 9
    address = mapper.address
    mapper.unmap(1)
    mapper.map(1)
    assert (int(view.sum()), mapper.address, view.ctypes.data) == (0, address, address + PAGE)
    assert (mapper.size, mapper.granule) == (3 * PAGE, PAGE)
    assert HostMapper(1).size == HostMapper(1).granule == GRANULE == 2 * 2**20


# ------------------------------------------------------------------------------------ where it cannot be


def test_virtual_memory_needs_the_host_device_and_our_own_governor() -> None:
    model = opened(GRAPH)
    plan = make_plan(model, Scenario(batch=ROWS, runtime="cuda"))
    device, _ = twin_device()
    with pytest.raises(InvalidRequestError, match="only the host device"):
        virtual(ProgramSession(model, plan, device))
    foreign = ProgramSession(model, plan, HostDevice(), SessionOptions(governor=ForeignGovernor()))
    with pytest.raises(InvalidRequestError, match="grants no mapped growth"):
        virtual(foreign)


def test_a_governor_cannot_be_changed_under_mapped_memory() -> None:
    model = opened(GRAPH)
    session = ProgramSession(model, make_plan(model, Scenario(batch=ROWS)), HostDevice())
    session.prepare()
    x = virtual(session)
    with pytest.raises(InvalidRequestError, match="virtual bindings"):
        session.governance.adopt_memory_governor(Governor({}))
    x.close()
    governor = Governor({})
    assert session.governance.adopt_memory_governor(governor) > 0
    y = virtual(session, "y")
    y.commit(0, PAGE)
    assert session.governance.mapped.mapped_bytes == PAGE


# ------------------------------------------------------------------------------------ any order of ranges


class CommitMachine(RuleBasedStateMachine):
    """Commits and decommits of two bindings against sets of granules, under one limit."""

    LIMIT = 9

    def __init__(self) -> None:
        super().__init__()
        self.governor, self.device = Governor({Tier.DEVICE: 2**30}), HostDevice()
        self.session = session_under(self.governor, self.device)
        self.base = self.governor.used(Tier.DEVICE)
        self.held_before = self.device.ledger.total.current_bytes
        self.governor.set_limit(Tier.DEVICE, self.base + self.LIMIT * PAGE)
        self.bindings = [virtual(self.session), virtual(self.session, "y")]
        self.model: list[set[int]] = [set(), set()]

    @rule(who=st.integers(0, 1), start=st.integers(0, ROWS * PAGE), length=st.integers(0, 4 * PAGE))
    def commit(self, who: int, start: int, length: int) -> None:
        end = min(start + length, ROWS * PAGE)
        wanted = set(range(start // PAGE, -(-end // PAGE))) if end > start else set()
        missing = wanted - self.model[who]
        if sum(map(len, self.model)) + len(missing) > self.LIMIT:
            with pytest.raises(TierExhaustedError):
                self.bindings[who].commit(start, end)
            return
        assert self.bindings[who].commit(start, end) == len(missing) * PAGE
        self.model[who] |= missing

    @rule(who=st.integers(0, 1), start=st.integers(0, ROWS * PAGE), length=st.integers(0, 8 * PAGE))
    def decommit(self, who: int, start: int, length: int) -> None:
        end = min(start + length, ROWS * PAGE)
        gone = {item for item in self.model[who] if item * PAGE >= start and (item + 1) * PAGE <= end}
        assert self.bindings[who].decommit(start, end) == len(gone) * PAGE
        self.model[who] -= gone

    @invariant()
    def charges_agree(self) -> None:
        total = sum(map(len, self.model)) * PAGE
        assert self.governor.used(Tier.DEVICE) == self.base + total
        assert self.device.ledger.total.current_bytes == self.held_before + total
        for binding, granules in zip(self.bindings, self.model, strict=True):
            assert binding.committed_bytes == len(granules) * PAGE
            spans = [range(start // PAGE, end // PAGE) for start, end in binding.committed_ranges]
            assert {item for span in spans for item in span} == granules

    def teardown(self) -> None:
        for binding in self.bindings:
            binding.close()
        assert self.governor.used(Tier.DEVICE) == self.base


TestCommits = CommitMachine.TestCase
TestCommits.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)

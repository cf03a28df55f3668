"""Sessions under a governor: admitted whole or refused with what fits; every byte goes back exactly once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from foreign_governor import ForeignGovernor
from small_models import array_of, opened

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.governor import Governor
from vramscope.devices.governor_types import KvCache, Tier, Weights, Workspace
from vramscope.devices.host import HostDevice
from vramscope.errors import OutOfBudgetError, TierExhaustedError
from vramscope.plan.types import BucketPolicy, ComponentName, Scenario
from vramscope.run.admission import admit
from vramscope.run.session import ProgramSession
from vramscope.run.session_types import SessionOptions

if TYPE_CHECKING:
    from vramscope.devices.base import Buffer
    from vramscope.devices.ledger import Site
    from vramscope.graph.model import Model

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
DEVICE = Tier.DEVICE
PROMPT = [5, 9, 11, 200, 7]
FIXED = Scenario(prompt=8, context=64)
LONGER = replace(FIXED, prompt=60)
GROWING = Scenario(prompt=8, context=600, bucket=BucketPolicy(minimum=256, growing=True))
FOLDED = """g (float[N,8] x) => (float[N,4] y)
<float[8,2] a = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16},
 float[8,2] b = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}>
{ w = Concat<axis = 1>(a, b) h = MatMul(x, w) y = Relu(h) }"""


@pytest.fixture(scope="module")
def tiny() -> Model:
    return open_path(SAMPLES / "tiny-llama")


class BreakingDevice(HostDevice):
    """Fails at one allocation, as a device does whose memory somebody else took."""

    def __init__(self, breaks_at: int) -> None:
        super().__init__()
        self.left = breaks_at

    def allocate(self, site: Site, size: int) -> Buffer:
        self.left -= 1
        if self.left == 0:
            raise MemoryError(f"no room for {site}")
        return super().allocate(site, size)


def governed(limit: int | None) -> Governor:
    return Governor({DEVICE: limit})


def nothing_held(governor: Governor, device: HostDevice) -> bool:
    """No charge, no holder but the three of every governor, no byte and no buffer out."""
    total = device.ledger.total
    held = (governor.used(DEVICE), len(governor.charges()), total.current_bytes, total.current_count)
    return held == (0, 0, 0, 0) and len(governor._seats) == 3


# ------------------------------------------------------------------------------------ admission


def test_a_decoder_runs_in_exactly_its_plan_and_allocates_nothing_once_warm(tiny: Model) -> None:
    plan = make_plan(tiny, FIXED)
    governor, device = governed(plan.total.known), HostDevice()
    decoder = Decoder(tiny, plan, device=device, governor=governor)
    decoder.load()
    assert governor.available(DEVICE) == 0
    assert governor.used(DEVICE) == device.ledger.total.current_bytes == plan.total.known
    decoder.prefill([PROMPT])
    decoder.step()
    before = device.ledger.allocation_counts
    assert [decoder.advance().allocations for _ in range(8)] == [0] * 8
    assert decoder.snapshot().steps_replayed == 7
    assert device.ledger.allocation_counts == before
    decoder.close()
    assert nothing_held(governor, device)


def test_a_decoder_one_byte_over_is_refused_before_anything_is_allocated(tiny: Model) -> None:
    plan = make_plan(tiny, replace(FIXED, context=2048))
    need = plan.total.known
    governor, device = governed(need - 1), HostDevice()
    decoder = Decoder(tiny, plan, device=device, governor=governor)
    with pytest.raises(OutOfBudgetError) as refused:
        decoder.load()
    error = refused.value
    assert (error.requested, error.available) == (need, need - 1)
    assert error.site == "the KV cache"
    largest = make_plan(tiny, replace(FIXED, context=2048, budget=need - 1)).verdict.largest_context
    assert error.remedy.startswith(f"A context of {largest:,} ")
    assert error.remedy.endswith("would fit; or raise the budget by at least 1 B")
    assert device.ledger.total.total_count == 0
    assert nothing_held(governor, device)


def test_where_nothing_fits_the_remedy_is_as_many_bytes_as_are_missing(tiny: Model) -> None:
    plan = make_plan(tiny, FIXED)
    with pytest.raises(OutOfBudgetError) as refused:
        Decoder(tiny, plan, device=HostDevice(), governor=governed(1000)).load()
    missing = plan.total.known - 1000
    words = f"Raise the budget by at least {missing:,} B, or export the model smaller"
    assert refused.value.remedy == words
    decoder = Decoder(tiny, plan, device=HostDevice(), governor=governed(1000 + missing))
    decoder.load()
    with pytest.raises(OutOfBudgetError) as larger:
        admit(decoder._runner.memory.leases, decoder._runner.planner, make_plan(tiny, LONGER))
    need = make_plan(tiny, LONGER).total.known
    assert (larger.value.requested, larger.value.available) == (need, plan.total.known), "its cache is kept"
    decoder.close()


def test_the_device_s_budget_is_the_limit_where_no_governor_is_given(tiny: Model) -> None:
    need = make_plan(tiny, FIXED).total.known
    plan = make_plan(tiny, replace(FIXED, budget=need - 1))
    decoder = Decoder(tiny, plan)
    with pytest.raises(OutOfBudgetError, match="to blame"):
        decoder.load()
    assert decoder.device.ledger.total.total_count == 0
    Decoder(tiny, make_plan(tiny, replace(FIXED, budget=need))).load()


def test_a_program_session_is_admitted_whole_with_its_bindings_or_not_at_all() -> None:
    model = opened(FOLDED)
    plan = make_plan(model, Scenario(batch=3))
    bindings = 2 * 3 * 8 * 4
    governor, device = governed(plan.total.known + bindings), HostDevice()
    session = ProgramSession(model, plan, device, SessionOptions(governor=governor))
    session.prepare()
    x = session.allocate_binding((3, 8), input_name="x")
    y = session.allocate_binding((3, 4), output_name="y")
    with pytest.raises(TierExhaustedError, match="binding x"):
        session.allocate_binding((4, 8), input_name="x")
    x.write(np.ones((3, 8), np.float32))
    session.run_with_device_bindings({}, [x, y])
    assert y.read().tolist() == [[64, 72, 64, 72]] * 3
    session.close()
    assert governor.used(DEVICE) == device.ledger.total.current_bytes == 3 * 8 * 4 + 3 * 4 * 4
    for binding in (x, y, x):
        binding.close()
    assert nothing_held(governor, device)
    short = ProgramSession(model, plan, device, SessionOptions(governor=governed(plan.total.known - 1)))
    with pytest.raises(OutOfBudgetError):
        short.prepare()
    assert device.ledger.total.current_count == 0


def test_constants_are_folded_in_what_the_arena_does_not_use_yet() -> None:
    """The Concat's two operands and its result are alive together; the plan's total holds them."""
    model = opened(FOLDED)
    plan = make_plan(model, Scenario(batch=64))
    assert plan.weights.bytes == 128
    governor, device = governed(plan.total.known), HostDevice()
    session = ProgramSession(model, plan, device, SessionOptions(governor=governor))
    session.prepare()
    assert device.ledger.component(ComponentName.WEIGHTS.value).peak_bytes == 256
    found = session.run({"x": np.ones((64, 8), np.float32)})
    assert array_of(found, "y").shape == (64, 4)
    assert set(device.ledger.phase_peaks) == {"loading", "run"}
    session.close()
    assert nothing_held(governor, device)


# ------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize("scenario", [FIXED, GROWING])
def test_a_failure_at_any_allocation_gives_everything_back_and_loading_again_works(
    tiny: Model, scenario: Scenario
) -> None:
    plan, reached = make_plan(tiny, scenario), 0
    whole = Decoder(tiny, plan)
    whole.load()
    allocations = whole.device.ledger.total.total_count
    for breaks_at in range(1, allocations + 1):
        device, governor = BreakingDevice(breaks_at), governed(None)
        decoder = Decoder(tiny, plan, device=device, governor=governor)
        with pytest.raises(MemoryError):
            decoder.load()
        assert nothing_held(governor, device)
        decoder.load()
        assert governor.used(DEVICE) == device.ledger.total.current_bytes
        decoder.close()
        decoder.close()
        assert nothing_held(governor, device)
        reached += 1
    assert reached == allocations > 20


def test_a_failure_in_the_middle_of_a_growth_leaves_the_cache_and_its_lease(tiny: Model) -> None:
    device, governor = BreakingDevice(0), governed(None)
    decoder = Decoder(tiny, make_plan(tiny, GROWING), device=device, governor=governor)
    decoder.load()
    decoder.prefill([PROMPT])
    tokens = [decoder.advance().tokens for _ in range(256 - len(PROMPT))]
    held, charges = device.ledger.total.current_bytes, governor.charges()
    for breaks_at in (1, 2, 4):
        device.left = breaks_at
        with pytest.raises(MemoryError):
            decoder.advance()
        assert (device.ledger.total.current_bytes, governor.charges()) == (held, charges)
    tokens += [decoder.advance().tokens for _ in range(8)]
    plain = Decoder(tiny, make_plan(tiny, GROWING))
    plain.load()
    plain.prefill([PROMPT])
    assert [plain.advance().tokens for _ in tokens] == tokens


# ------------------------------------------------------------------------------------ growth


def grown(tiny: Model, limit: int) -> tuple[Decoder, Governor]:
    """A decoder whose cache is full at its first bucket."""
    governor = governed(limit)
    decoder = Decoder(tiny, make_plan(tiny, GROWING), governor=governor)
    decoder.load()
    decoder.prefill([PROMPT])
    for _ in range(256 - len(PROMPT)):
        decoder.advance()
    return decoder, governor


def test_growth_needs_old_and_new_together_and_ends_at_new(tiny: Model) -> None:
    per_token = make_plan(tiny, GROWING).kv.bytes_per_token
    decoder, governor = grown(tiny, 2**30)
    first = governor.used(DEVICE)
    decoder, governor = grown(tiny, first + 512 * per_token)
    decoder.advance()
    assert governor.used(DEVICE) == first + 256 * per_token
    assert decoder.device.ledger.total.current_bytes == governor.used(DEVICE)
    assert decoder.device.ledger.phase_peaks["growing"] == first + 512 * per_token


def test_a_growth_one_byte_over_is_refused_and_changes_nothing(tiny: Model) -> None:
    per_token = make_plan(tiny, GROWING).kv.bytes_per_token
    first = grown(tiny, 2**30)[1].used(DEVICE)
    decoder, governor = grown(tiny, first + 512 * per_token - 1)
    before = (governor.charges(), decoder.device.ledger.total)
    with pytest.raises(TierExhaustedError, match="KV cache of tiny-llama"):
        decoder.advance()
    assert (governor.charges(), decoder.device.ledger.total) == before
    governor.set_limit(DEVICE, 2**30)
    assert decoder.advance().position == 257


# ------------------------------------------------------------------------------------ sharing


def test_two_sessions_share_one_limit_and_the_second_is_told_what_is_left(tiny: Model) -> None:
    plan = make_plan(tiny, FIXED)
    need = plan.total.known
    governor, device = governed(2 * need - 1), HostDevice()
    first, second = (Decoder(tiny, plan, device=device, governor=governor) for _ in range(2))
    first.load()
    with pytest.raises(OutOfBudgetError) as refused:
        second.load()
    assert refused.value.available == need - 1
    assert governor.used(DEVICE) == need
    first.prefill([PROMPT])
    first.close()
    second.load()
    assert second.prefill([PROMPT]).position == len(PROMPT)
    second.close()
    assert nothing_held(governor, device)


def test_a_session_closes_the_device_that_it_made_and_no_other(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[HostDevice] = []
    monkeypatch.setattr(HostDevice, "close", lambda device: closed.append(device))
    plan, given = make_plan(tiny, FIXED), HostDevice()
    for device in (given, None):
        decoder = Decoder(tiny, plan, device=device)
        decoder.load()
        decoder.close()
    assert closed == [decoder.device]


def test_closing_a_session_leaves_another_one_on_the_same_device_alone(tiny: Model) -> None:
    device = HostDevice()
    plan = make_plan(tiny, FIXED)
    first, second = (Decoder(tiny, plan, device=device) for _ in range(2))
    first.load()
    second.load()
    first.close()
    assert device.ledger.total.current_bytes == plan.total.known
    assert second.prefill([PROMPT]).position == len(PROMPT)


def test_g03_a_session_runs_under_a_third_party_s_governor(tiny: Model) -> None:
    plan = make_plan(tiny, FIXED)
    governor = ForeignGovernor(limit=plan.total.known)
    decoder = Decoder(tiny, plan, governor=governor)
    decoder.load()
    assert governor.available(DEVICE) == 0
    decoder.prefill([PROMPT])
    decoder.close()
    assert (governor.available(DEVICE), governor.holders) == (plan.total.known, [])
    governor.limit = plan.total.known - 1
    with pytest.raises(OutOfBudgetError):
        Decoder(tiny, plan, governor=governor).load()


# ------------------------------------------------------------------------------------ what is shown


def test_every_purpose_has_one_lease_of_its_own_role(tiny: Model) -> None:
    governor = governed(None)
    plan = make_plan(tiny, FIXED)
    decoder = Decoder(tiny, plan, governor=governor)
    decoder.load()
    roles = {item.holder.name: (type(item.role), item.size) for item in governor.charges()}
    assert roles["weights of tiny-llama"] == (Weights, plan.weights.bytes)
    assert roles["KV cache of tiny-llama"] == (KvCache, plan.kv.bytes)
    scratch = [item for item in governor.charges() if isinstance(item.role, Workspace)]
    assert sorted(item.role.step_scoped for item in scratch if isinstance(item.role, Workspace)) == [
        False,
        True,
    ]
    assert sum(item.size for item in scratch) == plan.component(ComponentName.WORKSPACE).figure.known
    shown = decoder.snapshot().memory
    assert sum(shown.leases.values()) == plan.total.known
    assert shown.left is None


def test_the_ledger_knows_how_high_memory_stood_in_each_phase(tiny: Model) -> None:
    decoder = Decoder(tiny, make_plan(tiny, FIXED))
    decoder.load()
    decoder.prefill([PROMPT])
    for _ in range(3):
        decoder.advance()
    peaks = decoder.snapshot().memory.peaks
    assert set(peaks) == {"loading", "prefill", "decode", "capture", "replay"}
    assert set(peaks.values()) == {decoder.plan.total.known}
    assert set(decoder.device.ledger.phases) == {"loading"}

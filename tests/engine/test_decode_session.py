"""The life of a decode session.

Growth and what it invalidates, declines, sampling, cancel, budgets, isolation.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.decode.types import DecodeState
from vramscope.devices.host import HostDevice
from vramscope.devices.sampling import Sampling
from vramscope.errors import (
    CancelledError,
    InputError,
    NeverCapturedError,
    OutOfBudgetError,
    VramscopeError,
)
from vramscope.plan.types import BucketPolicy, ComponentName, Scenario
from vramscope.run.capture import SeamReason
from vramscope.run.events import Event, EventKind

if TYPE_CHECKING:
    from vramscope.graph.model import Model

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
PROMPT = [5, 9, 11, 200, 7]


@pytest.fixture(scope="module")
def tiny() -> Model:
    return open_path(SAMPLES / "tiny-llama")


def started(
    model: Model, scenario: Scenario, events: list[Event] | None = None, sampling: Sampling | None = None
) -> Decoder:
    sink = events.append if events is not None else (lambda _event: None)
    decoder = Decoder(model, make_plan(model, scenario), events=sink, sampling=sampling)
    decoder.load()
    return decoder


# ------------------------------------------------------------------------------------ growth (J5)


GROWING = Scenario(prompt=8, context=600, bucket=BucketPolicy(minimum=256, growing=True))


def test_growth_past_a_bucket_kills_the_graph_once_with_every_reason_and_the_tokens_stay(tiny: Model) -> None:
    events: list[Event] = []
    growing = started(tiny, GROWING, events)
    fixed = started(tiny, replace(GROWING, bucket=BucketPolicy(), context=600))
    ours = [growing.prefill([PROMPT]).tokens[0]]
    theirs = [fixed.prefill([PROMPT]).tokens[0]]
    for _ in range(300):
        ours.append(growing.advance().tokens[0])
        theirs.append(fixed.advance().tokens[0])
    assert ours == theirs
    snapshot = growing.snapshot()
    assert snapshot.capacity == 512
    assert snapshot.slots[0].invalidations == 1
    (died,) = [event for event in events if event.kind is EventKind.INVALIDATE]
    assert (died.step, died.subject) == (256, "Primary")
    (lost,) = growing.inspect().graphs[0].history
    assert died.text == lost.cause == snapshot.slots[0].last_cause
    first, *others = lost.changed
    assert (lost.binding, lost.field, lost.old, lost.new) == (
        *(first.binding, first.field),
        *(first.old, first.new),
    )
    assert f"{first.binding}: {first.field} was {first.old} and is {first.new}, " in died.text
    names = dict.fromkeys(item.field for item in others)
    assert f"and {len(others)} more changed: {', '.join(names)}. " in died.text
    assert names.keys() >= {"physical_shape", "device_pointer"}, "both reasons of case 23"
    assert growing.state is DecodeState.READY


def test_growth_peaks_at_old_plus_new_and_ends_at_new(tiny: Model) -> None:
    decoder = started(tiny, GROWING)
    per_token = decoder.plan.kv.bytes_per_token
    decoder.prefill([PROMPT])
    before = decoder.snapshot().components[ComponentName.KV_CACHE.value]
    assert before.current_bytes == 256 * per_token
    for _ in range(260):
        decoder.advance()
    after = decoder.snapshot().components[ComponentName.KV_CACHE.value]
    assert after.current_bytes == 512 * per_token
    assert (
        decoder.device.ledger.total.peak_bytes - decoder.device.ledger.total.current_bytes == 256 * per_token
    )


def test_a_growth_that_the_budget_refuses_changes_nothing(tiny: Model) -> None:
    plan = make_plan(tiny, GROWING)
    room = make_plan(tiny, replace(GROWING, context=256)).total.known + plan.kv.bytes_per_token
    decoder = Decoder(tiny, plan, device=HostDevice(room + 200_000))
    decoder.load()
    decoder.prefill([PROMPT])
    for _ in range(256 - len(PROMPT)):
        decoder.advance()
    held = decoder.device.ledger.total.current_bytes
    with pytest.raises(OutOfBudgetError):
        decoder.advance()
    assert decoder.device.ledger.total.current_bytes == held
    assert decoder.snapshot().capacity == 256


# ------------------------------------------------------------------------------------ capture and replay


def test_steps_before_a_prefill_and_replays_before_a_capture_are_refused_by_name(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=8, context=64))
    with pytest.raises(InputError, match="nothing was prefilled"):
        decoder.step()
    decoder.prefill([PROMPT])
    with pytest.raises(NeverCapturedError):
        decoder.replay()
    with pytest.raises(NeverCapturedError):
        decoder.verify(2)


def test_a_replay_uploads_nothing_and_downloads_one_token(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=8, context=64))
    decoder.prefill([PROMPT])
    decoder.capture()
    before = decoder.snapshot().transfers
    decoder.replay()
    after = decoder.snapshot().transfers
    assert (after.uploads, after.upload_bytes) == (before.uploads, before.upload_bytes)
    assert after.downloads - before.downloads == 1
    assert after.download_bytes - before.download_bytes == 8


def test_the_declining_sample_says_which_nodes_and_why_and_still_generates_the_same(tiny: Model) -> None:
    del tiny
    model = open_path(SAMPLES / "declines")
    eager = started(model, Scenario(prompt=8, context=64))
    tokens = [eager.prefill([PROMPT]).tokens[0]] + [eager.step().tokens[0] for _ in range(10)]
    decoder = started(model, Scenario(prompt=8, context=64))
    ours = [decoder.prefill([PROMPT]).tokens[0], decoder.step().tokens[0]]
    report, result = decoder.capture()
    ours.append(result.tokens[0])
    while len(ours) < len(tokens):
        ours.append(decoder.replay().tokens[0])
    assert ours == tokens
    assert report.captured
    assert not report.is_single_graph
    reasons = {decline.operator: decline.seam for decline in report.declines}
    assert reasons["If"] is SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE
    assert reasons["NonZero"] is SeamReason.UNRESOLVED_OUTPUT_SHAPE
    assert all(decline.node and decline.remedy for decline in report.declines)
    assert decoder.verify(3).equal


def test_the_context_ends_the_generation_with_its_reason(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=8, context=16))
    decoder.prefill([PROMPT])
    results = [decoder.advance() for _ in range(11)]
    assert results[-1].finished == "context full"
    with pytest.raises(InputError, match="context of 16 tokens is full"):
        decoder.advance()


def test_a_longer_prompt_than_planned_is_planned_anew(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=4, context=64))
    long = list(range(3, 40))
    token = decoder.prefill([long]).tokens
    assert decoder.plan.scenario.prompt == len(long)
    assert started(tiny, Scenario(prompt=37, context=64)).prefill([long]).tokens == token


# ------------------------------------------------------------------------------------ sampling


def test_sampling_is_the_same_under_one_seed_and_differs_under_another(tiny: Model) -> None:
    def tokens(seed: int) -> list[int]:
        sampling = Sampling(temperature=1.0, top_k=50, top_p=0.95, seed=seed)
        decoder = started(tiny, Scenario(prompt=8, context=64), sampling=sampling)
        return [decoder.prefill([PROMPT]).tokens[0]] + [decoder.advance().tokens[0] for _ in range(20)]

    assert tokens(1) == tokens(1)
    assert tokens(1) != tokens(2)


def test_verification_holds_under_sampling_too(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=8, context=64), sampling=Sampling(temperature=0.8, seed=4))
    decoder.prefill([PROMPT])
    decoder.capture()
    assert decoder.verify(6).equal


@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=-1.0), Sampling(top_p=0.0), Sampling(top_p=1.5), Sampling(top_k=-2)]
)
def test_impossible_sampling_settings_are_refused(tiny: Model, sampling: Sampling) -> None:
    with pytest.raises(InputError, match="sampling with"):
        started(tiny, Scenario(prompt=8, context=64), sampling=sampling)


# ------------------------------------------------------------------------------------ prompts, cancel,
# budgets


@pytest.mark.parametrize("prompt", [[], [512], [-1], list(range(80))])
def test_bad_prompts_are_refused_and_the_session_stays_usable(tiny: Model, prompt: list[int]) -> None:
    decoder = started(tiny, Scenario(prompt=8, context=64))
    with pytest.raises(InputError):
        decoder.prefill([prompt])
    assert decoder.prefill([PROMPT]).position == len(PROMPT)


def test_cancel_in_the_middle_of_a_step_leaves_the_tokens_as_they_would_be(tiny: Model) -> None:
    plain = started(tiny, Scenario(prompt=8, context=64))
    expected = [plain.prefill([PROMPT]).tokens[0]] + [plain.step().tokens[0] for _ in range(3)]
    decoder = started(tiny, Scenario(prompt=8, context=64))
    calls = 0

    def cancel_late() -> None:
        nonlocal calls
        calls += 1
        if calls == 9:
            raise CancelledError("the step", "the user asked to stop")

    tokens = [decoder.prefill([PROMPT]).tokens[0]]
    with pytest.raises(CancelledError):
        decoder.step(cancel_late)
    tokens += [decoder.step().tokens[0] for _ in range(3)]
    assert tokens == expected


def test_cancel_while_loading_gives_everything_back(tiny: Model) -> None:
    decoder = Decoder(tiny, make_plan(tiny, Scenario(prompt=8, context=64)))
    calls = 0

    def cancel_late() -> None:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise CancelledError("loading", "the user asked to stop")

    with pytest.raises(CancelledError):
        decoder.load(cancel=cancel_late)
    assert decoder.device.ledger.total.current_bytes == 0
    assert decoder.device.ledger.total.total_count > 0
    decoder.load()
    assert decoder.prefill([PROMPT]).position == len(PROMPT)


def test_the_planned_bytes_are_exactly_enough_and_one_less_is_refused(tiny: Model) -> None:
    plan = make_plan(tiny, Scenario(prompt=8, context=64))
    need = plan.total.known
    decoder = Decoder(tiny, plan, device=HostDevice(need))
    decoder.load()
    decoder.prefill([PROMPT])
    for _ in range(20):
        decoder.advance()
    assert decoder.device.ledger.total.peak_bytes == need
    short = Decoder(tiny, plan, device=HostDevice(need - 1))
    with pytest.raises(OutOfBudgetError) as refusal:
        short.load()
    assert refusal.value.available < refusal.value.requested
    assert short.device.ledger.total.current_bytes == 0


def test_two_sessions_in_one_process_do_not_see_each_other(tiny: Model) -> None:
    first = started(tiny, Scenario(prompt=8, context=64))
    second = started(tiny, Scenario(prompt=8, context=64))
    alone = started(tiny, Scenario(prompt=8, context=64))
    expected = [alone.prefill([PROMPT]).tokens[0]] + [alone.advance().tokens[0] for _ in range(6)]
    tokens = [first.prefill([PROMPT]).tokens[0]]
    second.prefill([[300, 301, 302]])
    for _ in range(6):
        tokens.append(first.advance().tokens[0])
        second.advance()
    assert tokens == expected
    second.close()
    assert first.advance().replayed
    assert second.device.ledger.total.current_bytes == 0
    assert first.device.ledger.total.current_bytes > 0


def test_closing_twice_and_using_a_closed_session(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=8, context=64))
    decoder.prefill([PROMPT])
    decoder.close()
    decoder.close()
    with pytest.raises(VramscopeError):
        decoder.step()


def test_the_measured_temporaries_are_marked_as_measured(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=8, context=64))
    assert decoder.snapshot().kernel_temporaries.bytes is None
    decoder.prefill([PROMPT])
    decoder.step()
    figure = decoder.snapshot().kernel_temporaries
    assert figure.certainty.value == "measured"
    assert figure.bytes is not None
    assert figure.bytes < 200_000


def test_logits_are_a_copy(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=8, context=64))
    decoder.prefill([PROMPT])
    kept = decoder.logits()
    copy = np.array(kept)
    decoder.advance()
    assert np.array_equal(kept, copy)


def test_a_session_without_memory_says_what_to_call_first(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    decoder = Decoder(model, make_plan(model, Scenario(prompt=4, context=64)))
    with pytest.raises(VramscopeError, match="Call load"):
        decoder.prefill([[1, 2, 3]])
    decoder.load()
    decoder.prefill([[1, 2, 3]])
    decoder.close()
    with pytest.raises(VramscopeError, match="Call load"):
        decoder.prefill([[1, 2, 3]])

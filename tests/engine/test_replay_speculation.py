"""Drafts by lookup, verified in one pass on the Verify slot: the tokens are those of plain greedy (C-30)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.decode.drafting import look_up
from vramscope.decode.speculative import generate_speculatively
from vramscope.devices.sampling import Sampling
from vramscope.errors import InputError
from vramscope.plan.types import BucketPolicy, Scenario
from vramscope.run.events import Event, EventKind

if TYPE_CHECKING:
    from vramscope.graph.model import Model

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
PROMPT = [5, 9, 11, 200, 7, 5, 9, 11]


@pytest.fixture(scope="module")
def tiny() -> Model:
    return open_path(SAMPLES / "tiny-llama")


def started(
    model: Model, scenario: Scenario, sampling: Sampling | None = None, events: list[Event] | None = None
) -> Decoder:
    sink = events.append if events is not None else (lambda _event: None)
    decoder = Decoder(model, make_plan(model, scenario), sampling=sampling, events=sink)
    decoder.load()
    return decoder


def plainly(model: Model, scenario: Scenario, prompt: list[int], count: int) -> list[int]:
    decoder = started(model, scenario)
    result = decoder.prefill([prompt])
    tokens = [result.tokens[0]]
    while len(tokens) < count and not result.finished:
        result = decoder.advance()
        tokens.append(result.tokens[0])
    decoder.close()
    return tokens


@pytest.mark.parametrize(
    ("history", "count", "draft"),
    [
        ([1, 2, 3, 1, 2], 3, (3, 1, 2)),
        ([1, 2, 3, 9, 2, 3, 4, 2, 3], 2, (4, 2)),
        ([7, 1, 2, 8, 1, 3, 7, 1], 1, (2,)),
        ([4, 4], 4, (4,)),
        ([1, 2, 3], 4, ()),
        ([1], 4, ()),
        ([], 4, ()),
    ],
)
def test_a_draft_is_what_followed_the_latest_longest_match(
    history: list[int], count: int, draft: tuple[int, ...]
) -> None:
    assert look_up(history, count) == draft


@pytest.mark.parametrize("drafted", [1, 3, 4])
def test_speculated_tokens_are_the_plain_ones_and_passes_are_captured_beside_the_one_token_graph(
    tiny: Model, drafted: int
) -> None:
    scenario = Scenario(prompt=16, context=128)
    expected = plainly(tiny, scenario, PROMPT, 100)
    decoder = started(tiny, scenario)
    speculator = decoder.speculator(drafted)
    tokens = list(generate_speculatively(decoder, speculator, PROMPT, 100))
    assert tokens == expected
    counts = speculator.counts
    assert counts.drafted == drafted * (counts.eager + counts.captured + counts.replayed)
    assert 0 < counts.accepted <= counts.drafted
    assert (counts.eager, counts.captured) == (1, 1)
    assert counts.replayed > 5
    assert speculator.slot.report is not None
    assert speculator.slot.report.captured
    slots = {slot.name: slot for slot in decoder.snapshot().slots}
    assert slots["Verify"].state == "captured"
    assert slots["Verify"].replays == counts.replayed
    decoder.close()
    assert decoder.device.ledger.total.current_bytes == 0


def test_both_graphs_live_side_by_side_and_a_replayed_pass_allocates_nothing(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=16, context=128))
    speculator = decoder.speculator(3)
    history = [*PROMPT, decoder.prefill([PROMPT]).tokens[0]]
    decoder.step()
    decoder.capture()
    decoder.prefill([PROMPT])
    history += [decoder.advance().tokens[0] for _ in range(3)]
    for _ in range(2):
        history += speculator.verify(history[-1], (0, 0, 0))
    before = decoder.device.ledger.total.total_count
    primary = decoder.snapshot().slots[0].replays
    for _ in range(4):
        history += speculator.verify(history[-1], (0, 0, 0))
        history.append(decoder.advance().tokens[0])
    assert decoder.device.ledger.total.total_count == before
    assert decoder.snapshot().slots[0].replays - primary == 4
    assert speculator.slot.replays == 4
    assert decoder.snapshot().slots[0].invalidations == 1
    expected = plainly(tiny, Scenario(prompt=16, context=128), PROMPT, len(history) - len(PROMPT))
    assert history[len(PROMPT) :] == expected


MODELS = [
    "mobius-tiny-llama-fp32-default",
    "mobius-tiny-llama-fp32-static",
    "tiny-llama-fp32-cpu",
    "tiny-llama-int4-cpu",
    "tiny-qwen3-fp32-cpu",
    "torchexp-tiny-llama",
    "optimum-tiny-gpt2",
]


@pytest.mark.parametrize("name", MODELS)
def test_every_dialect_speculates_to_the_same_tokens(shared_models: Path, name: str) -> None:
    model = open_path(shared_models / "tiny" / name)
    scenario = Scenario(prompt=16, context=64)
    expected = plainly(model, scenario, PROMPT, 48)
    decoder = started(model, scenario)
    speculator = decoder.speculator(3)
    assert list(generate_speculatively(decoder, speculator, PROMPT, 48)) == expected
    assert speculator.counts.drafted > 0
    decoder.close()


def test_c30_growth_past_a_bucket_invalidates_the_pass_and_keeps_the_tokens(
    tiny: Model,
) -> None:
    scenario = Scenario(prompt=16, context=600, bucket=BucketPolicy(minimum=256, growing=True))
    expected = plainly(tiny, scenario, PROMPT, 320)
    events: list[Event] = []
    decoder = started(tiny, scenario, events=events)
    speculator = decoder.speculator(3)
    assert list(generate_speculatively(decoder, speculator, PROMPT, 320)) == expected
    assert decoder.snapshot().capacity == 512
    (died,) = [item for item in events if item.kind is EventKind.INVALIDATE and item.subject == "Verify"]
    assert "physical_shape" in died.text
    assert "device_pointer" in died.text
    record = speculator.slot.history[0]
    assert (record.field, record.old, record.new) == ("kernel_input_shape", "(1, 256)", "(1, 512)")
    assert (speculator.counts.eager, speculator.counts.captured) == (2, 2)


def test_a_verify_graph_that_keeps_dying_is_given_up(tiny: Model) -> None:
    decoder = started(tiny, Scenario(prompt=16, context=128))
    speculator = decoder.speculator(2)
    history = list(PROMPT)
    for _ in range(5):
        decoder.prefill([PROMPT])
        history = [*PROMPT, 1]
        for _ in range(3):
            history += speculator.verify(history[-1], (0, 0))
    assert speculator.slot.invalidations == 3
    assert speculator.counts.captured == 3


def test_what_cannot_be_speculated_with_is_refused_by_its_reason(tiny: Model) -> None:
    with pytest.raises(InputError, match="batch is 2"):
        started(tiny, Scenario(batch=2, prompt=8, context=64)).speculator(3)
    with pytest.raises(InputError, match="at random"):
        started(tiny, Scenario(prompt=8, context=64), Sampling(temperature=1.0)).speculator(3)
    decoder = started(tiny, Scenario(prompt=2, context=64))
    with pytest.raises(InputError, match="0 drafted tokens"):
        decoder.speculator(0)
    speculator = decoder.speculator(5)
    assert decoder.plan.scenario.prompt == 6, "a pass is planned like a prompt of its length"
    again = decoder.speculator(2)
    assert again is not speculator
    expected = plainly(tiny, Scenario(prompt=8, context=64), PROMPT, 20)
    assert list(generate_speculatively(decoder, again, PROMPT, 20)) == expected

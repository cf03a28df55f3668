"""Prompts taken in passes of few widths: the ladder, what is fed, equal tokens, the plan's arena (C-30)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from decoders import CPU_MODELS
from hypothesis import given
from hypothesis import strategies as st

from vramscope.api import make_plan, open_path
from vramscope.cli.main import main
from vramscope.decode.decoder import Decoder
from vramscope.decode.feeds import feed_values
from vramscope.errors import InputError, ScenarioError
from vramscope.graph.model import Feed
from vramscope.plan.planner import Planner
from vramscope.plan.prefill import STEPS, Pass, ladder, passes, room_for, widest_pass
from vramscope.plan.suggest import suggestions
from vramscope.plan.types import BucketPolicy, ComponentName, Phase, Scenario
from vramscope.run.events import ignore_progress, never_cancelled
from vramscope.server.samples import find_sample

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model

LENGTHS = (1, 3, 9, 17, 26, 41)
PROMPTS = tuple([token % 250 + 1 for token in range(7, 7 + 3 * length, 3)] for length in LENGTHS)

REFUSED = {
    "optimum-tiny-gpt2": "cache is a shape",
    "torchexp-tiny-llama": "cache is a shape",
    "tiny-gemma3-fp32-cpu": "sliding cache",
}
"""Decoders whose prompts go in one pass alone, and why."""


@pytest.fixture
def tiny(shared_models: Path) -> Model:
    return open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")


def started(model: Model, scenario: Scenario) -> Decoder:
    decoder = Decoder(model, make_plan(model, scenario))
    decoder.load()
    return decoder


# ------------------------------------------------------------------------------------ the ladder


@given(st.integers(1, 600), st.integers(1, 300), st.integers(0, 100), st.booleans(), st.integers(0, 40))
def test_c30_passes_cover_the_prompt_once_and_never_reach_beyond_the_cache(
    length: int, chunk: int, room: int, padded: bool, more: int
) -> None:
    capacity = length + min(room, more)
    steps = passes(length, chunk, capacity, padded=padded)
    assert [item.start for item in steps] == list(np.cumsum([0, *(item.tokens for item in steps[:-1])]))
    assert sum(item.tokens for item in steps) == length
    assert all(item.start + item.width <= capacity for item in steps)
    assert all(item.tokens == item.width for item in steps[: None if not padded else -1])
    assert {item.width for item in steps} <= {*ladder(chunk), 1}
    assert max(item.width for item in steps) <= widest_pass(length, chunk)


def test_a_ladder_has_three_widths_and_the_last_pass_takes_the_narrowest_that_holds_the_rest() -> None:
    assert (ladder(512), ladder(100), ladder(3), ladder(1)) == ((512, 128, 32), (100, 25, 7), (3, 1), (1,))
    assert passes(1000, 512, 2048, padded=True) == (Pass(0, 512, 512), Pass(512, 488, 512))
    assert passes(520, 512, 2048, padded=True) == (Pass(0, 512, 512), Pass(512, 8, 32))
    assert passes(34, 512, 40, padded=True) == (Pass(0, 32, 32), Pass(32, 1, 1), Pass(33, 1, 1))
    assert passes(34, 512, 2048, padded=False) == (Pass(0, 32, 32), Pass(32, 1, 1), Pass(33, 1, 1))
    assert passes(34, 0, 34, padded=True) == (Pass(0, 34, 34),)
    assert [widest_pass(prompt, 512) for prompt in (1, 32, 33, 128, 129, 600)] == [32, 32, 128, 128, 512, 512]
    assert widest_pass(600, 0) == 600


def test_a_longer_prompt_needs_another_plan_only_for_a_wider_pass() -> None:
    scenario = Scenario(prompt=30, prefill_chunk=128)
    assert room_for(scenario, 4000).prompt == 4000
    assert room_for(scenario, 32) is scenario
    wide = Scenario(prompt=200, prefill_chunk=128)
    assert room_for(wide, 4000) is wide
    whole = Scenario(prompt=40)
    assert (room_for(whole, 40) is whole, room_for(whole, 41).prompt) == (True, 41)


def test_what_a_pass_feeds() -> None:
    tokens = np.array([[4, 5, 6]], np.int64)
    assert feed_values(Feed.TOKENS, (1, 3), tokens, 7, 1).tolist() == [[4, 5, 6]]
    assert feed_values(Feed.POSITIONS, (1, 3), tokens, 7, 1).tolist() == [[7, 8, 9]]
    assert feed_values(Feed.MASK, (1, 12), tokens, 7, 1).tolist() == [[1] * 10 + [0] * 2]
    assert feed_values(Feed.WRITE_INDICES, (1,), tokens, 7, 1).tolist() == [7]
    assert feed_values(Feed.VALID_LENGTH, (1,), tokens, 7, 1).tolist() == [10]
    assert [feed_values(Feed.PAST_FLAG, (1,), tokens, past, 1).tolist() for past in (0, 7)] == [[0], [1]]
    assert feed_values(Feed.LOGITS_TO_KEEP, (), tokens, 7, 3) == np.int64(3)


# ------------------------------------------------------------------------------------ equal to one pass


@pytest.mark.parametrize("name", [name for name in CPU_MODELS if name not in REFUSED])
def test_c30_prefill_widths_round_to_a_ladder_of_three_and_tokens_stay(
    shared_models: Path, name: str
) -> None:
    model = open_path(shared_models / "tiny" / name)
    whole = started(model, Scenario(prompt=41, context=64))
    scenario = Scenario(prompt=41, context=64, prefill_chunk=16)
    parts = started(model, scenario)
    before = parts.device.ledger.total.total_count
    for prompt in PROMPTS:
        ours, theirs = [parts.prefill([prompt])], [whole.prefill([prompt])]
        np.testing.assert_allclose(
            np.float32(parts.logits()), np.float32(whole.logits()), rtol=0.02, atol=0.02
        )
        for _ in range(6):
            ours.append(parts.advance())
            theirs.append(whole.advance())
        assert [item.tokens for item in ours] == [item.tokens for item in theirs], len(prompt)
        assert ours[-1].replayed
        assert ours[0].position == len(prompt)
    assert parts.device.ledger.total.total_count == before, "nothing is allocated for a prompt"
    widths = {width for width, _ in parts._stepper._prefills}
    assert widths <= {16, 4, 1}
    assert len(widths) == STEPS
    for decoder in (whole, parts):
        decoder.close()


def test_a_batch_is_taken_in_passes_and_holds_what_was_planned(tiny: Model) -> None:
    scenario = Scenario(batch=2, prompt=40, context=64)
    prompts = [PROMPTS[-1][:40], PROMPTS[-1][1:]]
    whole, parts = started(tiny, scenario), started(tiny, Scenario(2, 40, 64, prefill_chunk=8))
    ours: list[tuple[int, ...]] = []
    theirs: list[tuple[int, ...]] = []
    for decoder, said in ((whole, theirs), (parts, ours)):
        said.append(decoder.prefill(prompts).tokens)
        said += [decoder.advance().tokens for _ in range(8)]
    assert ours == theirs
    assert parts.device.ledger.total.peak_bytes == parts.plan.total.bytes
    arenas = [item.plan.phase(Phase.PREFILL).arena.bytes for item in (parts, whole)]
    assert arenas[0] * 4 < arenas[1]
    assert parts.plan.total.known < whole.plan.total.known


def test_a_cache_that_is_almost_full_is_not_written_behind_its_end(tiny: Model) -> None:
    prompt = (PROMPTS[-1] * 2)[:62]
    whole, parts = started(tiny, Scenario(1, 62, 64)), started(tiny, Scenario(1, 62, 64, prefill_chunk=32))
    ours: list[tuple[int, ...]] = []
    theirs: list[tuple[int, ...]] = []
    for decoder, said in ((whole, theirs), (parts, ours)):
        said.append(decoder.prefill([prompt]).tokens)
        said += [decoder.advance().tokens for _ in range(2)]
    assert ours == theirs


def test_a_growing_cache_and_longer_prompts_than_planned_keep_their_tokens(tiny: Model) -> None:
    bucket = BucketPolicy(minimum=16, growing=True)
    whole = started(tiny, Scenario(prompt=41, context=64))
    parts = started(tiny, Scenario(prompt=3, context=64, bucket=bucket, prefill_chunk=16))
    for prompt in PROMPTS:
        ours, theirs = [parts.prefill([prompt]).tokens], [whole.prefill([prompt]).tokens]
        ours += [parts.advance().tokens for _ in range(20)]
        theirs += [whole.advance().tokens for _ in range(20)]
        assert ours == theirs
    assert parts.plan.phase(Phase.PREFILL).symbols["sequence_length"] == 16, "no wider than a pass"


# ------------------------------------------------------------------------------------ what cannot be


@pytest.mark.parametrize(("name", "why"), REFUSED.items())
def test_a_graph_that_takes_no_passes_is_refused_by_its_reason(
    shared_models: Path, name: str, why: str
) -> None:
    model = open_path(shared_models / "tiny" / name)
    with pytest.raises(ScenarioError, match=why):
        make_plan(model, Scenario(prompt=8, context=32, prefill_chunk=4))


def test_ragged_prompts_and_negative_chunks_are_refused(tiny: Model) -> None:
    decoder = started(tiny, Scenario(batch=2, prompt=8, context=32, prefill_chunk=4))
    with pytest.raises(InputError, match="one length for the whole batch"):
        decoder.prefill([[1, 2, 3], [1, 2]])
    with pytest.raises(ScenarioError, match="Give 0 for the whole prompt in one pass"):
        make_plan(tiny, Scenario(prompt=8, context=32, prefill_chunk=-1))


def test_passes_are_suggested_with_what_planning_them_saves() -> None:
    planner = Planner(open_path(find_sample("tiny-llama", ignore_progress, never_cancelled)))
    scenario = Scenario(prompt=1000, context=1024, budget=2**20)
    plan, other = planner.plan(scenario), planner.plan(replace(scenario, prefill_chunk=256))
    (found,) = [item for item in suggestions(planner, plan) if "passes" in item.title]
    assert found.change == {"prefill_chunk": 256}
    assert plan.total.known - other.total.known == found.saves > 0
    assert other.component(ComponentName.KV_CACHE).figure == plan.component(ComponentName.KV_CACHE).figure
    assert not [item for item in suggestions(planner, other) if "passes" in item.title]


def test_the_command_line_plans_and_runs_in_passes(
    capsys: pytest.CaptureFixture[str], shared_models: Path
) -> None:
    model = str(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    tokens = ",".join(map(str, PROMPTS[-1]))
    said = []
    for words in ([], ["--prefill-chunk", "16"]):
        options = ["--context", "64", "--tokens", tokens, "--steps", "6", "--json"]
        assert main(["run", model, *options, *words]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0]["tokens"] == said[1]["tokens"]
    assert [item["scenario"]["prefill_chunk"] for item in said] == [0, 16]
    off = [item["difference"] for item in said[1]["prediction"] if item["difference"] is not None]
    assert off == [0] * 5
    assert said[1]["snapshot"]["peak_bytes"] < said[0]["snapshot"]["peak_bytes"]
    main(["plan", model, "--prompt-tokens", "40", "--context", "64", "--prefill-chunk", "16"])
    assert "prefill in passes of 16" in capsys.readouterr().out

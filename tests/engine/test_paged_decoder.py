"""A paged decoder on the host: the same tokens as the same weights unpaged, through blocks of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from vramscope.api import make_plan, open_path
from vramscope.cli.main import main
from vramscope.decode.decoder import Decoder
from vramscope.decode.types import DecodeState
from vramscope.errors import InputError
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import PlanParams, ScenarioInfo
from vramscope.plan.types import Scenario
from vramscope.run.events import Event, EventKind
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener
from vramscope.server.reporting import carried

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PROMPT = [54, 74, 71, 223, 69, 67, 82, 75]
RAGGED = ([*PROMPT], [*PROMPT[:3]], [*PROMPT[2:], *PROMPT, *PROMPT])
STEPS = 90
NAME, PLAIN = "tiny-llama-fp16-cuda-paged", "tiny-llama-fp16-cuda"


@pytest.fixture
def decoder(shared_models: Path) -> Callable[..., Decoder]:
    def make(name: str, prompts: Sequence[Sequence[int]], **asked: Any) -> Decoder:  # noqa: ANN401 - of a scenario
        model = open_path(shared_models / "tiny" / name)
        longest = max(map(len, prompts))
        events = asked.pop("events", lambda _: None)
        scenario = Scenario(len(prompts), longest, asked.pop("context", 200), **asked)
        made = Decoder(model, make_plan(model, scenario), events=events)
        made.load()
        return made

    return make


def tokens(decoder: Decoder, prompts: Sequence[Sequence[int]], steps: int = STEPS) -> list[tuple[int, ...]]:
    return [decoder.prefill(prompts).tokens, *(decoder.advance().tokens for _ in range(steps))]


def test_both_exports_have_the_same_weights(shared_models: Path) -> None:
    first, second = (
        {
            item.name: numpy_helper.to_array(item, str(shared_models / "tiny" / name))
            for item in onnx.load(shared_models / "tiny" / name / "model.onnx").graph.initializer
        }
        for name in (NAME, PLAIN)
    )
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("size", [0, 1, 16, 24])
@pytest.mark.parametrize("prompts", [[PROMPT], RAGGED], ids=["one", "ragged"])
def test_the_tokens_are_those_of_the_unpaged_model(
    decoder: Callable[..., Decoder], prompts: Sequence[Sequence[int]], size: int
) -> None:
    plain, paged = decoder(PLAIN, prompts), decoder(NAME, prompts, block_size=size)
    expected, found = tokens(plain, prompts), tokens(paged, prompts)
    assert found == expected
    assert paged.state is DecodeState.READY  # replayed across the edges of blocks
    assert paged.snapshot().slots[0].invalidations == 0
    assert np.abs(np.subtract(paged.logits(), plain.logits())).max() < 0.02
    use = paged.snapshot().blocks
    assert use is not None
    assert use.taken * use.block_size == use.held
    lengths = [STEPS + len(prompt) for prompt in prompts]
    assert use.used == sum(lengths)
    assert use.taken == sum(-(-length // use.block_size) for length in lengths)
    assert plain.snapshot().blocks is None


def test_a_replay_uploads_nothing_but_the_table_at_the_edge_of_a_block(
    decoder: Callable[..., Decoder],
) -> None:
    told: list[Event] = []
    paged = decoder(NAME, [PROMPT], block_size=16, events=told.append)
    tokens(paged, [PROMPT], 3)  # 8 + 3 tokens
    assert paged.state is DecodeState.READY
    uploads = []
    for _ in range(8):
        before = paged.snapshot().transfers
        assert paged.replay().allocations == 0
        after = paged.snapshot().transfers
        uploads.append(after.upload_bytes - before.upload_bytes)
    assert uploads == [0, 0, 0, 0, 0, 13 * 4, 0, 0]  # 13 blocks hold 200 tokens; the 17th token takes the 2nd
    grown = [event for event in told if event.kind is EventKind.GROW]
    assert [event.text for event in grown] == ["1 of 13 are taken", "2 of 13 are taken"]
    assert grown[1].step == 16


def test_replay_equals_eager_over_the_edges_of_blocks(decoder: Callable[..., Decoder]) -> None:
    paged = decoder(NAME, RAGGED, block_size=8)
    tokens(paged, RAGGED, 3)
    report = paged.verify(40)
    assert report.equal, report
    assert report.largest_logit_difference == 0


def test_a_pool_that_ends_ends_the_run_and_names_it(decoder: Callable[..., Decoder]) -> None:
    paged = decoder(NAME, [PROMPT] * 3, block_size=16, kv_blocks=13)
    result = paged.prefill([PROMPT] * 3)
    while not result.finished:
        result = paged.advance()
    assert result.finished == "no free KV block"
    assert paged.snapshot().position == 64  # four blocks each, and one is left over
    with pytest.raises(InputError, match="of the KV pool's 13 blocks 1 are free"):
        paged.advance()
    assert paged.prefill([PROMPT] * 3).finished == ""  # all are free again


def test_verification_goes_no_further_than_the_pool(decoder: Callable[..., Decoder]) -> None:
    paged = decoder(NAME, [PROMPT], block_size=16, kv_blocks=13, context=200)
    tokens(paged, [PROMPT], 3)
    assert paged.verify(1000).steps == 200 - 11
    short = decoder(NAME, [PROMPT] * 2, block_size=16, kv_blocks=13, context=200)
    tokens(short, [PROMPT] * 2, 3)
    assert short.verify(1000).steps == 6 * 16 - 11


def test_a_second_prompt_takes_blocks_anew(decoder: Callable[..., Decoder]) -> None:
    paged, fresh = decoder(NAME, [PROMPT], block_size=8), decoder(NAME, [PROMPT], block_size=8)
    tokens(paged, [PROMPT[::-1]], 60)
    assert tokens(paged, [PROMPT], 20) == tokens(fresh, [PROMPT], 20)
    use = paged.snapshot().blocks
    assert use is not None
    assert use.taken == -(-28 // 8)


@pytest.mark.parametrize("chunk", [16, 24])
def test_a_prompt_in_passes_gives_the_same_tokens(decoder: Callable[..., Decoder], chunk: int) -> None:
    long = [PROMPT * 5, (PROMPT * 5)[::-1]]
    whole, parts = (decoder(NAME, long, block_size=16, prefill_chunk=size) for size in (0, chunk))
    assert tokens(parts, long, 20) == tokens(whole, long, 20)


def test_drafted_tokens_are_verified_in_blocks_too(decoder: Callable[..., Decoder]) -> None:
    plain = decoder(NAME, [PROMPT], block_size=8)
    expected = [item[0] for item in tokens(plain, [PROMPT], 60)]
    paged = decoder(NAME, [PROMPT], block_size=8)
    speculator = paged.speculator(4)
    found = [paged.prefill([PROMPT]).tokens[0]]
    while len(found) < 50:
        draft = speculator.draft([*PROMPT, *found])
        if draft and speculator.fits():
            found += speculator.verify(found[-1], draft)
        else:
            found.append(paged.advance().tokens[0])
    assert found[:50] == expected[:50]
    assert speculator.counts.drafted > 0


def test_the_command_line_plans_and_runs_blocks(
    shared_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(shared_models / "tiny" / NAME)
    options = ["--context", "64", "--block-size", "16", "--kv-blocks", "9"]
    assert main(["plan", model, *options, "--batch", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "blocks of 16 tokens" in said
    assert "9 KV blocks" in said
    assert main(["run", model, *options, "--tokens", "54,74,71", "--steps", "24"]) == 0
    assert "2 of 9 blocks of 16 tokens; " in capsys.readouterr().out


def test_inspection_tells_the_block_size_and_where_it_is_from(
    shared_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(shared_models / "tiny" / NAME)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "4 buffers, paged, blocks of 256 tokens (genai_config.json, engine.dynamic_batching" in said
    assert main(["inspect", str(shared_models / "tiny" / PLAIN)]) == 0
    assert "blocks of" not in capsys.readouterr().out


def test_a_growing_scenario_is_carried_to_a_paged_model_as_a_pool(shared_models: Path) -> None:
    engine = Engine()
    asked = msgspec.structs.replace(ScenarioInfo(context=64), bucket_growing=True, block_size=16)
    for name, growing in ((NAME, False), (PLAIN, True)):
        info = engine.open(OpenParams(path=str(shared_models / "tiny" / name)), Listener())
        wanted = carried(asked)(info)
        assert (wanted.bucket_growing, wanted.block_size) == (growing, 16)
        assert engine.plan(PlanParams(scenario=wanted), Listener()).verdict.needed.bytes


def test_the_head_of_a_prompt_is_computed_for_the_last_row_of_each_sequence(
    decoder: Callable[..., Decoder],
) -> None:
    paged = decoder(NAME, RAGGED, block_size=16)
    paged.prefill(RAGGED)
    lengths = [len(prompt) for prompt in RAGGED]
    _, program = paged._stepper.whole_prompts(lengths, 200)
    heads = [launch.call for launch in program.launches if "lm_head" in launch.step.node.name]
    assert [call.inputs[0].shape for call in heads] == [(1, 64)] * 3  # type: ignore[union-attr] # arrays
    parts = decoder(NAME, [PROMPT * 4] * 2, block_size=16, prefill_chunk=16)
    parts.prefill([PROMPT * 4] * 2)
    _, part = parts._stepper.prefill(16, 200)
    assert not any("lm_head" in launch.step.node.name for launch in part.launches)
    head = parts._stepper.head(part, (15, 31))
    assert head is not None
    assert len(head.launches) == 2

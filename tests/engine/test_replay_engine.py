"""Whole decoders over many steps: growing shapes, buckets, experts, streamed weights (C-29, C-30)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from mixture_decoder import mixture_decoder

from vramscope.api import Planner, make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.host import HostDevice
from vramscope.plan.types import BucketPolicy, Scenario

if TYPE_CHECKING:
    from vramscope.graph.model import Model
    from vramscope.run.memory import SessionMemory

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
PROMPT = [5, 9, 11, 200, 7]
GROWING = Scenario(prompt=8, context=600, bucket=BucketPolicy(minimum=256, growing=True))


@pytest.fixture(scope="module")
def tiny() -> Model:
    return open_path(SAMPLES / "tiny-llama")


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_path(mixture_decoder(tmp_path_factory.mktemp("mixture")))


def started(model: Model, scenario: Scenario) -> Decoder:
    decoder = Decoder(model, make_plan(model, scenario))
    decoder.load()
    decoder.prefill([PROMPT])
    return decoder


def eager_tokens(model: Model, scenario: Scenario, count: int) -> list[tuple[int, ...]]:
    decoder = started(model, scenario)
    return [decoder.step().tokens for _ in range(count)]


# ------------------------------------------------------------------------------------ 130 growing steps


@pytest.mark.parametrize("name", ["tiny-llama-fp32-cpu", "mobius-tiny-llama-std", "torchexp-tiny-llama"])
def test_c29_130_growing_steps_are_token_exact_and_replayed(shared_models: Path, name: str) -> None:
    model = open_path(shared_models / "tiny" / name)
    scenario = Scenario(prompt=8, context=192)
    wanted = eager_tokens(model, scenario, 132)
    decoder = started(model, scenario)
    assert [decoder.advance().tokens for _ in range(132)] == wanted
    snapshot = decoder.snapshot()
    assert snapshot.steps_replayed >= 128
    assert snapshot.slots[0].invalidations == 0
    assert snapshot.slots[0].segments >= 1


# ------------------------------------------------------------------------------------ past a bucket


@pytest.mark.parametrize("kind", ["dense", "experts"])
def test_c30_320_tokens_past_a_bucket_need_no_more_workspace(tiny: Model, mixture: Model, kind: str) -> None:
    model = tiny if kind == "dense" else mixture
    fixed = started(model, replace(GROWING, bucket=BucketPolicy()))
    decoder = started(model, GROWING)
    slots = {lifetime: buffer.address for lifetime, buffer in decoder._runner.memory.workspace.items()}
    assert slots
    assert [decoder.advance().tokens for _ in range(320)] == [fixed.advance().tokens for _ in range(320)]
    snapshot = decoder.snapshot()
    assert (snapshot.capacity, snapshot.slots[0].invalidations) == (512, 1)
    assert snapshot.steps_replayed > 300
    assert {item: buffer.address for item, buffer in decoder._runner.memory.workspace.items()} == slots
    decoder.close()
    assert decoder.device.ledger.total.current_bytes == 0


def test_c30_experts_take_part_in_the_captured_step(mixture: Model) -> None:
    decoder = started(mixture, GROWING)
    report, _ = decoder.capture()
    assert report.is_single_graph
    verified = decoder.verify(8)
    assert verified.equal
    assert verified.largest_logit_difference == 0.0


def test_c30_a_multi_head_model_decodes_as_eagerly_as_captured(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "optimum-tiny-gpt2")
    scenario = Scenario(prompt=8, context=64)
    wanted = eager_tokens(model, scenario, 24)
    decoder = started(model, scenario)
    assert [decoder.advance().tokens for _ in range(24)] == wanted


# ------------------------------------------------------------------------------------ options


def test_c30_steps_are_captured_by_default_and_never_when_only_eager_ones_are_asked_for(tiny: Model) -> None:
    scenario = Scenario(prompt=8, context=64)
    by_default, opted_out = started(tiny, scenario), started(tiny, scenario)
    for _ in range(12):
        assert by_default.advance().tokens == opted_out.step().tokens
        assert np.array_equal(by_default.logits(), opted_out.logits())
    assert by_default.snapshot().steps_replayed == 10
    assert (opted_out.snapshot().steps_replayed, opted_out.snapshot().slots[0].segments) == (0, 0)


def addresses(memory: SessionMemory) -> dict[int, int]:
    held = memory.weights.items()
    return {value: tensor.ctypes.data for value, tensor in held if isinstance(tensor, np.ndarray)}


def test_c30_streamed_weights_at_stable_addresses_give_equal_tokens_with_and_without_capture(
    tiny: Model,
) -> None:
    whole = Planner(tiny).plan(Scenario(prompt=8, context=64))
    scenario = replace(whole.scenario, weight_budget=whole.weights.bytes * 3 // 4)
    wanted = eager_tokens(tiny, whole.scenario, 16)
    assert eager_tokens(tiny, scenario, 16) == wanted
    decoder = started(tiny, scenario)
    memory = decoder._runner.memory
    decoder.advance()
    before = addresses(memory)
    assert [decoder.advance().tokens for _ in range(15)] == wanted[1:]
    assert decoder.snapshot().steps_replayed > 10
    streaming = decoder.snapshot().memory.streaming
    assert streaming is not None
    assert streaming.counts.page_ins > 0
    assert addresses(memory) == before


SHAPES = {
    "three sequences": (Scenario(prompt=8, context=64, batch=3), 40),
    "growing": (Scenario(prompt=8, context=300, bucket=BucketPolicy(minimum=64, growing=True)), 200),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sample", ["tiny-llama", "declines"])
def test_c30_streamed_weights_keep_the_tokens_in_batches_and_through_growth_within_the_plan(
    sample: str, shape: str
) -> None:
    scenario, steps = SHAPES[shape]
    model = open_path(SAMPLES / sample)
    planner = Planner(model)
    whole = planner.plan(scenario)
    found = []
    for budget in (None, whole.weights.bytes * 2 // 3):
        plan = planner.plan(replace(scenario, weight_budget=budget))
        decoder = Decoder(model, plan, device=HostDevice(plan.total.known))
        decoder.load()
        tokens = [decoder.prefill([PROMPT] * scenario.batch).tokens]
        found.append(tokens + [decoder.advance().tokens for _ in range(steps)])
        decoder.close()
        assert decoder.device.ledger.total.current_bytes == 0
    assert found[0] == found[1]

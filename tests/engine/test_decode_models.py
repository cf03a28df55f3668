"""Every tiny decoder generates what its ground truth or onnxruntime says, replayed exactly as eagerly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from decoders import CPU_MODELS

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.decode.types import DecodeState
from vramscope.errors import InputError
from vramscope.plan.types import BucketPolicy, ComponentName, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model

GROUND_TRUTH = {
    "mobius-tiny-llama-fp32-default": "tiny-llama",
    "mobius-tiny-llama-fp32-static": "tiny-llama",
    "mobius-tiny-llama-std": "tiny-llama",
    "tiny-gemma3-fp32-cpu": "tiny-gemma3",
    "tiny-llama-fp32-cpu": "tiny-llama",
    "tiny-llama-fp32-cpu-prune": "tiny-llama",
    "tiny-llama-tied-fp32-cpu": "tiny-llama-tied",
    "tiny-qwen3-fp32-cpu": "tiny-qwen3",
    "torchexp-tiny-llama": "tiny-llama",
}

PROMPT = [54, 74, 71, 223, 69, 67, 82, 75]
STEPS = 12


def opened(models: Path, name: str) -> Model:
    return open_path(models / "tiny" / name)


def decoder_for(model: Model, *, context: int = 64, batch: int = 1) -> Decoder:
    decoder = Decoder(model, make_plan(model, Scenario(batch=batch, prompt=len(PROMPT), context=context)))
    decoder.load()
    return decoder


def generate(decoder: Decoder, prompt: list[int], count: int) -> list[int]:
    tokens = [decoder.prefill([prompt] * decoder.plan.scenario.batch).tokens[0]]
    while len(tokens) < count:
        tokens.append(decoder.advance().tokens[0])
    return tokens


@pytest.mark.parametrize("name", GROUND_TRUTH)
def test_greedy_tokens_and_logits_equal_the_ground_truth(shared_models: Path, name: str) -> None:
    truth = json.loads((shared_models / f"groundtruth_{GROUND_TRUTH[name]}.json").read_text())
    decoder = decoder_for(opened(shared_models, name))
    for case in truth:
        tokens = generate(decoder, case["prompt_ids"], len(case["new_ids"]))
        assert tokens == case["new_ids"]
        decoder.prefill([case["prompt_ids"]])
        logits = decoder.logits()[0]
        for token, value in case["last_logits_top10"]:
            assert logits[token] == pytest.approx(value, abs=1e-3)
    decoder.close()


@pytest.mark.parametrize("name", CPU_MODELS)
def test_replay_gives_exactly_the_eager_tokens_and_allocates_nothing(shared_models: Path, name: str) -> None:
    model = opened(shared_models, name)
    eager = decoder_for(model)
    tokens = [eager.prefill([PROMPT]).tokens[0]]
    tokens += [eager.step().tokens[0] for _ in range(STEPS)]
    logits = eager.logits()
    eager.close()
    decoder = decoder_for(model)
    assert generate(decoder, PROMPT, STEPS + 1) == tokens
    assert decoder.state is DecodeState.READY
    assert np.array_equal(decoder.logits(), logits)
    before = decoder.device.ledger.total
    result = decoder.replay()
    assert result.replayed
    assert result.allocations == 0
    assert decoder.device.ledger.total == before
    report = decoder.verify(3)
    assert report.equal, report
    decoder.close()


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", CPU_MODELS)
def test_the_ledger_holds_exactly_what_the_plan_says(shared_models: Path, name: str, batch: int) -> None:
    decoder = decoder_for(opened(shared_models, name), batch=batch)
    generate(decoder, PROMPT, 4)
    held = decoder.snapshot().components
    for component in decoder.plan.components:
        if component.name is not ComponentName.CONTEXT:
            assert held[component.name.value].current_bytes == component.figure.bytes, component
    assert decoder.device.ledger.total.current_bytes == decoder.plan.total.bytes
    decoder.close()
    assert decoder.device.ledger.total.current_bytes == 0


@pytest.mark.parametrize("name", CPU_MODELS)
def test_a_batch_of_equal_prompts_gives_equal_rows(shared_models: Path, name: str) -> None:
    model = opened(shared_models, name)
    single = generate(decoder_for(model), PROMPT, 6)
    decoder = decoder_for(model, batch=3)
    rows = [decoder.prefill([PROMPT] * 3).tokens] + [decoder.advance().tokens for _ in range(5)]
    assert [row[0] for row in rows] == single
    assert all(len(set(row)) == 1 for row in rows)


def test_prompts_of_different_lengths_in_one_batch_are_independent(shared_models: Path) -> None:
    model = opened(shared_models, "tiny-llama-fp32-cpu")
    prompts = [PROMPT, PROMPT[:3]]
    apart = [generate(decoder_for(model), prompt, 6) for prompt in prompts]
    decoder = decoder_for(model, batch=2)
    rows = [decoder.prefill(prompts).tokens] + [decoder.advance().tokens for _ in range(5)]
    assert [list(column) for column in zip(*rows, strict=True)] == apart


@pytest.mark.parametrize(
    "name", ["mobius-tiny-llama-fp32-static", "mobius-tiny-llama-std", "optimum-tiny-gpt2"]
)
def test_different_lengths_are_refused_where_the_graph_has_one_length(shared_models: Path, name: str) -> None:
    decoder = decoder_for(opened(shared_models, name), batch=2)
    with pytest.raises(InputError, match="different lengths"):
        decoder.prefill([PROMPT, PROMPT[:3]])


@pytest.mark.parametrize("minimum", [16, 24, 40])
@pytest.mark.parametrize(
    "name", ["mobius-tiny-llama-fp32-static", "tiny-gemma3-fp32-cpu", "tiny-llama-fp32-cpu"]
)
def test_a_growing_cache_takes_at_its_peak_what_its_plan_says(
    shared_models: Path, name: str, minimum: int
) -> None:
    model = opened(shared_models, name)
    scenario = Scenario(prompt=len(PROMPT), context=64, bucket=BucketPolicy(minimum=minimum, growing=True))
    decoder = Decoder(model, make_plan(model, scenario))
    decoder.load()
    assert generate(decoder, PROMPT, 40) == generate(decoder_for(model), PROMPT, 40)
    cache, kv = decoder.device.ledger.component(ComponentName.KV_CACHE.value), decoder.plan.kv
    assert (cache.peak_bytes, cache.current_bytes) == (kv.bytes + kv.transient, kv.bytes)
    decoder.close()


# ------------------------------------------------------------------------------------ beside onnxruntime


@dataclass(frozen=True)
class Peer:
    """onnxruntime on the CPU with a growing cache, every operator exact."""

    session: onnxruntime.InferenceSession
    model: Model

    def logits(self, tokens: list[int], state: dict[str, Any], past: int) -> tuple[Any, dict[str, Any]]:
        contract = self.model.contract
        assert contract is not None
        feed: dict[str, Any] = dict(state)
        for item in self.session.get_inputs():
            if item.name in feed:
                continue
            kind = np.int32 if "int32" in item.type else np.int64
            if item.name == "attention_mask":
                feed[item.name] = np.ones((1, past + len(tokens)), kind)
            elif item.name == "position_ids":
                feed[item.name] = np.arange(past, past + len(tokens), dtype=kind)[None]
            elif item.name == "input_ids":
                feed[item.name] = np.array([tokens], kind)
            else:
                feed[item.name] = np.array(1, kind)
        names = [item.name for item in self.session.get_outputs()]
        results = dict(zip(names, self.session.run(None, feed), strict=True))
        fresh = {pair.input: results[pair.output] for pair in contract.kv}
        return results[contract.logits][0, -1].astype(np.float32), fresh


def peer_for(models: Path, name: str, model: Model, folder: Path) -> Peer:
    """The same file with accuracy_level taken out, so that onnxruntime keeps activations in floats."""
    proto = onnx.load(model.path)
    for node in proto.graph.node:
        kept = [item for item in node.attribute if item.name != "accuracy_level"]
        del node.attribute[:]
        node.attribute.extend(kept)
    target = folder / "model.onnx"
    onnx.save(proto, target)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return Peer(onnxruntime.InferenceSession(str(target), options, providers=["CPUExecutionProvider"]), model)


BESIDE_ORT = {
    "mobius-tiny-llama-fp16-cuda": 2e-2,
    "optimum-tiny-gpt2": 1e-4,
    "tiny-llama-fp16-cuda": 2e-2,
    "tiny-llama-fp32-cpu": 1e-4,
    "tiny-llama-int4-cpu": 1e-4,
    "tiny-llama-int4-cpu-qdq": 1e-4,
    "tiny-llama-int4-cuda": 2e-2,
    "tiny-llama-int8-cpu": 1e-4,
}


@pytest.mark.parametrize("name", BESIDE_ORT)
def test_logits_stay_beside_onnxruntime_at_every_step(shared_models: Path, tmp_path: Path, name: str) -> None:
    model = opened(shared_models, name)
    contract = model.contract
    assert contract is not None
    peer = peer_for(shared_models, name, model, tmp_path)
    kinds = {
        item.name: np.float16 if "float16" in item.type else np.float32 for item in peer.session.get_inputs()
    }
    state: dict[str, Any] = {
        pair.input: np.zeros((1, pair.heads, 0, pair.head_size), kinds[pair.input]) for pair in contract.kv
    }
    decoder = decoder_for(model)
    token = decoder.prefill([PROMPT]).tokens[0]
    fed, past = list(PROMPT), 0
    for _ in range(STEPS):
        theirs, state = peer.logits(fed, state, past)
        ours = decoder.logits()[0]
        error = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
        assert error < BESIDE_ORT[name], (past, error)
        past += len(fed)
        fed = [token]
        token = decoder.advance().tokens[0]
    decoder.close()


def test_bfloat16_runs_near_the_float32_build(shared_models: Path) -> None:
    narrow = decoder_for(opened(shared_models, "tiny-llama-bf16-cuda"))
    wide = decoder_for(opened(shared_models, "tiny-llama-fp32-cpu"))
    narrow.prefill([PROMPT])
    wide.prefill([PROMPT])
    difference = np.abs(np.subtract(narrow.logits(), wide.logits())).max()
    assert 0 < difference < 0.15
    assert np.corrcoef(narrow.logits()[0], wide.logits()[0])[0, 1] > 0.999

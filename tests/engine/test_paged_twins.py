"""Decoders exported again with a paged cache give the same tokens, in every precision."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from paged_twin import paged_twin

from vramscope.api import make_plan, open_path
from vramscope.build.smollm2 import export_smollm2
from vramscope.decode.decoder import Decoder
from vramscope.devices.host import HostDevice
from vramscope.errors import InputError
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PROMPT = [54, 74, 71, 223, 69, 67, 82, 75]
PROMPTS = ([*PROMPT], [*PROMPT[:3]], [*PROMPT[2:], *PROMPT, *PROMPT])
LIMITS = {
    "tiny-llama-fp32-cpu": 5e-5,
    "tiny-llama-tied-fp32-cpu": 5e-5,
    "tiny-llama-fp16-cuda": 2e-2,
    "tiny-llama-bf16-cuda": 1e-1,
    "tiny-llama-int4-cpu": 1e-4,
    "tiny-llama-int8-cpu": 1e-4,
    "tiny-llama-int4-cpu-qdq": 1e-4,
}
"""Largest difference of logits."""
ANSWERED = 8
"""Tokens of each answer."""


def decoder_of(folder: Path, prompts: Sequence[Sequence[int]]) -> Decoder:
    model = open_path(folder)
    longest = max(map(len, prompts))
    made = Decoder(model, make_plan(model, Scenario(len(prompts), longest, 100, block_size=16)))
    made.load()
    return made


@pytest.mark.parametrize("name", LIMITS)
def test_the_twin_gives_the_same_tokens(shared_models: Path, tmp_path: Path, name: str) -> None:
    folder = shared_models / "tiny" / name
    plain, paged = (decoder_of(item, PROMPTS) for item in (folder, paged_twin(folder, tmp_path / "paged")))
    assert paged.plan.kv.pool.block_size == 16
    for count in range(60):
        expected, found = (item.advance() if count else item.prefill(PROMPTS) for item in (plain, paged))
        difference = np.abs(np.subtract(paged.logits(), plain.logits())).max()
        assert difference <= LIMITS[name], (count, difference)
        assert found.tokens == expected.tokens, count
    assert paged.snapshot().steps_replayed > 50
    assert paged.device.ledger.total.peak_bytes == paged.plan.total.bytes


@pytest.mark.slow
def test_smollm2_answers_from_blocks(shared_models: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("smollm2")
    folder = paged_twin(export_smollm2(place / "plain", "fp16"), place / "paged")
    model = open_path(folder)
    truth = json.loads((shared_models / "groundtruth_smollm2-135m.json").read_text())
    prompts = [case["prompt_ids"] for case in truth]
    longest = max(map(len, prompts))
    scenario = Scenario(len(prompts), longest, 128, block_size=16)
    decoder = Decoder(model, make_plan(model, scenario), device=HostDevice(threads=2))
    decoder.load()
    steps = [decoder.prefill(prompts).tokens]
    while len(steps) < ANSWERED:
        steps.append(decoder.advance().tokens)
    for entry, case in enumerate(truth):
        assert [tokens[entry] for tokens in steps] == case["new_ids"][:ANSWERED]
    decoder.close()


def test_a_cache_of_codes_is_planned_as_if_and_exported_so_to_the_same_byte(
    shared_models: Path, tmp_path: Path
) -> None:
    folder = shared_models / "tiny" / "tiny-llama-fp16-cuda"
    scenario = Scenario(3, 22, 100, block_size=16)
    plain = open_path(paged_twin(folder, tmp_path / "plain"))
    codes = open_path(paged_twin(folder, tmp_path / "codes", scale=0.04))
    wished, real = make_plan(plain, replace(scenario, as_if=("kv8",))), make_plan(codes, scenario)
    assert wished.kv == real.kv
    assert wished.total == real.total
    assert real.kv.bytes * 2 == make_plan(plain, scenario).kv.bytes
    assert make_plan(plain, replace(scenario, as_if=("kv4",))).kv.bytes * 2 == real.kv.bytes
    wide, narrow = (decoder_of(tmp_path / name, PROMPTS) for name in ("plain", "codes"))
    for count in range(20):
        for item in (wide, narrow):
            item.advance() if count else item.prefill(PROMPTS)
        if count == 0:
            for one, two in zip(wide.logits(), narrow.logits(), strict=True):
                assert np.corrcoef(one, two)[0, 1] > 0.99
    assert narrow.snapshot().steps_replayed > 10
    assert narrow.device.ledger.total.peak_bytes == narrow.plan.total.bytes


def test_slots_of_a_scheduler_are_an_input_that_nobody_feeds_here(
    shared_models: Path, tmp_path: Path
) -> None:
    folder = paged_twin(shared_models / "tiny" / "tiny-llama-fp16-cuda", tmp_path / "slots")
    graph = onnx.load(folder / "model.onnx", load_external_data=False)
    slots = helper.make_tensor_value_info("slot_mapping", TensorProto.INT32, ["num_tokens"])
    graph.graph.input.append(slots)
    for node in graph.graph.node:
        if node.op_type == "PagedAttention":
            node.input[10] = "slot_mapping"
    onnx.save(graph, folder / "model.onnx")
    model = open_path(folder)
    plan = make_plan(model, Scenario(context=64))
    assert any("slot_mapping: planned, and refused" in note for note in plan.notes)
    with pytest.raises(InputError, match="input 'slot_mapping': no dialect that is known here"):
        Decoder(model, plan)

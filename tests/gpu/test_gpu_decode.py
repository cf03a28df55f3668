"""Whole decoders on the CUDA device: tokens, one graph, no allocations, the ledger equal to the plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.library_form import LibraryProduct
from vramscope.errors import RecordingError
from vramscope.plan.types import ComponentName, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.devices.cuda.device import CudaDevice
    from vramscope.graph.model import Model

pytestmark = pytest.mark.gpu

TOLERANCE = {
    "mobius-tiny-llama-fp16-cuda": 2e-2,
    "mobius-tiny-llama-fp32-default": 1e-4,
    "mobius-tiny-llama-fp32-static": 1e-4,
    "mobius-tiny-llama-std": 1e-4,
    "optimum-tiny-gpt2": 1e-4,
    "tiny-gemma3-fp32-cpu": 1e-4,
    "tiny-llama-bf16-cuda": 1e-1,
    "tiny-llama-fp16-cuda": 2e-2,
    "tiny-llama-fp16-cuda-paged": 2e-2,
    "tiny-llama-fp32-cpu": 1e-4,
    "tiny-llama-fp32-cpu-prune": 1e-4,
    "tiny-llama-int4-cpu": 1e-4,
    "tiny-llama-int4-cpu-qdq": 1e-4,
    "tiny-llama-int4-cuda": 2e-2,
    "tiny-llama-int8-cpu": 1e-4,
    "tiny-llama-tied-fp32-cpu": 1e-4,
    "tiny-qwen3-fp32-cpu": 1e-4,
    "torchexp-tiny-llama": 1e-4,
}
"""Largest logits error against the host device, relative to the largest logit."""

MOVING = {"optimum-tiny-gpt2", "torchexp-tiny-llama"}
"""Dialects whose shapes grow with every step: they are not one graph."""

PROMPT = [54, 74, 71, 223, 69, 67, 82, 75]


def decoder_on(model: Model, device: CudaDevice | None, context: int = 64, prompt: int = 8) -> Decoder:
    decoder = Decoder(model, make_plan(model, Scenario(prompt=prompt, context=context)), device=device)
    decoder.load()
    return decoder


@pytest.mark.parametrize("name", TOLERANCE)
def test_logits_and_tokens_follow_the_host(shared_models: Path, cuda: CudaDevice, name: str) -> None:
    model = open_path(shared_models / "tiny" / name)
    host, card = decoder_on(model, None), decoder_on(model, cuda)
    pair = [item.prefill([PROMPT]).tokens[0] for item in (host, card)]
    for step in range(14):
        expected, found = host.logits(), card.logits()
        assert np.isfinite(found).all(), step
        assert np.abs(np.subtract(found, expected)).max() / np.abs(expected).max() < TOLERANCE[name], step
        if pair[0] != pair[1]:
            top = np.sort(expected[0])[-2:]
            assert top[1] - top[0] < 2 * TOLERANCE[name] * np.abs(expected).max(), step
            break
        pair = [item.step().tokens[0] for item in (host, card)]
    host.close()


@pytest.mark.parametrize("name", sorted(TOLERANCE.keys() - MOVING))
def test_a_step_is_one_graph_that_repeats_eager_bit_for_bit(
    shared_models: Path, cuda: CudaDevice, name: str
) -> None:
    model = open_path(shared_models / "tiny" / name)
    limit = make_plan(model, Scenario(prompt=len(PROMPT))).context
    context = min(300, limit)
    steps = min(256, context - len(PROMPT) - 4)
    decoder = decoder_on(model, cuda, context=context)
    eager = [decoder.prefill([PROMPT]).tokens[0]]
    rows = []
    for _ in range(steps):
        eager.append(decoder.step().tokens[0])
        rows.append(decoder.logits())
    again = [decoder.prefill([PROMPT]).tokens[0]]
    report, result = decoder.capture()
    assert report.is_single_graph, str(report)
    again += [eager[1], result.tokens[0]]
    for step in range(2, steps):
        result = decoder.replay()
        assert result.replayed
        assert result.allocations == 0
        again.append(result.tokens[0])
        assert np.array_equal(decoder.logits(), rows[step]), step
    assert again == eager


@pytest.mark.parametrize("name", TOLERANCE)
def test_the_ledger_equals_the_plan(shared_models: Path, cuda: CudaDevice, name: str) -> None:
    model = open_path(shared_models / "tiny" / name)
    decoder = decoder_on(model, cuda)
    decoder.prefill([PROMPT])
    decoder.step()
    held = decoder.snapshot().components
    for component in decoder.plan.components:
        if component.name is not ComponentName.CONTEXT and component.figure.known:
            assert held[component.name.value].current_bytes == component.figure.known, component.name


TRUTH = {
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


@pytest.mark.parametrize("name", TRUTH)
def test_tokens_equal_the_recorded_ones(shared_models: Path, cuda: CudaDevice, name: str) -> None:
    truth = json.loads((shared_models / f"groundtruth_{TRUTH[name]}.json").read_text())
    model = open_path(shared_models / "tiny" / name)
    for entry in truth:
        ids, expected = entry["prompt_ids"], entry["new_ids"]
        decoder = decoder_on(model, cuda, context=len(ids) + len(expected) + 8, prompt=len(ids))
        tokens = [decoder.prefill([ids]).tokens[0]]
        while len(tokens) < len(expected):
            tokens.append(decoder.advance().tokens[0])
        assert tokens == expected
        decoder.close()


def test_an_allocation_inside_a_recording_names_the_node(cuda: CudaDevice) -> None:
    import cupy

    def allocate() -> None:
        cupy.cuda.runtime.malloc(1 << 20)

    with pytest.raises(RecordingError) as caught:
        cuda.record((("the greedy node", allocate),))
    assert caught.value.node == "the greedy node"
    assert cuda.record((("nothing", lambda: None),)) is not None


def test_the_driver_counts_and_draws_the_graph(shared_models: Path, cuda: CudaDevice) -> None:
    decoder = decoder_on(open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda"), cuda)
    decoder.prefill([PROMPT])
    decoder.capture()
    (facts,) = decoder.graph_facts()
    assert facts.nodes == len(cuda.recorded)
    assert facts.dot.startswith("digraph")
    assert facts.dot.count("choose_f16") == 1


@pytest.mark.parametrize("name", ["tiny-llama-fp16-cuda", "tiny-llama-bf16-cuda", "tiny-llama-int4-cuda"])
def test_a_large_batch_is_captured_with_its_library_products(
    shared_models: Path, cuda: CudaDevice, name: str
) -> None:
    batch = 12
    model = open_path(shared_models / "tiny" / name)
    found = []
    for device in (None, cuda):
        plan = make_plan(model, Scenario(batch=batch, prompt=40, context=64))
        decoder = Decoder(model, plan, device=device)
        decoder.load()
        prompts = [[(3 + 7 * row + 5 * n) % 250 for n in range(40 - row)] for row in range(batch)]
        decoder.prefill(prompts)
        found.append(decoder.logits())
    step = decoder.capture()[0]
    assert step.is_single_graph, str(step)
    products = [issue for issue in cuda.recorded if isinstance(issue.launch, LibraryProduct)]
    assert bool(products) == cuda.library
    report = decoder.verify(16)
    assert report.equal, report.first_difference
    true, logits = (np.asarray(item, np.float64) for item in found)
    assert float(np.abs(logits - true).max()) < TOLERANCE[name] * float(np.abs(true).max())

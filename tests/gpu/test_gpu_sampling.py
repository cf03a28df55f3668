"""Tokens chosen on the card: the host's own choice for every form of row; replays repeat eager draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.ledger import Site
from vramscope.devices.sampling import Sampling, choose
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.devices.cuda.device import CudaDevice

pytestmark = pytest.mark.gpu

WAYS = [
    Sampling(),
    Sampling(1.0, seed=3),
    Sampling(0.7, top_k=1, seed=1),
    Sampling(0.7, top_k=50, seed=-5),
    Sampling(1.3, top_p=0.9, seed=2**40 + 7),
    Sampling(2.5, top_k=400, top_p=0.95, seed=11),
    Sampling(4.0, top_k=10**9, top_p=0.3),
]


def on_card(device: CudaDevice, value: np.ndarray[Any, Any]) -> Any:  # noqa: ANN401 - a device array
    buffer = device.allocate(Site("io", "a test's tensor"), value.nbytes)
    array = buffer.bytes.view(value.dtype).reshape(value.shape)
    device.upload(array, value)
    return array


def chosen(
    device: CudaDevice, logits: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any], sampling: Sampling
) -> np.ndarray[Any, Any]:
    token, length = on_card(device, np.full(len(lengths), -1)), on_card(device, lengths)
    ring = on_card(device, np.full((5, len(lengths)), -1))
    device.choose_action(on_card(device, logits), token, length, sampling, ring)()
    assert np.array_equal(device.download(length), lengths + 1)
    found, kept = device.download(token), np.full((5, len(lengths)), -1)
    kept[(lengths + 1) % 5, np.arange(len(lengths))] = found
    assert np.array_equal(device.download(ring), kept)
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("width", [3, 511, 8191, 49152, 128256, 262145])
@pytest.mark.parametrize("sampling", WAYS, ids=str)
def test_the_card_chooses_what_the_host_chooses(
    cuda: CudaDevice, sampling: Sampling, width: int, kind: type[Any]
) -> None:
    random = np.random.default_rng()
    logits = (random.standard_normal((4, width)) * 4).astype(kind)
    lengths = random.integers(0, 10**6, 4)
    assert np.array_equal(
        chosen(cuda, logits, lengths, sampling), choose(sampling, logits.astype(np.float32), lengths + 1)
    )


@pytest.mark.parametrize("sampling", WAYS, ids=str)
def test_ties_infinities_and_rows_that_are_no_numbers(cuda: CudaDevice, sampling: Sampling) -> None:
    random = np.random.default_rng()
    logits = np.zeros((6, 20000), np.float32)
    logits[0] = random.integers(0, 3, 20000)
    logits[1, 77], logits[2, 900], logits[3] = np.nan, np.inf, -np.inf
    logits[4] = np.where(random.random(20000) < 0.5, -np.inf, 1)
    logits[5] = np.where(random.random(20000) < 0.5, -0.0, 0.0)
    lengths = np.arange(6)
    expected = choose(sampling, logits, lengths + 1)
    assert np.array_equal(chosen(cuda, logits, lengths, sampling), expected)


@pytest.mark.parametrize("sampling", WAYS, ids=str)
def test_one_logit_far_above_the_others_and_many_beside_each_other(
    cuda: CudaDevice, sampling: Sampling
) -> None:
    random = np.random.default_rng()
    logits = (random.standard_normal((4, 50000)) * 0.01).astype(np.float32)
    logits[0, 41000] = 9.0
    logits[1, :3] = 6.0, 60.0, 5.9
    logits[2] = random.integers(0, 40, 50000) * 0.25
    logits[3, ::2] = -np.inf
    lengths = random.integers(0, 1000, 4)
    assert np.array_equal(chosen(cuda, logits, lengths, sampling), choose(sampling, logits, lengths + 1))


@pytest.mark.parametrize("sampling", [WAYS[0], WAYS[3], WAYS[5]], ids=str)
@pytest.mark.parametrize("batch", [1, 3])
def test_bursts_give_what_single_replays_give(
    shared_models: Path, cuda: CudaDevice, sampling: Sampling, batch: int
) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda")
    prompts = [[5, 6, 7, 8], [9, 3], [4, 4, 1]][:batch]
    found = []
    for width in (1, 7, 32):
        plan = make_plan(model, Scenario(batch=batch, prompt=4, context=100))
        decoder = Decoder(model, plan, device=cuda, sampling=sampling)
        decoder.load()
        decoder.prefill(prompts)
        decoder.step()
        decoder.capture()
        tokens: list[tuple[int, ...]] = []
        while len(tokens) < 80:
            tokens += [item.tokens for item in decoder.replays(min(width, 80 - len(tokens)))]
        found.append((tokens, decoder.logits()))
        decoder.close()
    for tokens, logits in found[1:]:
        assert tokens == found[0][0]
        assert np.array_equal(logits, found[0][1])


@pytest.mark.parametrize("place", [0, 2, 5])
def test_steps_behind_an_end_of_sequence_leave_no_trace(
    shared_models: Path, cuda: CudaDevice, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda")
    decoder = Decoder(
        model, make_plan(model, Scenario(prompt=4, context=100)), device=cuda, sampling=Sampling(4.0, seed=5)
    )
    decoder.load()
    runs: list[tuple[list[tuple[int, ...]], np.ndarray[Any, Any], list[tuple[int, ...]]]] = []
    for width in (1, 8):
        decoder.prefill([[5, 6, 7, 8]])
        decoder.step()
        decoder.capture()
        if width > 1:
            monkeypatch.setattr(decoder._accounts, "_ends", frozenset(runs[0][0][place]))
            tokens = [item.tokens for item in decoder.replays(width)]
            monkeypatch.undo()
            assert tokens == runs[0][0][: place + 1]
        else:
            tokens = [decoder.replay().tokens for _ in range(place + 1)]
        logits = decoder.logits()
        runs.append((tokens, logits, [decoder.replay().tokens for _ in range(9)]))
    assert np.array_equal(runs[0][1], runs[1][1])
    assert runs[0][2] == runs[1][2]
    decoder.close()


@pytest.mark.parametrize("sampling", WAYS[1:], ids=str)
def test_a_replayed_step_draws_what_the_eager_one_draws(
    shared_models: Path, cuda: CudaDevice, sampling: Sampling
) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda")
    decoder = Decoder(
        model, make_plan(model, Scenario(prompt=4, context=100)), device=cuda, sampling=sampling
    )
    decoder.load()
    eager = [decoder.prefill([[5, 6, 7, 8]]).tokens, *(decoder.step().tokens for _ in range(80))]
    again = [decoder.prefill([[5, 6, 7, 8]]).tokens, decoder.step().tokens, decoder.capture()[1].tokens]
    while len(again) < len(eager):
        result = decoder.replay()
        assert result.replayed
        again.append(result.tokens)
    assert again == eager
    decoder.close()

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
    device.choose_action(on_card(device, logits), token, length, sampling)()
    assert np.array_equal(device.download(length), lengths + 1)
    return device.download(token)


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

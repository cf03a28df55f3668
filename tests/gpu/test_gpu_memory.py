"""The card's memory: a real refusal leaves a usable session, budgets hold to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vramscope.api import make_plan, open_path
from vramscope.build.config_reader import read_config
from vramscope.build.decoder import build_decoder
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.ledger import Site
from vramscope.errors import AllocationFailedError, OutOfBudgetError
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model

pytestmark = pytest.mark.gpu

CONFIG = """{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float16",
"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 8,
"num_key_value_heads": 2, "vocab_size": 32000, "max_position_embeddings": 2048,
"tie_word_embeddings": true}"""
PROMPT = [5, 6, 7, 8]
OUTSIDE = 12 * 2**20
"""Modules, graph executables and pages that are not full, at most."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder: Path = tmp_path_factory.mktemp("memory")
    (folder / "config.json").write_text(CONFIG)
    build_decoder(read_config(folder / "config.json"), folder / "model", precision="fp16")
    return open_path(folder / "model")


def decoder_on(model: Model, device: CudaDevice) -> Decoder:
    return Decoder(model, make_plan(model, Scenario(prompt=len(PROMPT), context=1040)), device=device)


def tokens_of(decoder: Decoder, count: int) -> list[int]:
    found = [decoder.prefill([PROMPT]).tokens[0]]
    while len(found) < count:
        found.append(decoder.advance().tokens[0])
    return found


def test_a_full_card_refuses_and_the_session_is_usable_afterwards(cuda: CudaDevice, model: Model) -> None:
    import cupy

    runtime = cupy.cuda.runtime
    decoder = decoder_on(model, cuda)
    ballast = runtime.malloc(runtime.memGetInfo()[0] - 48 * 2**20)
    try:
        with pytest.raises(AllocationFailedError) as caught:
            decoder.load()
        assert "are free" in str(caught.value)
        assert caught.value.remedy
        assert cuda.ledger.total.current_bytes == 0
    finally:
        runtime.free(ballast)
    decoder.load()
    expected = tokens_of(decoder, 20)
    decoder.close()
    again = decoder_on(model, cuda)
    again.load()
    assert tokens_of(again, 20) == expected
    again.close()


def test_a_plan_fits_its_own_total_and_not_a_byte_less(cuda: CudaDevice, model: Model) -> None:
    total = decoder_on(model, cuda).plan.total.known
    small = CudaDevice(budget=total - 1)
    with pytest.raises(OutOfBudgetError):
        decoder_on(model, small).load()
    assert small.ledger.total.current_bytes == 0
    small.close()
    exact = CudaDevice(budget=total)
    decoder = decoder_on(model, exact)
    decoder.load()
    decoder.prefill([PROMPT])
    decoder.step()
    decoder.capture()
    before = exact.ledger.total.total_count
    for _ in range(1024):
        assert decoder.replay().allocations == 0
    assert exact.ledger.total.total_count == before
    decoder.close()
    exact.close()


def test_the_driver_gives_what_the_ledger_counts(cuda: CudaDevice, model: Model) -> None:
    import cupy

    runtime = cupy.cuda.runtime
    before = runtime.memGetInfo()[0]
    decoder = decoder_on(model, cuda)
    decoder.load()
    tokens_of(decoder, 8)
    cuda.synchronize()
    used = before - runtime.memGetInfo()[0]
    held = cuda.ledger.total.current_bytes
    assert held == decoder.plan.total.known
    assert 0 <= used - held < OUTSIDE
    decoder.close()
    assert before - runtime.memGetInfo()[0] < OUTSIDE


def test_buffers_share_pages(cuda: CudaDevice) -> None:
    import cupy

    before = cupy.cuda.runtime.memGetInfo()[0]
    buffers = [cuda.allocate(Site("weights", str(number)), 1792 * 1024) for number in range(64)]
    used = before - cupy.cuda.runtime.memGetInfo()[0]
    assert used <= 64 * 1792 * 1024 + 2 * 2**20
    for buffer in buffers:
        cuda.release(buffer)

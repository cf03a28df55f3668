"""What a prefill launches: the head on last rows alone, products by cuBLASLt, and nothing bound twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda_twin import twin_device

from vramscope.api import make_plan, open_path
from vramscope.build.config_reader import read_config
from vramscope.build.decoder import build_decoder
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.library_form import AnyLaunch, LibraryProduct, Operand
from vramscope.plan.types import Scenario
from vramscope.run.runner import Runner

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.devices.base import Device

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float16",
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
"""Biases behind the packed query, key and value, a gated activation, a head of its own."""
LENGTH = 40


def decoder_of(folder: Path, batch: int = 1, device: Device | None = None) -> Decoder:
    model = open_path(folder)
    decoder = Decoder(
        model, make_plan(model, Scenario(batch=batch, prompt=LENGTH, context=96)), device=device
    )
    decoder.load()
    return decoder


def prompt(length: int, start: int = 3) -> list[int]:
    return [(start + 7 * n) % 250 for n in range(length)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("qwen")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for precision in ("fp16", "q4f16"):
        build_decoder(read_config(folder / "config.json"), folder / precision, precision=precision)
    return {precision: folder / precision for precision in ("fp16", "q4f16")}


def prefilled(folder: Path, prompts: list[list[int]], *, library: bool = True) -> list[AnyLaunch]:
    """The launches of one prefill, in the order they were made ready."""
    device, twin = twin_device(library=library)
    decoder = decoder_of(folder, len(prompts), device)
    twin.launches.clear()
    decoder.prefill(prompts)
    return list(twin.launches)


@pytest.mark.parametrize("precision", ["fp16", "q4f16"])
def test_a_layer_of_many_rows(built: dict[str, Path], precision: str) -> None:
    launches = prefilled(built[precision], [prompt(LENGTH)])
    functions = Counter(item.source.name for item in launches)
    products = [item for item in launches if isinstance(item, LibraryProduct)]
    assert functions["gate"] == 2
    assert functions["cublasLt"] == 5 * 2
    assert functions["attend_flash"] == 2 * 2
    assert [item.bias != 0 for item in products] == [True, False, False, False, False] * 2
    assert not [name for name in functions if name in ("each-add", "each-mul", "each-sigmoid", "tensor")]
    assert functions["nbits"] == (0 if precision == "fp16" else 5 * 2)


@pytest.mark.parametrize("precision", ["fp16", "q4f16"])
def test_without_the_library_own_kernels_multiply(built: dict[str, Path], precision: str) -> None:
    functions = Counter(
        item.source.name for item in prefilled(built[precision], [prompt(LENGTH)], library=False)
    )
    assert functions["cublasLt"] == 0
    assert functions["tensor"] == 5 * 2


@pytest.mark.parametrize("lengths", [(LENGTH,), (LENGTH, 13)])
def test_the_head_is_computed_for_the_last_row_of_every_sequence(
    built: dict[str, Path], lengths: tuple[int, ...]
) -> None:
    launches = prefilled(built["fp16"], [prompt(length) for length in lengths])
    heads = [item for item in launches if not isinstance(item, LibraryProduct) and "columns" in item.function]
    assert len(heads) == len(lengths)
    assert all(item.n != CONFIG["vocab_size"] for item in launches if isinstance(item, LibraryProduct))


def test_a_prompt_in_passes_computes_its_head_once(built: dict[str, Path]) -> None:
    device, twin = twin_device()
    model = open_path(built["fp16"])
    scenario = Scenario(batch=2, prompt=LENGTH, context=96, prefill_chunk=16)
    decoder = Decoder(model, make_plan(model, scenario), device=device)
    decoder.load()
    decoder.prefill([prompt(LENGTH), prompt(LENGTH, 9)])
    twin.launches.clear()
    issued: dict[int, int] = {}
    for length, bound in ((LENGTH, 0), (LENGTH - 1, 2), (LENGTH, 2), (16, 2)):
        before = twin.issued
        decoder.prefill([prompt(length), prompt(length, 5)])
        issued[length] = twin.issued - before
        heads = [item for item in twin.launches if getattr(item, "function", "").startswith("columns")]
        assert len(heads) == len(twin.launches) == bound, "only the head of another row is made ready"
        twin.launches.clear()
    assert issued[LENGTH] - 2 == 3 * (issued[16] - 2), "three passes and one head, for each of two sequences"
    decoder.close()


def test_last_rows_alone_choose_the_same_tokens(
    built: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [prompt(LENGTH), prompt(13, 5)]
    decoder = decoder_of(built["fp16"], 2)
    tokens, logits = decoder.prefill(prompts).tokens, decoder.logits()
    monkeypatch.setattr(
        "vramscope.run.launch.cut_to_last_rows", lambda _index, launches, _wanted: (launches, ())
    )
    whole = decoder_of(built["fp16"], 2)
    assert whole.prefill(prompts).tokens == tokens
    assert np.allclose(whole.logits(), logits, rtol=0, atol=2e-3 * float(np.abs(logits).max()))


def test_a_prefill_of_the_same_lengths_is_bound_once(
    built: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[Any] = []
    bind = Runner.bind

    def counting(self: Runner, *arguments: Any) -> Any:  # noqa: ANN401 - handed on
        bound.append(arguments[0])
        return bind(self, *arguments)

    monkeypatch.setattr(Runner, "bind", counting)
    decoder = decoder_of(built["fp16"])
    prompts = [prompt(LENGTH), prompt(LENGTH, 9), prompt(30), prompt(LENGTH)]
    found = []
    for item in prompts:
        bound.clear()
        tokens = [decoder.prefill([item]).tokens[0]]
        found.append((len(bound), [*tokens, *(decoder.step().tokens[0] for _ in range(3))]))
    assert [count for count, _ in found] == [1, 0, 1, 1]
    for item, (_, tokens) in zip(prompts, found, strict=True):
        fresh = decoder_of(built["fp16"])
        assert [fresh.prefill([item]).tokens[0], *(fresh.step().tokens[0] for _ in range(3))] == tokens


def test_a_longer_prompt_binds_the_shorter_one_anew(built: dict[str, Path]) -> None:
    decoder, fresh = decoder_of(built["fp16"]), decoder_of(built["fp16"])
    first = decoder.prefill([prompt(30)]).tokens
    decoder.prefill([prompt(80)])
    assert decoder.prefill([prompt(30)]).tokens == first == fresh.prefill([prompt(30)]).tokens


def test_a_product_knows_how_its_addresses_are_aligned() -> None:
    assert [Operand(address, 8).alignment for address in (256, 512, 96, 2, 0)] == [256, 256, 32, 2, 256]

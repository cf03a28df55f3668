"""Hugging Face configurations of every family are understood, and what is wrong in one is named."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy_decoder import BASE, family

from vramscope.build.config import Activation, Rope, RopeKind
from vramscope.build.config_reader import parse_config, read_config
from vramscope.build.rope import inverse_frequencies
from vramscope.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}

LLAMA_31 = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": LLAMA3,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}


def test_llama_3_1() -> None:
    config = parse_config(LLAMA_31)
    assert (config.head_size, config.kv_heads, config.rotary_size) == (128, 8, 128)
    assert config.eos_tokens == (128001, 128008, 128009)
    assert config.rope == Rope(500000.0, RopeKind.LLAMA3, 8.0, 1.0, 4.0, 8192)
    assert config.windows == (0,) * 32
    assert config.attention_scale == pytest.approx(128**-0.5)
    assert not (config.qkv_bias)
    assert not (config.qk_norm)
    assert not (config.tie_embeddings)
    assert not (config.sandwich_norms)


def test_newer_files_keep_rotary_settings_in_one_object() -> None:
    newer = {key: value for key, value in LLAMA_31.items() if not key.startswith("rope_")}
    assert parse_config({**newer, "rope_parameters": {**LLAMA3, "rope_theta": 500000.0}}) == parse_config(
        LLAMA_31
    )


def test_qwen2_has_biases_and_slides_only_when_told() -> None:
    fields = {**BASE, "model_type": "qwen2", "sliding_window": 64, "max_window_layers": 1}
    config = parse_config(fields)
    assert config.qkv_bias
    assert not config.output_bias
    assert config.windows == (0, 0)
    assert parse_config({**fields, "use_sliding_window": True}).windows == (0, 64)


def test_qwen3_has_head_norms_and_its_own_head_size() -> None:
    fields = {key: value for key, value in family("qwen3").items() if key != "head_dim"}
    config = parse_config(fields)
    assert config.qk_norm
    assert config.head_size == 128


def test_mistral_slides_in_every_layer_or_in_none() -> None:
    assert parse_config(family("mistral")).windows == (5, 5)
    assert parse_config({**family("mistral"), "sliding_window": None}).windows == (0, 0)


def test_phi_3_packs_gate_and_up_and_may_rotate_a_part() -> None:
    config = parse_config({**family("phi3"), "partial_rotary_factor": 0.75})
    assert config.packed_gate_up
    assert config.rotary_size == 12


def test_a_multimodal_gemma_3_is_read_from_its_text_part() -> None:
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    config = parse_config({"model_type": "gemma3", "text_config": text, "vision_config": {}})
    assert config.architecture == "gemma3_text"
    assert (config.heads, config.kv_heads, config.head_size, config.vocabulary) == (8, 4, 256, 262208)
    assert config.rope == Rope(1e6, RopeKind.LINEAR, 8.0)
    assert config.sliding_rope == Rope(1e4)
    assert config.windows[:7] == (1024,) * 5 + (0, 1024)
    assert config.embedding_scale == math.sqrt(2560)
    assert config.activation is Activation.GELU_TANH
    assert config.tie_embeddings


def test_newer_gemma_3_files_have_rotary_settings_for_each_kind_of_layer() -> None:
    parameters = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    }
    listed = ["full_attention", "sliding_attention"] * 3
    config = parse_config({**family("gemma3"), "rope_parameters": parameters, "layer_types": listed})
    assert (config.rope, config.sliding_rope) == (Rope(1e6, RopeKind.LINEAR, 8.0), Rope(2e4))
    assert config.windows == (0, 5, 0, 5, 0, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba"}, "'mamba' is not an architecture that can be built.*llama"),
        ({"model_type": None}, "model_type in .*: the field is missing"),
        ({"hidden_size": None}, "hidden_size in .*: the field is missing.*Add"),
        ({"vocab_size": None}, "vocab_size in .*: the field is missing"),
        ({"max_position_embeddings": None}, "max_position_embeddings in .*: the field is missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers in .*: it is 0"),
        ({"num_hidden_layers": True}, "num_hidden_layers in .*: it is True"),
        ({"intermediate_size": "128"}, "intermediate_size in .*: it is '128'"),
        ({"rms_norm_eps": -1.0}, r"rms_norm_eps in .*: it is -1\.0"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings in .*: it is 'yes'"),
        ({"hidden_act": "relu"}, "hidden_act in .*: 'relu' is not known"),
        ({"num_key_value_heads": 3}, "4 query heads cannot share 3 KV heads"),
        ({"head_dim": 15}, "head_dim in .*: rotary embedding turns channel pairs"),
        ({"eos_token_id": "</s>"}, "eos_token_id in .*: it is '</s>'"),
        ({"bos_token_id": 512}, "bos_token_id in .*: 512 is not in a vocabulary of 512"),
        ({"rope_scaling": {"type": "yarn", "factor": 4}}, "rope_type in .*: 'yarn' is not supported"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "'longrope' is not supported"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor in the rotary settings.*: the field is missing"),
        ({"rope_scaling": "linear"}, "rope_scaling in .*: it is not a JSON object"),
        ({"rope_scaling": {**LLAMA3, "low_freq_factor": 4}}, "high_freq_factor in .*: it is not above"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_config({**family("llama"), **change})


@pytest.mark.parametrize("listed", [["full_attention"], ["full_attention", "local"], "full_attention"])
def test_layer_types_must_name_every_layer(listed: object) -> None:
    with pytest.raises(InputError, match="layer_types in"):
        parse_config({**family("mistral"), "layer_types": listed})


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no such file"), ("{", "read as JSON"), ("[]", "not a JSON object")],
)
def test_a_file_that_is_none_is_refused(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_config(path)


def test_a_file_reads_like_its_object(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_31), encoding="utf-8")
    assert read_config(path) == parse_config(LLAMA_31)


def test_llama_3_frequencies_follow_the_published_rule() -> None:
    rope = parse_config(LLAMA_31).rope
    wanted = []
    for pair in range(64):
        frequency = 500000.0 ** (-2 * pair / 128)
        wavelength = 2 * math.pi / frequency
        if wavelength < 8192 / 4:
            wanted.append(frequency)
        elif wavelength > 8192 / 1:
            wanted.append(frequency / 8)
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            wanted.append((1 - smooth) * frequency / 8 + smooth * frequency)
    np.testing.assert_allclose(inverse_frequencies(rope, 128), wanted, rtol=1e-12)


def test_linear_frequencies_are_divided() -> None:
    plain, linear = Rope(), Rope(kind=RopeKind.LINEAR, factor=4.0)
    np.testing.assert_allclose(inverse_frequencies(linear, 16) * 4, inverse_frequencies(plain, 16))

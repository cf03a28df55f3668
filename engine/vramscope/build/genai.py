"""``genai_config.json``: what onnxruntime-genai, and VRAMScope, need to know to drive a decoder folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.build.config import DecoderConfig

CONFIG_FILE = "genai_config.json"


def write_genai_config(folder: Path, config: DecoderConfig) -> None:
    """Writes the file into ``folder``."""
    document = {"model": _model(config), "search": _search(config)}
    text = json.dumps(document, indent=4) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8", newline="\n")


def _model(config: DecoderConfig) -> dict[str, object]:
    eos = list(config.eos_tokens)
    fallback = eos[0] if eos else 0
    return {
        "bos_token_id": fallback if config.bos_token is None else config.bos_token,
        "context_length": config.max_positions,
        "decoder": _decoder(config),
        "eos_token_id": eos[0] if len(eos) == 1 else eos,
        "pad_token_id": fallback if config.pad_token is None else config.pad_token,
        "type": config.architecture,
        "vocab_size": config.vocabulary,
    }


def _decoder(config: DecoderConfig) -> dict[str, object]:
    return {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": config.head_size,
        "hidden_size": config.hidden_size,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
        "num_attention_heads": config.heads,
        "num_hidden_layers": config.layers,
        "num_key_value_heads": config.kv_heads,
    }


def _search(config: DecoderConfig) -> dict[str, object]:
    """Greedy search with one shared buffer for past and present."""
    return {
        "diversity_penalty": 0.0,
        "do_sample": False,
        "early_stopping": True,
        "length_penalty": 1.0,
        "max_length": config.max_positions,
        "min_length": 0,
        "no_repeat_ngram_size": 0,
        "num_beams": 1,
        "num_return_sequences": 1,
        "past_present_share_buffer": True,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 1.0,
    }

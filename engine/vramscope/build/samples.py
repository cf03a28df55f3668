"""The bundled samples: what each shows, how it was made, and where it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from vramscope.build.config_reader import parse_config
from vramscope.build.decoder import build_decoder
from vramscope.build.sample_tokenizer import write_tokenizer

if TYPE_CHECKING:
    from pathlib import Path


VOCABULARY = 512
TINY_SEED = 5


class SampleForm(Enum):
    """How a sample ships."""

    FOLDER = "folder"
    """Ready to open, in the resources."""
    CONFIG = "config"
    """A ``config.json`` alone; the model is built without weights when it is first opened."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One bundled sample: its folder's name, a title, what it shows, and how it ships."""

    name: str
    title: str
    shows: str
    form: SampleForm


SAMPLES = (
    Sample(
        "tiny-llama",
        "Tiny Llama",
        "A decoder of 3 layers with random weights: plan it, prefill, decode, capture and replay it.",
        SampleForm.FOLDER,
    ),
)
"""Every sample, the one to open first in front."""


def tiny_llama_config() -> dict[str, object]:
    """The tiny Llama's ``config.json``."""
    return {
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "initializer_range": 0.2,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }


def generate_samples(out: Path) -> None:
    """Makes every bundled sample anew under ``out``; the bytes are the same on every machine."""
    _generate_tiny_llama(out / "tiny-llama")


def _generate_tiny_llama(folder: Path) -> None:
    build_decoder(parse_config(tiny_llama_config()), folder, precision="fp32", weights=TINY_SEED)
    _write_config(folder, tiny_llama_config())
    write_tokenizer(folder, VOCABULARY)


def _write_config(folder: Path, config: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8", newline="\n")

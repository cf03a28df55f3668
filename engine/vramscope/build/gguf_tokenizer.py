"""A ``tokenizer.json`` and its settings, rebuilt from a GGUF file's byte-level BPE vocabulary."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from vramscope.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    from gguf import GGUFReader

CONTROL = 3
"""GGUF's token type of special tokens such as ``<|im_start|>``."""


def write_gguf_tokenizer(folder: Path, tokenizer: Tokenizer, reader: GGUFReader, context: int) -> None:
    """Writes ``tokenizer.json`` and ``tokenizer_config.json`` (with the chat template) into ``folder``."""
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = json.dumps(_settings(reader, context), indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8", newline="\n")


def build_tokenizer(reader: GGUFReader) -> Tokenizer:
    """Byte-level BPE that splits off each digit first, as SmolLM's does.

    Raises:
        ModelFileError: the file's tokenizer is of another kind, or a part of it is missing.
    """
    kind = (field(reader, "tokenizer.ggml.model"), field(reader, "tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ModelFileError(
            what="the GGUF file's tokenizer",
            why=f"it is of kind {kind}",
            remedy="Only SmolLM's can be rebuilt",
        )
    tokens, merges = strings(reader, "tokenizer.ggml.tokens"), strings(reader, "tokenizer.ggml.merges")
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, pairs))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = field(reader, "tokenizer.ggml.token_type")
    assert isinstance(kinds, list)
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def _settings(reader: GGUFReader, context: int) -> dict[str, object]:
    tokens = strings(reader, "tokenizer.ggml.tokens")
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    named = {
        f"{role}_token": tokens[whole(reader, f"tokenizer.ggml.{key}_token_id")]
        for role, key in roles.items()
    }
    return {
        **named,
        "chat_template": field(reader, "tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def field(reader: GGUFReader, name: str) -> object:
    """A metadata value.

    Raises:
        ModelFileError: the file has none of that name.
    """
    found = reader.get_field(name)
    if found is None:
        raise ModelFileError(
            what=f"metadata {name}",
            why="the GGUF file has none",
            remedy="Use a complete Llama-shaped GGUF file",
        )
    value: object = found.contents()
    return value


def whole(reader: GGUFReader, name: str) -> int:
    """A metadata value that must be an integer."""
    value = field(reader, name)
    if not isinstance(value, int):
        raise ModelFileError(
            what=f"metadata {name}", why=f"it is {value!r}", remedy="It must be a whole number"
        )
    return value


def strings(reader: GGUFReader, name: str) -> list[str]:
    """A metadata value that must be a list of strings."""
    value = field(reader, name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ModelFileError(
            what=f"metadata {name}", why="it is no list of strings", remedy="Use another file"
        )
    return value

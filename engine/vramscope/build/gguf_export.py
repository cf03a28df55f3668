"""A Llama-shaped GGUF file as an ONNX decoder folder of our own making."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguf import GGUFReader

from vramscope.build.config import DecoderConfig, Rope
from vramscope.build.decoder_graph import precision_named, write_decoder
from vramscope.build.folder import Filling, write_folder
from vramscope.build.genai import write_genai_config
from vramscope.build.gguf_tokenizer import build_tokenizer, field, whole, write_gguf_tokenizer
from vramscope.build.gguf_weights import gguf_fill
from vramscope.build.work import in_background, never, silent
from vramscope.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.build.work import Cancel, Progress


def export_gguf(
    gguf: Path, out: Path, precision: str, *, progress: Progress = silent, cancel: Cancel = never
) -> None:
    """Writes a Llama-shaped GGUF file as an ONNX decoder folder with its tokenizer.

    Raises:
        ModelFileError: not a readable GGUF file, not Llama-shaped, or blocks that q4 cannot keep.
    """
    progress("read", 0, 0)
    try:
        reader = in_background(lambda: GGUFReader(gguf), cancel)
    except (OSError, ValueError) as error:
        raise ModelFileError(
            what=str(gguf), why=f"it is not a readable GGUF file: {error}", remedy="Fetch it again"
        ) from error
    config = gguf_config(reader)
    graph = write_decoder(config, precision_named(precision, config))
    filling = Filling(f"from {gguf.name}", gguf_fill(reader, config))
    tokenizer = in_background(lambda: build_tokenizer(reader), cancel)
    write_gguf_tokenizer(out, tokenizer, reader, config.max_positions)
    write_genai_config(out, config)
    write_folder(out, graph, config.architecture, precision, filling, progress=progress, cancel=cancel)


def gguf_config(reader: GGUFReader) -> DecoderConfig:
    """The decoder's shape from a Llama-shaped GGUF file's metadata; no own LM head means tied embeddings.

    Raises:
        ModelFileError: another architecture, or metadata is missing.
    """
    if field(reader, "general.architecture") != "llama":
        raise ModelFileError(
            what="the GGUF file's architecture",
            why=f"it is {field(reader, 'general.architecture')!r}",
            remedy="Use a Llama-shaped file",
        )
    layers, heads = whole(reader, "llama.block_count"), whole(reader, "llama.attention.head_count")
    hidden, rotary = whole(reader, "llama.embedding_length"), whole(reader, "llama.rope.dimension_count")
    rope = Rope(theta=_number(reader, "llama.rope.freq_base"))
    return DecoderConfig(
        architecture="llama",
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=whole(reader, "llama.attention.head_count_kv"),
        head_size=hidden // heads,
        intermediate_size=whole(reader, "llama.feed_forward_length"),
        vocabulary=whole(reader, "llama.vocab_size"),
        max_positions=whole(reader, "llama.context_length"),
        windows=(0,) * layers,
        rope=rope,
        sliding_rope=rope,
        rotary_size=rotary,
        attention_scale=(hidden // heads) ** -0.5,
        norm_epsilon=_number(reader, "llama.attention.layer_norm_rms_epsilon"),
        tie_embeddings=all(tensor.name != "output.weight" for tensor in reader.tensors),
        bos_token=whole(reader, "tokenizer.ggml.bos_token_id"),
        eos_tokens=(whole(reader, "tokenizer.ggml.eos_token_id"),),
        pad_token=whole(reader, "tokenizer.ggml.padding_token_id"),
    )


def _number(reader: GGUFReader, name: str) -> float:
    value = field(reader, name)
    if not isinstance(value, int | float):
        raise ModelFileError(what=f"metadata {name}", why=f"it is {value!r}", remedy="It must be a number")
    return float(value)

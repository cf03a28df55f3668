"""``vramscope sample smollm2``: SmolLM2-135M-Instruct as an ONNX decoder folder, made from its GGUF file."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gguf import GGUFReader

from vramscope.build.config import DecoderConfig, Rope
from vramscope.build.decoder import MODEL_FILE, Filling, write_folder
from vramscope.build.decoder_graph import precision_named, write_decoder
from vramscope.build.fetch import GGUF, default_cache, fetch_smollm2
from vramscope.build.genai import CONFIG_FILE
from vramscope.build.gguf_tokenizer import build_tokenizer, field, whole, write_gguf_tokenizer
from vramscope.build.gguf_weights import gguf_fill
from vramscope.build.work import in_background, never, silent
from vramscope.build.writer import DATA_FILE
from vramscope.errors import InputError, ModelFileError

if TYPE_CHECKING:
    from vramscope.build.work import Cancel, Progress

PRECISIONS = ("fp32", "fp16", "q4")
"""What SmolLM2 can be exported as; q4 keeps the file's own blocks, the others dequantise them."""

STAMP_FILE = "export.json"
REVISION = 1
"""Raised when the exported bytes change, so that an older folder in a cache is made anew."""

_FILES = (MODEL_FILE, DATA_FILE, CONFIG_FILE, "tokenizer.json", "tokenizer_config.json")


def export_smollm2(
    out: Path | None = None,
    precision: str = "fp32",
    *,
    cache: Path | None = None,
    progress: Progress = silent,
    cancel: Cancel = never,
) -> Path:
    """SmolLM2's folder in ``precision``: a complete one is returned as it is, else it is fetched and made.

    Args:
        out: the folder to make; None: a folder in the cache.
        precision: one of :data:`PRECISIONS`.
        cache: where the GGUF file is kept; None: the user's cache folder.
        progress: told stage ("download", "unpack", "check", "weights"), bytes done and in all.
        cancel: raises to stop; nothing half-made stays.

    Raises:
        InputError: unknown precision, no way to download, or ``out`` holds something else.
        ModelFileError: the downloaded file is not the expected one.
    """
    if precision not in PRECISIONS:
        raise InputError(
            what=f"precision {precision!r} of SmolLM2",
            why="there is no such export",
            remedy=f"Use one of {', '.join(PRECISIONS)}",
        )
    cache = cache or default_cache()
    folder = out or cache / f"smollm2-135m-instruct-{precision}"
    if is_complete(folder, precision):
        return folder
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(what=str(out), why="it holds something else", remedy="Give a new or an empty folder")
    gguf = fetch_smollm2(cache, progress=progress, cancel=cancel)
    _export_beside(gguf, folder, precision, progress, cancel)
    return folder


def is_complete(folder: Path, precision: str) -> bool:
    """Whether ``folder`` holds a whole export of this revision and precision, file sizes included."""
    try:
        stamp = json.loads((folder / STAMP_FILE).read_text(encoding="utf-8"))
        return bool(stamp == _stamp(folder, precision))
    except (OSError, ValueError):
        return False


def _stamp(folder: Path, precision: str) -> dict[str, object]:
    sizes = {name: (folder / name).stat().st_size for name in _FILES}
    return {"source": GGUF, "revision": REVISION, "precision": precision, "sizes": sizes}


def _export_beside(gguf: Path, folder: Path, precision: str, progress: Progress, cancel: Cancel) -> None:
    """Makes the export in a folder of its own and moves it into place when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        export_gguf(gguf, staging, precision, progress=progress, cancel=cancel)
        (staging / STAMP_FILE).write_text(json.dumps(_stamp(staging, precision)) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        staging.chmod(0o777 & ~_umask())
        staging.replace(folder)
    except OSError:
        if not is_complete(folder, precision):  # another process may have finished the same export first
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _umask() -> int:
    """The process's file mode mask, which can be read only by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


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
    write_folder(out, config, graph, precision, filling, progress=progress, cancel=cancel)


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

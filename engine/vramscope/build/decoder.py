"""``vramscope build``: a decoder folder from a configuration, with random weights or with none at all."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from vramscope.build.decoder_graph import precision_named, write_decoder
from vramscope.build.folder import BuildReport, Filling, write_folder
from vramscope.build.genai import write_genai_config
from vramscope.build.random_weights import random_fill
from vramscope.build.work import never, silent
from vramscope.errors import InputError
from vramscope.graph.model import NO_WEIGHTS

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.build.config import DecoderConfig
    from vramscope.build.decoder_graph import Variation
    from vramscope.build.work import Cancel, Progress


def build_decoder(
    config: DecoderConfig,
    out: Path,
    *,
    precision: str = "fp16",
    weights: int | None = 0,
    tokenizer: Path | None = None,
    variation: Variation | None = None,
    progress: Progress = silent,
    cancel: Cancel = never,
) -> BuildReport:
    """Writes ``model.onnx``, its data file, ``genai_config.json`` and the given tokenizer into ``out``.

    Args:
        config: the decoder's shape.
        out: a folder; it is made when it is not there, and must not hold a model yet.
        precision: a key of ``decoder_graph.PRECISIONS``.
        weights: the seed of random weights, or None for a hole in the disk that only planning can use.
        tokenizer: a ``tokenizer.json`` to copy beside the model.
        variation: a sample's differences from the plain decoder.
        progress: told the stage "weights" and the bytes written.
        cancel: raises to stop; what was written so far is removed.

    Raises:
        InputError: unknown precision, extents that cannot be quantised, no such tokenizer, a negative seed,
            or ``out`` is in use or cannot be written.
    """
    if weights is not None and weights < 0:
        raise InputError(what="the seed", why=f"{weights} is negative", remedy="Give 0 or more")
    if tokenizer is not None and not tokenizer.is_file():
        raise InputError(what=str(tokenizer), why="there is no such file", remedy="Give a tokenizer.json")
    graph = write_decoder(config, precision_named(precision, config), variation)
    filling = Filling(NO_WEIGHTS, None)
    if weights is not None:
        filling = Filling(f"seed {weights}", random_fill(weights, config.initializer_range, cancel))
    report = write_folder(
        out, graph, config.architecture, precision, filling, progress=progress, cancel=cancel
    )
    write_genai_config(out, config)
    if tokenizer is not None:
        shutil.copyfile(tokenizer, out / "tokenizer.json")
    return report

"""``vramscope build``: a decoder folder from a configuration, with random weights or with none at all."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.build.decoder_graph import precision_named, write_decoder
from vramscope.build.genai import CONFIG_FILE, write_genai_config
from vramscope.build.random_weights import random_fill
from vramscope.build.weights import write_hole, write_weights
from vramscope.build.work import never, silent
from vramscope.build.writer import DATA_FILE
from vramscope.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.build.config import DecoderConfig
    from vramscope.build.decoder_graph import Variation
    from vramscope.build.weights import Fill
    from vramscope.build.work import Cancel, Progress
    from vramscope.build.writer import GraphWriter

MODEL_FILE = "model.onnx"

WEIGHTS_KEY = "vramscope.weights"
"""Metadata of the model file: ``none`` (a hole: for planning alone), ``seed N``, or where they are from."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What was written. ``weight_bytes`` is logical (a hole takes no disk); ``tensors`` are initializers."""

    folder: Path
    precision: str
    weights: str
    nodes: int
    tensors: int
    parameters: int
    weight_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Filling:
    """Where the weights' bytes come from (``fill`` None leaves a hole), and a tokenizer to copy.

    ``label`` says so in the model file's metadata, under :data:`WEIGHTS_KEY`.
    """

    label: str
    fill: Fill | None
    tokenizer: Path | None = None


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
        progress: told the stage and the bytes written.
        cancel: raises to stop; what was written so far is removed.

    Raises:
        InputError: unknown precision, extents that cannot be quantised, or ``out`` is in use.
    """
    label = "none" if weights is None else f"seed {weights}"
    fill = None if weights is None else random_fill(weights, config.initializer_range)
    graph = write_decoder(config, precision_named(precision, config), variation)
    filling = Filling(label, fill, tokenizer)
    return write_folder(out, config, graph, precision, filling, progress=progress, cancel=cancel)


def write_folder(
    out: Path,
    config: DecoderConfig,
    graph: GraphWriter,
    precision: str,
    filling: Filling,
    *,
    progress: Progress = silent,
    cancel: Cancel = never,
) -> BuildReport:
    """Writes a finished graph and its weights; the model file comes last, so a broken folder has none."""
    started = time.perf_counter()
    _claim(out)
    try:
        if filling.fill is None:
            write_hole(out / DATA_FILE, graph.size)
        else:
            write_weights(out / DATA_FILE, tuple(graph.weights), graph.size, filling.fill, progress, cancel)
        write_genai_config(out, config)
        if filling.tokenizer is not None:
            shutil.copyfile(filling.tokenizer, out / "tokenizer.json")
        metadata = {"vramscope.precision": precision, WEIGHTS_KEY: filling.label}
        model = graph.model(config.architecture, metadata)
        (out / MODEL_FILE).write_bytes(model.SerializeToString(deterministic=True))
    except BaseException:
        _discard(out)
        raise
    return _report(out, graph, precision, filling.label, time.perf_counter() - started)


def _claim(out: Path) -> None:
    """Makes the folder, and refuses one that already holds a model."""
    taken = [name for name in (MODEL_FILE, DATA_FILE) if (out / name).exists()]
    if taken or (out.exists() and not out.is_dir()):
        raise InputError(
            what=str(out),
            why=f"it already holds {taken[0]}" if taken else "it is a file, not a folder",
            remedy="Give another folder, or remove what is there",
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            what=str(out),
            why=f"it cannot be made: {error.strerror}",
            remedy="Give a folder you may write",
        ) from error


def _discard(out: Path) -> None:
    """Removes the files that an interrupted build left."""
    for name in (MODEL_FILE, DATA_FILE, CONFIG_FILE, "tokenizer.json"):
        with suppress(OSError):
            (out / name).unlink(missing_ok=True)


def _report(out: Path, graph: GraphWriter, precision: str, label: str, seconds: float) -> BuildReport:
    specs = [spec for weight in graph.weights for spec in weight.tensors]
    return BuildReport(
        folder=out,
        precision=precision,
        weights=label,
        nodes=len(graph.nodes),
        tensors=len(specs),
        parameters=sum(weight.rows * weight.columns for weight in graph.weights if weight.rope is None),
        weight_bytes=sum(spec.size for spec in specs),
        seconds=seconds,
    )

"""Writes a finished graph and its weights as a folder, and leaves no half-made one behind."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vramscope.build.weights import write_hole, write_weights
from vramscope.build.work import never, silent
from vramscope.build.writer import DATA_FILE
from vramscope.errors import InputError
from vramscope.graph.model import WEIGHTS_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.build.weights import Fill
    from vramscope.build.work import Cancel, Progress
    from vramscope.build.writer import GraphWriter

MODEL_FILE = "model.onnx"

PRECISION_KEY = "vramscope.precision"


@dataclass(frozen=True, slots=True)
class Filling:
    """Where the weights' bytes come from (``fill`` None leaves a hole), and what the file says of it."""

    label: str
    fill: Fill | None


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


def write_folder(
    out: Path,
    graph: GraphWriter,
    name: str,
    precision: str,
    filling: Filling,
    *,
    progress: Progress = silent,
    cancel: Cancel = never,
) -> BuildReport:
    """Writes the data file, then the model file (called ``name`` inside), into ``out``.

    Raises:
        InputError: ``out`` is in use, cannot be written, or the disk is too small.
    """
    started = time.perf_counter()
    _claim(out)
    try:
        _write_data(out / DATA_FILE, graph, filling.fill, progress, cancel)
        model = graph.model(name, {PRECISION_KEY: precision, WEIGHTS_KEY: filling.label})
        (out / MODEL_FILE).write_bytes(model.SerializeToString(deterministic=True))
    except OSError as error:
        discard(out)
        raise InputError(
            what=str(out), why=f"it cannot be written: {error.strerror}", remedy="Give another folder or disk"
        ) from error
    except BaseException:
        discard(out)
        raise
    return _report(out, graph, precision, filling.label, time.perf_counter() - started)


def _write_data(
    path: Path, graph: GraphWriter, fill: Fill | None, progress: Progress, cancel: Cancel
) -> None:
    if fill is None:
        write_hole(path, graph.size)
        return
    free = shutil.disk_usage(path.parent).free
    if free < graph.size:
        raise InputError(
            what=str(path.parent),
            why=f"the weights take {graph.size:,} bytes and the disk has {free:,} left",
            remedy="Build without weights to plan only, choose fewer bits, or another disk",
        )
    write_weights(path, tuple(graph.weights), graph.size, fill, progress, cancel)


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
            what=str(out), why=f"it cannot be made: {error.strerror}", remedy="Give a folder you may write"
        ) from error


def discard(out: Path) -> None:
    """Removes the two files that :func:`write_folder` makes."""
    for name in (MODEL_FILE, DATA_FILE):
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


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A folder beside ``folder`` to make things in; it takes ``folder``'s place when the block ends well.

    What stood there before is replaced; whatever goes wrong, nothing half-made stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        yield staging
        staging.chmod(0o777 & ~_umask())
        shutil.rmtree(folder, ignore_errors=True)
        staging.replace(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _umask() -> int:
    """The process's file mode mask, which can be read only by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask

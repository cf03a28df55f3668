"""The bundled samples: what each shows and where it is; listing them imports nothing heavy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from vramscope import resources
from vramscope.build.work import Cancel, Progress, never, silent
from vramscope.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


class SampleForm(Enum):
    """How a sample ships."""

    FOLDER = "folder"
    """Ready to open, in the resources."""
    CONFIG = "config"
    """A ``config.json`` alone; the model is built without weights when it is first opened."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One bundled sample: its folder's name, a title, what it shows and how it ships."""

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
    Sample(
        "unbounded-axis",
        "Reranker with an open axis",
        "Nothing bounds how many passages it scores: the plan is refused until the symbol has a maximum.",
        SampleForm.FOLDER,
    ),
    Sample(
        "declines",
        "Decoder that a graph cannot hold whole",
        "Each step has an If and a NonZero, which read values on the host: capture declines them.",
        SampleForm.FOLDER,
    ),
    Sample(
        "cannot-fit",
        "70B decoder",
        "131 GiB of 16-bit weights: see what fills the card, and what would make it fit.",
        SampleForm.CONFIG,
    ),
)
"""Every sample, the one to open first in front."""


def list_samples() -> tuple[Sample, ...]:
    """Every bundled sample, the one to open first in front."""
    return SAMPLES


def sample_folder(
    name: str, cache: Path | None = None, *, progress: Progress = silent, cancel: Cancel = never
) -> Path:
    """The folder to open for the sample called ``name``.

    A sample that ships as a configuration is built into ``cache`` (None: the user's cache folder) the first
    time; its weights are a hole in the disk.

    Raises:
        InputError: no such sample, or the cache cannot be written.
        ModelFileError: the installation has no resources.
    """
    sample = next((item for item in SAMPLES if item.name == name), None)
    if sample is None:
        known = ", ".join(item.name for item in SAMPLES)
        raise InputError(
            what=f"sample {name!r}", why="there is none of that name", remedy=f"Use one of {known}"
        )
    from vramscope.build.fetch import default_cache

    shipped = resources.folder() / "samples" / name
    if sample.form is SampleForm.FOLDER:
        return shipped
    return materialise(shipped / "config.json", name, cache or default_cache(), progress, cancel)


def materialise(config: Path, name: str, cache: Path, progress: Progress, cancel: Cancel) -> Path:
    """Builds ``config`` without weights as fp16 into ``cache`` unless that is there already.

    The folder's name carries a digest of the configuration, so a changed one is built anew.
    """
    from vramscope.build.config_reader import read_config
    from vramscope.build.decoder import build_decoder
    from vramscope.build.folder import MODEL_FILE, staged
    from vramscope.build.genai import CONFIG_FILE

    digest = hashlib.sha256(config.read_bytes()).hexdigest()[:12]
    folder = cache / "samples" / f"{name}-{digest}"
    if (folder / MODEL_FILE).is_file() and (folder / CONFIG_FILE).is_file():
        return folder
    with staged(folder) as staging:
        build_decoder(
            read_config(config), staging, precision="fp16", weights=None, progress=progress, cancel=cancel
        )
    return folder


def generate_samples(out: Path) -> None:
    """Makes every bundled sample anew under ``out``, byte for byte what ships in ``resources/samples``."""
    from vramscope.build.sample_models import MAKERS

    for sample in SAMPLES:
        MAKERS[sample.name](out / sample.name)

"""Samples by name: the bundled ones, and SmolLM2, which is fetched and exported the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.build.samples import list_samples, sample_folder
from vramscope.messages.model import SampleInfo

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.run.events import CancelCheck, Progress

SMOLLM2 = "smollm2"

FETCHED = (
    SampleInfo(name=SMOLLM2, title="SmolLM2 135M", shows="A real language model, fetched once (92 MB)."),
    SampleInfo(name=f"{SMOLLM2}-q4", title="SmolLM2 135M in 4 bits", shows="The same, losslessly in 4 bits."),
)
"""Samples that are not bundled. A precision may follow the name: ``smollm2-fp16``."""


def known_samples() -> list[SampleInfo]:
    """Every sample, the one to open first in front."""
    bundled = [SampleInfo(name=item.name, title=item.title, shows=item.shows) for item in list_samples()]
    return [*bundled, *FETCHED]


def is_sample(name: str) -> bool:
    """Whether :func:`find_sample` has something of this name."""
    return _precision(name) != "" or any(item.name == name for item in known_samples())


def find_sample(name: str, progress: Progress, cancel: CancelCheck) -> Path:
    """The folder of a sample, made first where it must be.

    Raises:
        InputError: there is none of this name, or it can neither be fetched nor written.
    """
    precision = _precision(name)
    if not precision:
        return sample_folder(name, progress=progress, cancel=cancel)
    from vramscope.build.smollm2 import export_smollm2

    return export_smollm2(None, precision, progress=progress, cancel=cancel)


def _precision(name: str) -> str:
    """The precision in ``smollm2-q4``; fp32 for ``smollm2`` itself, empty for other samples."""
    model, _, precision = name.partition("-")
    return (precision or "fp32") if model == SMOLLM2 else ""

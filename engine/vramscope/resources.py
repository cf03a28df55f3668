"""Where the files that ship beside the code are: icons, card catalogue, samples."""

from __future__ import annotations

from pathlib import Path

from vramscope.errors import ModelFileError


def folder() -> Path:
    """The ``resources`` folder: inside the package when installed, beside ``engine/`` in a checkout.

    Raises:
        ModelFileError: neither place has it, so the installation is incomplete.
    """
    here = Path(__file__).resolve().parent
    for candidate in (here / "resources", here.parents[1] / "resources"):
        if candidate.is_dir():
            return candidate
    raise ModelFileError(
        what="the resources folder",
        why=f"it is neither in {here} nor beside the source tree",
        remedy="Install VRAMScope again; the package is incomplete",
    )

"""Starts the window: arguments, display, theme, and the off-screen journey that ends in a picture."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope_app import DEFAULT_SAMPLE, NAME
from vramscope_app.place import HERE, Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_DISPLAY = """vramscope: there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set).
  vramscope-app --picture window.png  makes the journey off-screen and saves a picture of the window
  vramscope plan MODEL                prints the same plan in the terminal"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line of the window."""
    parser = argparse.ArgumentParser(prog="vramscope-app", description="The VRAMScope window.")
    parser.add_argument("path", nargs="?", default="", help="a .onnx file, a model folder or a saved report")
    parser.add_argument(
        "--sample", default="", metavar="NAME", help=f"a bundled sample (else {DEFAULT_SAMPLE})"
    )
    parser.add_argument(
        "--picture", default="", metavar="FILE.png", help="run off-screen, save a picture, end"
    )
    parser.add_argument("--theme", choices=("light", "dark", "system"), default="", help="colours")
    parser.add_argument(
        "--language", choices=("en", "de", "system"), default="", help="of the window; system: the desktop's"
    )
    parser.add_argument(
        "--card", default="", metavar="NAME", help="judge against a card, or an amount such as 6GiB"
    )
    parser.add_argument(
        "--on", type=_place, default=HERE, metavar="HOST", help="run the engine there, through ssh"
    )
    parser.add_argument("--context", type=_count, metavar="N", help="prompt and generated tokens together")
    parser.add_argument("--batch", type=_count, metavar="N", help="sequences decoded together")
    return parser.parse_args(arguments)


def _place(text: str) -> Place:
    try:
        return Place.parse(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def lacks_display(environment: Mapping[str, str], platform: str) -> bool:
    """Whether Qt would find nothing to draw on."""
    shown = any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))
    return platform.startswith("linux") and not shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the window.

    Returns:
        0, or 1 when there is no display or the journey failed.
    """
    options = parse(sys.argv[1:] if arguments is None else arguments)
    if options.picture:
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    elif lacks_display(os.environ, sys.platform):
        print(NO_DISPLAY, file=sys.stderr)
        return 1
    from vramscope_app.run import run

    return run(options, NAME)

"""``vramscope sample``, ``samples`` and ``build``: models on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.cli import screen
from vramscope.errors import InputError
from vramscope.run.events import never_cancelled
from vramscope.server.samples import SMOLLM2, find_sample, known_samples

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


class Made(msgspec.Struct, frozen=True):
    """The document of ``sample --json`` and ``build --json``."""

    path: str


def sample(arguments: argparse.Namespace) -> int:
    """Puts a sample on the disk and prints its folder."""
    meter = screen.Meter()
    if arguments.name == SMOLLM2:
        from vramscope.build.smollm2 import export_smollm2

        path = export_smollm2(
            arguments.out, precision=arguments.precision, progress=meter, cancel=never_cancelled
        )
    elif arguments.out is not None:
        why = f"{arguments.name} is bundled and stays where it is"
        raise InputError("--out", why, f"Use --out with {SMOLLM2} alone")
    else:
        path = find_sample(arguments.name, meter, never_cancelled)
    meter.clear()
    return _say(path, arguments)


def _say(path: Path, arguments: argparse.Namespace) -> int:
    if arguments.json:
        screen.print_json(Made(str(path)))
    else:
        print(path)
    return 0


def samples(arguments: argparse.Namespace) -> int:
    """Lists the samples."""
    listed = known_samples()
    if arguments.json:
        screen.print_json(listed)
        return 0
    cells = [(item.name, item.title, item.shows) for item in listed]
    screen.table(screen.console(), "", ("name", "title", "shows"), cells)
    return 0


def build(arguments: argparse.Namespace) -> int:
    """Makes a decoder from a configuration."""
    from vramscope.build.config_reader import read_config
    from vramscope.build.decoder import build_decoder

    meter = screen.Meter()
    build_decoder(
        read_config(arguments.config),
        arguments.out,
        precision=arguments.precision,
        weights=None if arguments.no_weights else arguments.seed,
        progress=meter,
        cancel=never_cancelled,
    )
    meter.clear()
    return _say(arguments.out, arguments)

"""``vramscope sample``, ``samples`` and ``build``: models on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.cli import screen
from vramscope.errors import InputError
from vramscope.run.events import never_cancelled

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

SMOLLM2 = "smollm2"


class Made(msgspec.Struct, frozen=True):
    """The document of ``sample --json`` and ``build --json``."""

    path: str


class Listed(msgspec.Struct, frozen=True):
    """One row of ``samples --json``."""

    name: str
    title: str
    shows: str


def sample(arguments: argparse.Namespace) -> int:
    """Puts a sample on the disk and prints its folder."""
    meter = screen.Meter()
    if arguments.name == SMOLLM2:
        path = _smollm2(arguments, meter)
    elif arguments.out is not None:
        raise InputError(
            "--out", f"{arguments.name} is bundled and stays where it is", f"Use --out with {SMOLLM2} alone"
        )
    else:
        from vramscope.build.samples import sample_folder

        path = sample_folder(arguments.name, progress=meter, cancel=never_cancelled)
    meter.clear()
    return _say(path, arguments)


def _smollm2(arguments: argparse.Namespace, meter: screen.Meter) -> Path:
    from vramscope.build.smollm2 import export_smollm2

    return export_smollm2(
        arguments.out, precision=arguments.precision, progress=meter, cancel=never_cancelled
    )


def _say(path: Path, arguments: argparse.Namespace) -> int:
    if arguments.json:
        screen.print_json(Made(str(path)))
    else:
        print(path)
    return 0


def samples(arguments: argparse.Namespace) -> int:
    """Lists the samples."""
    from vramscope.build.samples import list_samples

    rows = [Listed(item.name, item.title, item.shows) for item in list_samples()]
    rows.append(Listed(SMOLLM2, "SmolLM2 135M", "A real language model, fetched once (about 140 MB)."))
    if arguments.json:
        screen.print_json(rows)
        return 0
    cells = [(row.name, row.title, row.shows) for row in rows]
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

"""``vramscope gui``, ``serve`` and ``doctor``: what leads elsewhere."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope.programs import command_of

if TYPE_CHECKING:
    import argparse


def gui(arguments: argparse.Namespace) -> int:
    """Becomes the window.

    Raises:
        InputError: Qt is not installed.
    """
    command = command_of("vramscope_app")
    own = command[0] == sys.executable
    missing = [name for name in ("PySide6", "pyqtgraph") if own and find_spec(name) is None]
    if missing:
        raise InputError(
            "the window", f"{' and '.join(missing)} is not installed", "pip install 'vramscope[gui]'"
        )
    sys.stdout.flush()
    os.execv(command[0], [*command, *window_words(arguments)])


def window_words(arguments: argparse.Namespace) -> list[str]:
    """The window's own arguments: what was given here, passed on."""
    options = ("sample", "theme", "picture", "card", "context", "batch", "on")
    given = {name: getattr(arguments, name) for name in options}
    words = [f"--{name}={value}" for name, value in given.items() if value]
    return [*words, *(["--", arguments.model] if arguments.model else [])]


def serve(_arguments: argparse.Namespace) -> int:
    """Serves a window over standard input and output."""
    from vramscope.server.main import serve

    return serve()


def doctor(arguments: argparse.Namespace) -> int:
    """Prints what is installed, which devices answer and what is missing; 2 when the engine cannot work."""
    from vramscope.cli import screen
    from vramscope.doctor import examine

    report = examine()
    if arguments.json:
        screen.print_json({"engine_works": report.engine_works, "rows": report.rows})
    else:
        rows = [(row.name, row.state.value, row.detail, row.remedy) for row in report.rows]
        screen.table(screen.console(), "", ("what", "state", "detail", "remedy"), rows)
    return 0 if report.engine_works else 2

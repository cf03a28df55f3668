"""``vramscope``: imports only the one command that is asked for and turns every error into an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.cli.exit_codes import ExitCode
from vramscope.cli.parser import build_parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "gui": ("vramscope.cli.doors", "gui"),
        "serve": ("vramscope.cli.doors", "serve"),
        "doctor": ("vramscope.cli.doors", "doctor"),
        "inspect": ("vramscope.cli.inspecting", "inspect"),
        "plan": ("vramscope.cli.planning", "plan"),
        "compare": ("vramscope.cli.comparing", "compare"),
        "run": ("vramscope.cli.running", "run"),
        "demo": ("vramscope.cli.demonstrating", "demo"),
        "sample": ("vramscope.cli.making", "sample"),
        "samples": ("vramscope.cli.making", "samples"),
        "build": ("vramscope.cli.making", "build"),
    }
)
"""Module and function of every command; a module is imported only when its command runs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: the words after the program's name; those of the process when None.

    Returns:
        A member of :class:`ExitCode`.
    """
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.version:
        from vramscope.server.hello import engine_version

        print(f"vramscope {engine_version()}")
        return ExitCode.DONE
    if not arguments.command:
        parser.print_help()
        return ExitCode.DONE
    try:
        return _guarded(arguments)
    except KeyboardInterrupt:
        print("\ncancelled", file=sys.stderr, flush=True)
        if argv is None:
            # Everything is given back already; tearing the interpreter down would take longer than 200 ms.
            os._exit(ExitCode.CANCELLED)
        return ExitCode.CANCELLED


def _guarded(arguments: argparse.Namespace) -> int:
    module, function = COMMANDS[arguments.command]
    try:
        code = getattr(import_module(module), function)(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; the interpreter's own last flush must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE
    except Exception as error:
        from vramscope.cli.complaints import complain

        return complain(error, arguments)
    return int(code)

"""Errors on the screen: what, why, where and remedy on standard error, and the exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vramscope.cli.exit_codes import ExitCode
from vramscope.errors import InputError, OutOfBudgetError, VramscopeError
from vramscope.server.failures import error_info

if TYPE_CHECKING:
    import argparse


def complain(error: Exception, arguments: argparse.Namespace) -> int:
    """Tells the user; with ``--json`` standard output also gets a document ``{"error": …}``."""
    known = _known(error)
    info = error_info(known, f"vramscope {arguments.command}")
    print(info.text(), file=sys.stderr)
    if getattr(arguments, "json", False):
        from vramscope.cli.screen import print_json

        print_json({"error": info})
    if info.code == "Cancelled":
        return ExitCode.CANCELLED
    if isinstance(known, OutOfBudgetError):
        return ExitCode.SHORT
    return ExitCode.BAD_INPUT if isinstance(known, VramscopeError | MemoryError) else ExitCode.DEFECT


def _known(error: Exception) -> Exception:
    """A failed system call on a named file is bad input, not a defect."""
    if isinstance(error, OSError) and error.filename is not None:
        return InputError(str(error.filename), error.strerror or type(error).__name__)
    return error

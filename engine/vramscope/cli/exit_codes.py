"""What the command line's exit codes mean."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """128 and a signal's number where a signal ended the command, as shells count."""

    DONE = 0
    """Done, or it fits."""
    SHORT = 1
    """It does not fit, or grew by more than was allowed."""
    BAD_INPUT = 2
    """What was given cannot be used or planned."""
    DEFECT = 3
    """An error of VRAMScope's own."""
    CANCELLED = 130
    BROKEN_PIPE = 141

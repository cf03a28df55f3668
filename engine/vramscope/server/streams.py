"""File descriptors of the server: a private standard output, and whole writes."""

from __future__ import annotations

import os
import sys

READ_SIZE = 1 << 16
"""Bytes asked for in one read of standard input."""


def claim_stdout() -> int:
    """A private duplicate of file 1; file 1 itself becomes standard error.

    Whatever prints from then on, Python or a native library, lands on standard error and cannot corrupt the
    stream of frames.
    """
    sys.stdout.flush()
    private = os.dup(1)
    os.set_inheritable(private, False)
    os.dup2(2, 1)
    return private


def read_some(fd: int) -> bytes:
    """The next bytes of ``fd``, waiting for them; empty at its end."""
    return os.read(fd, READ_SIZE)


def write_all(fd: int, data: bytes) -> None:
    """Writes every byte.

    Raises:
        OSError: the other side is gone.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]

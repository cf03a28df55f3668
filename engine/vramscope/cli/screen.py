"""What commands print with: one JSON document, tables, and a progress line on standard error."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from vramscope.server.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from vramscope.messages.live import TokenInfo

WIDTH = 110
"""Columns of a table when the output is no terminal."""


def print_json(document: object) -> None:
    """One document on standard output; structs become objects."""
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def console() -> Console:
    """Standard output with colour on a terminal; plain and :data:`WIDTH` wide elsewhere."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, emoji=False, markup=False)


def table(
    out: Console, title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: str = ""
) -> None:
    """A table, or nothing without rows; ``right`` names the columns of numbers, by their index as digits."""
    listed = list(rows)
    if not listed:
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )
    for index, heading in enumerate(headings):
        numeric = str(index) in right
        made.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in listed:
        made.add_row(*(Text(cell) for cell in row))
    out.print(made)
    out.print()


REFRESH = 0.1
"""Seconds between two looks of the progress line on a terminal."""

PATIENCE = 2.0
"""Seconds after which a stage is worth a line where there is no terminal."""


class Meter:
    """One line of progress on standard error: rewritten on a terminal; elsewhere a line a slow stage."""

    def __init__(self) -> None:
        """Starts with nothing shown."""
        self._live = sys.stderr.isatty()
        self._stage = ""
        self._shown = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Shows how far ``stage`` is."""
        now, new = monotonic(), stage != self._stage
        if new:
            self._stage, self._shown = stage, now
        share = f" {100 * done // total} %" if total else ""
        if self._live and (new or done == total or now - self._shown >= REFRESH):
            self._shown = now
            print(f"\r\x1b[K{stage}{share}", end="", file=sys.stderr, flush=True)
        elif not self._live and now - self._shown >= PATIENCE:
            self._shown = now
            print(f"{stage}{share} …", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Takes the line away before other output."""
        if self._live and self._stage:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._stage = ""


def listener(meter: Meter, token: Callable[[TokenInfo], None] | None = None) -> Listener:
    """A listener that shows progress, and tokens where ``token`` is given. Ctrl-C needs no flag here."""
    return Listener(progress=meter) if token is None else Listener(progress=meter, token=token)

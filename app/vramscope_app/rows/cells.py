"""A cell and a row of any small table, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vramscope_app.text import exact_bytes, figure_text, figure_tip, short_bytes

if TYPE_CHECKING:
    from vramscope.messages.planning import BytesFigure


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: what it shows, its tooltip, tone (good, warning, bad, info, muted) and icon."""

    text: str
    tip: str = ""
    tone: str = ""
    icon: str = ""
    right: bool = False
    edit: str | None = None
    """The text to edit; None when the cell cannot be edited."""
    share: float = 0.0
    """How large it is beside the largest, −1 to 1, for a bar."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; ``key`` says which thing it is about, so that a newer row can replace it in place."""

    key: str
    cells: tuple[Cell, ...]
    node: str = ""
    """The node that the row can jump to."""
    detail: str = field(default="")
    """More lines, shown below the table when the row is chosen."""


@dataclass(frozen=True, slots=True)
class Heading:
    """One column of a table: its title, its width in characters, and what it means."""

    title: str
    width: int
    tip: str = ""
    right: bool = False


def bytes_cell(size: int | None) -> Cell:
    """Bytes, short, with every byte in the tooltip."""
    return Cell(short_bytes(size), exact_bytes(size), tone="muted" if size is None else "", right=True)


def figure_cell(figure: BytesFigure) -> Cell:
    """A figure with its certainty."""
    tone = "muted" if figure.bytes is None else ""
    return Cell(figure_text(figure), figure_tip(figure), tone=tone, right=True)


def count_cell(number: int) -> Cell:
    """A count, grouped by thousands."""
    return Cell(f"{number:,}", right=True)

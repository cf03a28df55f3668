"""Tables as CSV and Markdown: what the cells show, with every byte where the cell is short of it."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from vramscope.report.csv_cells import csv_cell
from vramscope_app.text import UNKNOWN
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_EXACT = re.compile(r"([+−≤ ]*)([0-9][0-9,]*) bytes")
_BYTES = re.compile(r"([+−]?)([0-9]+) B")
_PERCENT = re.compile(r"[0-9.]+%")
_COUNT = re.compile(r"−?[0-9]{1,3}(?:,[0-9]{3})*")


def is_nothing(text: str) -> bool:
    """Whether a text stands for no number."""
    return text in ("–", "—", "?", tr(UNKNOWN))


def csv_value(text: str, tip: str) -> int | str | None:
    """A cell for a program: every byte of a size, every digit of a part, a count without its commas.

    Nothing for what is unknown.
    """
    short = text.endswith("B") or is_nothing(text)
    found = (_EXACT.search(tip) or _BYTES.fullmatch(text)) if short else None
    if is_nothing(text) and found is None:
        return None
    if found is not None:
        size = int(found[2].replace(",", ""))
        return -size if "−" in found[1] else size
    if text.endswith("%"):
        exact = _PERCENT.search(tip)
        return exact[0] if exact is not None else text
    if _COUNT.fullmatch(text):
        return int(text.replace(",", "").replace("−", "-"))
    return text


def csv_table(headings: Sequence[str], rows: Iterable[Sequence[tuple[str, str]]]) -> str:
    """Rows of cells, each a text with its tip, under one heading line (RFC 4180)."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(map(csv_cell, headings))
    writer.writerows([csv_cell(csv_value(text, tip)) for text, tip in row] for row in rows)
    return out.getvalue()

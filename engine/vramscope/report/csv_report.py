"""A plan's node rows as CSV (RFC 4180): one line a node and phase, unknown bytes empty."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.report.document import PlanDocument

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet take a cell for a formula."""


def csv_text(document: PlanDocument) -> str:
    """The rows of every phase under one heading line."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("phase", *document.node_columns))
    for phase, rows in document.nodes.items():
        writer.writerows((csv_cell(phase), *map(csv_cell, row)) for row in rows)
    return out.getvalue()


def csv_cell(cell: int | str | None) -> str:
    """A number, nothing for an unknown one, or text that no spreadsheet takes for a formula."""
    if cell is None:
        return ""
    if isinstance(cell, int):
        return str(cell)
    return f"'{cell}" if cell.startswith(_FORMULA) else cell

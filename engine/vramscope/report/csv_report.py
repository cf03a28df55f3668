"""A plan's node rows as CSV (RFC 4180): one line a node and phase, unknown bytes empty."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from vramscope.report.csv_cells import csv_cell

if TYPE_CHECKING:
    from vramscope.report.document import PlanDocument


def csv_text(document: PlanDocument) -> str:
    """The rows of every phase under one heading line."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("phase", *document.node_columns))
    for phase, rows in document.nodes.items():
        writer.writerows((csv_cell(phase), *map(csv_cell, row)) for row in rows)
    return out.getvalue()

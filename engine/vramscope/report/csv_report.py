"""A plan's node rows as CSV (RFC 4180): one line a node and phase, what is unknown empty."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from vramscope.report.csv_cells import csv_cell
from vramscope.report.measured import COLUMNS, DECODE, measured

if TYPE_CHECKING:
    from vramscope.report.document import PlanDocument


def csv_text(document: PlanDocument) -> str:
    """The rows of every phase under one heading line."""
    out = io.StringIO()
    writer = csv.writer(out)
    found, step = measured(document.run), document.node_columns.index("step")
    writer.writerow(("phase", *document.node_columns, *(() if found is None else COLUMNS)))
    for phase, rows in document.nodes.items():
        for row in rows:
            more = () if found is None else found.cells(int(row[step] or 0) if phase == DECODE else -1)
            writer.writerow((csv_cell(phase), *map(csv_cell, row), *more))
    return out.getvalue()

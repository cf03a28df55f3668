"""A plan's node rows as CSV (RFC 4180): one line a node and phase, unknown bytes empty."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from vramscope.report.rows import COLUMNS, INTEGERS, node_cells

if TYPE_CHECKING:
    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import PlanInfo
    from vramscope.plan.types import Plan

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet take a cell for a formula."""


def csv_text(_model: ModelInfo, _info: PlanInfo, plan: Plan) -> str:
    """The rows of every phase under one heading line."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("phase", *COLUMNS))
    for phase in plan.phases:
        for row in phase.nodes:
            cells = zip(COLUMNS, node_cells(row, phase), strict=True)
            writer.writerow((phase.phase.value, *(_cell(name, cell) for name, cell in cells)))
    return out.getvalue()


def _cell(name: str, cell: int | str) -> str:
    """A number, nothing for an unknown one, or text that no spreadsheet takes for a formula."""
    if name in INTEGERS:
        return "" if cell == -1 else str(cell)
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text

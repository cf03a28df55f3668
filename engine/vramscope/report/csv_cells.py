"""One cell of a CSV file, for reports and for the window's tables alike."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet take a cell for a formula."""


def csv_cell(cell: int | str | None) -> str:
    """A number, nothing for an unknown one, or text that no spreadsheet takes for a formula."""
    if cell is None:
        return ""
    if isinstance(cell, int):
        return str(cell)
    return f"'{cell}" if cell.startswith(_FORMULA) else cell

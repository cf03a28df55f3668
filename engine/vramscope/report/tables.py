"""The node rows of a document as the tables that a plan's rows travel in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.messages.columns import CHUNK_ROWS, Column, TableChunk, integer_column, text_column
from vramscope.report.rows import COLUMNS, INTEGERS, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.report.document import PlanDocument


def document_tables(document: PlanDocument, ticket: int) -> Iterator[TableChunk]:
    """Every phase as table ``nodes:PHASE``, with the columns that this version knows."""
    for phase, rows in document.nodes.items():
        for start in range(0, max(len(rows), 1), CHUNK_ROWS):
            part = rows[start : start + CHUNK_ROWS]
            yield TableChunk(
                table=f"nodes:{phase}",
                ticket=ticket,
                start=start,
                rows=len(part),
                columns=[
                    _column(name, [row[place] for row in part])
                    for place, name in enumerate(document.node_columns)
                    if name in COLUMNS
                ],
                last=start + CHUNK_ROWS >= len(rows),
            )


def _column(name: str, cells: list[int | str | None]) -> Column:
    if name in INTEGERS:
        return integer_column(name, (cell if isinstance(cell, int) else UNKNOWN for cell in cells))
    return text_column(name, map(str, cells))

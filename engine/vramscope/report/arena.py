"""The blocks of each phase's arena as tables: where every value lies, and from which step to which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.messages.columns import CHUNK_ROWS, Column, TableChunk, integer_column, text_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramscope.graph.model import Model
    from vramscope.plan.arena import Placement
    from vramscope.plan.types import Plan

INSIDE = "(kept while a body runs)"
"""The name of a block that no value of the graph owns: what a control-flow node keeps for its bodies."""


def arena_tables(plan: Plan, model: Model, ticket: int) -> Iterator[TableChunk]:
    """Every phase as table ``arena:PHASE`` with columns value, offset, size, first and last, in chunks.

    A phase with a refused axis has no blocks: nobody knows where its values lie.
    """
    values = (plan.specialised or model).program.values
    for phase in plan.phases:
        blocks = () if phase.refusals else tuple(phase.arena.placements.values())
        names = [values[item.value].name if item.value >= 0 else INSIDE for item in blocks]
        for start in range(0, max(len(blocks), 1), CHUNK_ROWS):
            part = blocks[start : start + CHUNK_ROWS]
            yield TableChunk(
                table=f"arena:{phase.phase.value}",
                ticket=ticket,
                start=start,
                rows=len(part),
                columns=_columns(part, names[start : start + CHUNK_ROWS]),
                last=start + CHUNK_ROWS >= len(blocks),
            )


def _columns(blocks: Sequence[Placement], names: Sequence[str]) -> list[Column]:
    return [
        text_column("value", names),
        integer_column("offset", (item.offset for item in blocks)),
        integer_column("size", (item.size for item in blocks)),
        integer_column("first", (item.first for item in blocks)),
        integer_column("last", (item.last for item in blocks)),
    ]

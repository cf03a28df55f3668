"""The blocks of each phase's arena as tables: where every value lies, and from which step to which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.messages.columns import CHUNK_ROWS, Column, TableChunk, integer_column, text_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vramscope.graph.model import Model
    from vramscope.plan.arena import Placement
    from vramscope.plan.types import Plan

INSIDE = "(kept while a body runs)"
"""The name of a block that no value of the graph owns: what a control-flow node keeps for its bodies."""


Block = tuple[str, int, int, int, int]
"""A block's value, offset, size, first and last step."""


def arena_blocks(plan: Plan, model: Model) -> dict[str, list[Block]]:
    """Every phase's blocks; none in a phase with a refused axis: nobody knows where its values lie."""
    values = (plan.specialised or model).program.values

    def block(item: Placement) -> Block:
        name = values[item.value].name if item.value >= 0 else INSIDE
        return name, item.offset, item.size, item.first, item.last

    return {
        phase.phase.value: [] if phase.refusals else [block(item) for item in phase.arena.placements.values()]
        for phase in plan.phases
    }


def arena_tables(blocks: Mapping[str, Sequence[Block]], ticket: int) -> Iterator[TableChunk]:
    """Every phase as table ``arena:PHASE`` with columns value, offset, size, first and last, in chunks."""
    for phase, rows in blocks.items():
        for start in range(0, max(len(rows), 1), CHUNK_ROWS):
            part = rows[start : start + CHUNK_ROWS]
            yield TableChunk(
                table=f"arena:{phase}",
                ticket=ticket,
                start=start,
                rows=len(part),
                columns=_columns(part),
                last=start + CHUNK_ROWS >= len(rows),
            )


def _columns(rows: Sequence[Block]) -> list[Column]:
    numbers = ("offset", "size", "first", "last")
    return [
        text_column("value", (row[0] for row in rows)),
        *(
            integer_column(name, (int(row[place]) for row in rows))
            for place, name in enumerate(numbers, start=1)
        ),
    ]

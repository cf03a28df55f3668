"""Node rows of a planned phase as columns, for the protocol's tables, CSV and HTML alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.messages.columns import CHUNK_ROWS, Column, TableChunk, integer_column, text_column
from vramscope.ops.table import TABLE
from vramscope.plan.types import Bounded, Exact, Refused
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramscope.plan.types import NodeRow, PhasePlan, Plan

INTEGERS = ("step", "weight_bytes", "output_bytes", "workspace_bytes", "live_bytes", "peak_bytes")
"""Columns of integers; −1 stands for unknown."""

COLUMNS = (
    "step",
    "name",
    "operator",
    "domain",
    "scope",
    "kernel",
    "input_shapes",
    "output_shapes",
    "certainty",
    "weight_bytes",
    "output_bytes",
    "workspace_bytes",
    "live_bytes",
    "peak_bytes",
)
"""The columns in order."""

UNKNOWN = -1
"""Stands for bytes that nobody knows."""

Cell = int | str


def shape_text(resolved: Exact | Bounded | Refused) -> str:
    """A shape as text: ``1×≤256×64`` with ``≤`` at a ceiling, ``scalar`` for rank 0, ``?(s)`` if refused."""
    if isinstance(resolved, Refused):
        return f"?({resolved.symbol})"
    ceilings = {axis for axis, _ in resolved.applied} if isinstance(resolved, Bounded) else set()
    extents = [
        f"≤{extent}" if axis in ceilings else str(extent) for axis, extent in enumerate(resolved.shape)
    ]
    return "×".join(extents) or "scalar"


def workspace_bytes(row: NodeRow) -> int:
    """Scratch of a node; unknown where its operator plans some and the shape of an input is refused."""
    spec = TABLE.get((row.domain, row.operator))
    planned = spec is not None and spec.workspace is not None
    refused = any(isinstance(shape, Refused) for shape in row.inputs)
    return UNKNOWN if planned and refused else row.workspace.bytes


def live_bytes(row: NodeRow, phase: PhasePlan) -> int:
    """Arena bytes alive at a node; unknown in a phase where some values have no size."""
    return UNKNOWN if phase.refusals else row.live_bytes


def peak_bytes(row: NodeRow, phase: PhasePlan) -> int:
    """A node's part of the bytes alive at the phase's peak; unknown where some values have no size."""
    return UNKNOWN if phase.refusals else row.peak_bytes


def bytes_text(size: int) -> str:
    """Bytes in words, and the word for bytes that nobody knows."""
    return "unknown" if size == UNKNOWN else format_bytes(size)


def node_cells(row: NodeRow, phase: PhasePlan) -> tuple[Cell, ...]:
    """One row of a phase in the order of :data:`COLUMNS`."""
    return (
        row.step,
        row.name,
        row.operator,
        row.domain,
        "/".join(row.scope),
        row.kernel,
        ", ".join(map(shape_text, row.inputs)),
        ", ".join(map(shape_text, row.outputs)),
        row.output_bytes.certainty.value,
        row.weight_bytes,
        UNKNOWN if row.output_bytes.bytes is None else row.output_bytes.bytes,
        workspace_bytes(row),
        live_bytes(row, phase),
        peak_bytes(row, phase),
    )


def node_columns(rows: Sequence[NodeRow], phase: PhasePlan) -> list[Column]:
    """Rows of a phase as columns of :data:`COLUMNS`."""
    cells = [node_cells(row, phase) for row in rows]
    return [_column(name, [row[index] for row in cells]) for index, name in enumerate(COLUMNS)]


def _column(name: str, values: list[Cell]) -> Column:
    if name in INTEGERS:
        return integer_column(name, map(int, values))
    return text_column(name, map(str, values))


def node_tables(plan: Plan, ticket: int) -> Iterator[TableChunk]:
    """Every phase as table ``nodes:prefill``, ``nodes:decode`` or ``nodes:run``, in chunks."""
    for phase in plan.phases:
        yield from _chunks(phase, ticket)


def _chunks(phase: PhasePlan, ticket: int) -> Iterator[TableChunk]:
    rows = phase.nodes
    for start in range(0, max(len(rows), 1), CHUNK_ROWS):
        part = rows[start : start + CHUNK_ROWS]
        yield TableChunk(
            table=f"nodes:{phase.phase.value}",
            ticket=ticket,
            start=start,
            rows=len(part),
            columns=node_columns(part, phase),
            last=start + CHUNK_ROWS >= len(rows),
        )

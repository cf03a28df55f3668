"""What no planned buffer holds: tensors in sequences, and what a CUDA driver takes beside the planned bytes.

That is its context, the rest of a page, code, and graphs. The context is measured when a device is opened;
the rest is a ceiling. Buffers lie side by side on pages of the driver, so that all of them together waste
less than one page; it takes memory for kernels and for executable graphs by whole pages too (an H200, driver
580: two or three for 19 modules and 217 nodes).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vramscope.plan.types import ComponentName, Figure
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.model import Program
    from vramscope.plan.types import Plan

CODE_BYTES = 8 * 2**20
"""Machine code of one decoder's kernels, cuBLASLt's among them, at most; with graphs 4 to 6 MiB were seen."""
NODE_BYTES = 4096
"""An executable graph takes less for one node."""


def outside_bytes(total: int, nodes: int, page: int) -> int:
    """What a driver takes at most beside its context.

    Args:
        total: planned bytes.
        nodes: of the largest phase.
        page: the driver's, in bytes.
    """
    return -total % page + -(-(CODE_BYTES + NODE_BYTES * nodes) // page) * page


def with_context(plan: Plan, taken: int, page: int) -> Plan:
    """``plan`` with the device context as a ceiling; it stays outside the total, as budgets do not hold it.

    Args:
        plan: for a device that is open.
        taken: bytes of the card that were in use before the first buffer.
        page: the driver's, in bytes; 0 where buffers do not share pages, and nothing is known.
    """
    if not page or plan.total.bytes is None:
        return plan
    beside = outside_bytes(plan.total.known, max(len(phase.nodes) for phase in plan.phases), page)
    detail = (
        f"{format_bytes(taken)} in use before the first buffer, at most {format_bytes(beside)} for the rest"
        " of a page, kernels and graphs; not in the total"
    )
    figure = Figure.of(taken + beside, bounded=True)
    rows = [
        replace(row, figure=figure, detail=detail) if row.name is ComponentName.CONTEXT else row
        for row in plan.components
    ]
    return replace(plan, components=tuple(rows))


def sequence_notes(program: Program) -> Iterator[str]:
    """A sentence for each sequence that the graph takes or gives: its tensors lie outside device memory."""
    ends = [*(("Input", item) for item in program.inputs), *(("Output", item) for item in program.outputs)]
    for end, item in ends:
        value = program.values[item]
        if value.is_sequence:
            yield f"{end} {value.name} is a sequence: its tensors lie in Python's memory and are not planned"

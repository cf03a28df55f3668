"""``vramscope run --profile``: what each node of the decode step took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.cli import screen
from vramscope.report.measured import slowest

if TYPE_CHECKING:
    from rich.console import Console

    from vramscope.messages.running import ProfileInfo
    from vramscope.report.document import PlanDocument

SHOWN_NODES = 12
"""Nodes in the table; ``--export FILE.csv`` has them all."""


def show_profile(out: Console, profile: ProfileInfo, document: PlanDocument) -> None:
    """The slowest nodes, the longest first."""
    nodes = slowest(document)
    rows = [item.cells for item in nodes[:SHOWN_NODES]]
    took = f"{profile.step_microseconds:,.0f} µs a step over {profile.steps} eager steps"
    title = f"Slowest {len(rows)} of {len(nodes)} timed nodes; {took}"
    screen.table(out, title, ("node", "operator", "µs", "of the step", "nodes fused"), rows, right="234")

"""What was measured of single nodes: microseconds and launches of the decode step, by the document's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.messages.reporting import RunRecord
    from vramscope.report.document import PlanDocument

DECODE = "decode"
"""The phase whose nodes are timed."""
COLUMNS = ("microseconds", "launch")
"""What a table of nodes has beside its own columns once a run was profiled."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Per step of the program the mean time, and the number of the launch that several nodes share."""

    microseconds: Mapping[int, float]
    launches: Mapping[int, int]

    def cells(self, step: int) -> tuple[float | str, int | str]:
        """Both of a node; empty where nothing is known."""
        time = self.microseconds.get(step)
        return "" if time is None else round(time, 3), self.launches.get(step, "")


def launches_of(groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """Steps to the number of their launch, from 1 on; a step of two launches belongs to the first."""
    found: dict[int, int] = {}
    for number, group in enumerate(groups, start=1):
        for step in group:
            found.setdefault(step, number)
    return found


def measured(run: RunRecord | None) -> Measured | None:
    """What a run's profile tells; None without one."""
    if run is None or run.profile is None:
        return None
    times = dict(zip(run.profile.nodes, run.profile.microseconds, strict=True))
    return Measured(times, launches_of(run.groups))


@dataclass(frozen=True, slots=True)
class SlowNode:
    """One line of a profile."""

    name: str
    operator: str
    microseconds: float
    share: float
    together: int
    """Nodes of its launch; 1 for a node by itself."""

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Name, operator, microseconds, share of the step, nodes of the launch."""
        together = str(self.together) if self.together > 1 else "–"
        return self.name, self.operator, f"{self.microseconds:,.1f}", f"{100 * self.share:.1f} %", together


def slowest(document: PlanDocument) -> list[SlowNode]:
    """The profiled nodes, those that took longest first."""
    run, found = document.run, measured(document.run)
    if run is None or run.profile is None or found is None:
        return []
    columns = document.node_columns
    step, name, operator = (columns.index(item) for item in ("step", "name", "operator"))
    sizes = {group[-1]: len(group) for group in run.groups}
    whole = run.profile.step_microseconds or 1.0
    rows = [row for row in document.nodes.get(DECODE, []) if row[step] in found.microseconds]
    nodes = [
        SlowNode(
            str(row[name]),
            str(row[operator]),
            found.microseconds[int(row[step] or 0)],
            found.microseconds[int(row[step] or 0)] / whole,
            sizes.get(int(row[step] or 0), 1),
        )
        for row in rows
    ]
    return sorted(nodes, key=lambda item: -item.microseconds)

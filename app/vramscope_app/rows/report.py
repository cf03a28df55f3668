"""A saved report in the place of a model: its name, its banner, and a plan that nobody can edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.live import EMPTY_SNAPSHOT
from vramscope.messages.slots import SlotsInfo
from vramscope_app.rows.verdict import Message
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope.messages.planning import PlanInfo
    from vramscope.messages.reporting import ReportInfo
    from vramscope_app.state import AppState

ENDING = ".vramscope.json"
"""Of a saved report."""


def is_report(path: str) -> bool:
    """Whether a path is that of a report; whether it is one, the engine says."""
    return path.lower().endswith(".json")


def read_only(plan: PlanInfo) -> PlanInfo:
    """The plan of a report: no maximum can be declared, for nothing could plan with it."""
    axes = [msgspec.structs.replace(axis, editable=False) for axis in plan.axes]
    return msgspec.structs.replace(plan, axes=axes)


def run_of(shown: ReportInfo) -> dict[str, object]:
    """Fields of the window's state that a report's run gives."""
    run = shown.run
    if run is None:
        return {"live": EMPTY_SNAPSHOT}
    return {
        "live": run.snapshot,
        "ran": run.scenario,
        "profile": run.profile,
        "slots": SlotsInfo(groups=run.groups),
    }


def report_message(state: AppState) -> Message:
    """That this is a report, where it is from, and what it cannot do."""
    if not state.report or state.model is None:
        return Message()
    run = tr(", with a run") if state.live.measured else ""
    title = tr("Saved report{run}: {report}", run=run, report=state.report)
    body = tr("Read-only: no model is open behind it. It was planned from {path}", path=state.model.path)
    return Message("info", "file", title, body)

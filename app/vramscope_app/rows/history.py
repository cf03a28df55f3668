"""Undo and redo of scenario edits as frozen data: a dragged slider is one edit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.messages.planning import ScenarioInfo

KEPT = 100
"""Edits that can be taken back."""
ONE_EDIT_SECONDS = 1.0
"""Changes of the same fields that follow each other faster are one edit."""
CLICKED = frozenset({"as_if"})
"""Fields that nothing drags: each change of them is an edit of its own."""


@dataclass(frozen=True, slots=True)
class History:
    """Scenarios before and after the one that is shown, the nearest last."""

    past: tuple[ScenarioInfo, ...] = ()
    future: tuple[ScenarioInfo, ...] = ()
    fields: frozenset[str] = frozenset()
    """What the newest edit changed."""
    seconds: float = 0.0
    """When it was made."""


def changed_fields(old: ScenarioInfo, new: ScenarioInfo) -> frozenset[str]:
    """Names of the fields that differ."""
    return frozenset(name for name in old.__struct_fields__ if getattr(old, name) != getattr(new, name))


def record(history: History, old: ScenarioInfo, new: ScenarioInfo, now: float) -> History:
    """The history after an edit at ``now`` seconds; what was taken back before is forgotten."""
    fields = changed_fields(old, new)
    dragged = fields == history.fields and not fields & CLICKED
    goes_on = bool(history.past) and dragged and now - history.seconds < ONE_EDIT_SECONDS
    past = history.past if goes_on else (*history.past, old)[-KEPT:]
    return History(past, (), fields, now)


def undo(history: History, current: ScenarioInfo) -> tuple[History, ScenarioInfo]:
    """The history and the scenario one edit earlier; both as they are when there is none."""
    if not history.past:
        return history, current
    *rest, earlier = history.past
    return replace(history, past=tuple(rest), future=(*history.future, current), fields=frozenset()), earlier


def redo(history: History, current: ScenarioInfo) -> tuple[History, ScenarioInfo]:
    """The history and the scenario one edit later; both as they are when there is none."""
    if not history.future:
        return history, current
    *rest, later = history.future
    return replace(history, past=(*history.past, current), future=tuple(rest), fields=frozenset()), later

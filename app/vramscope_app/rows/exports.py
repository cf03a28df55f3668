"""Other exports of a model that a scenario may assume: what differs, what it saves, how it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from vramscope.messages.planning import PlanInfo
    from vramscope_app.state import AppState

TITLES = {
    "fp16": marked("weights and activations in float16"),
    "last-logits": marked("logits of the last position alone"),
    "shared-kv": marked("past and present in one buffer"),
    "kv8": marked("KV cache in 8 bits"),
    "kv4": marked("KV cache in 4 bits"),
    "int4": marked("4-bit weights in matrix products"),
    "int4-zero-points": marked("4-bit weights with zero points in matrix products"),
    "unique-weights": marked("equal weights stored once"),
}
"""The engine's titles, by the ids that a scenario names."""

ACTIONS = (
    marked("Use float16 for weights and activations"),
    marked("Keep only the last position's logits"),
    marked("Share past and present in one buffer"),
    marked("Keep the KV cache in 8 bits"),
    marked("Keep the KV cache in 4 bits"),
    marked("Use 4-bit weights in matrix products"),
    marked("Use 4-bit weights with zero points in matrix products"),
    marked("Store equal weights once"),
)
"""The engine's titles of suggestions to export so."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """One thing that the scenario assumes of another export."""

    id: str
    title: str
    tip: str


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is assumed, and the bytes beside those of the file as it is; nothing where nothing is assumed."""

    items: tuple[Assumed, ...] = ()
    saved: str = ""
    saved_tip: str = ""
    comparable: bool = False
    """Whether there is a plan of it to compare."""
    editable: bool = True


def assumptions(state: AppState) -> Assumptions:
    """What the scenario assumes; of a saved report what its plan did."""
    plan = state.plan
    ids = plan.scenario.as_if if state.report and plan is not None else state.scenario.as_if
    if not ids:
        return Assumptions()
    hows = {item.id: item.how for item in plan.assumes} if plan is not None else {}
    items = tuple(Assumed(name, export_title(name), _tip(hows.get(name, ""))) for name in dict.fromkeys(ids))
    saved, tip = _saved(plan)
    planned = plan is not None and bool(plan.assumes)
    return Assumptions(items, saved, tip, planned and not state.report, not state.report)


def export_title(name: str) -> str:
    """What is different in an export, by its id."""
    return tr(TITLES[name]) if name in TITLES else name


def _tip(how: str) -> str:
    lines = [tr("How to export it so: {how}", how=how)] if how else []
    return "\n".join([*lines, tr("Click to plan without it")])


def _saved(plan: PlanInfo | None) -> tuple[str, str]:
    """Bytes against the file as it is, in short and exactly; empty where a total is unknown."""
    if plan is None or plan.as_it_is is None or plan.total.bytes is None:
        return "", ""
    less = plan.as_it_is - plan.total.bytes
    tip = tr("The file as it is takes {size}", size=exact_bytes(plan.as_it_is))
    if less >= 0:
        return tr("{size} less than the file as it is", size=short_bytes(less)), tip
    return tr("{size} more than the file as it is", size=short_bytes(-less)), tip

"""The component bar as numbers: what stands where, where the card ends, what is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.report.text import shown_components
from vramscope_app.text import figure_text, figure_tip, short_bytes
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.messages.planning import ComponentInfo, PlanInfo


@dataclass(frozen=True, slots=True)
class Block:
    """One component's stretch of the bar as fractions of its width; no stretch when unknown."""

    name: str
    start: float
    width: float
    known: bool
    tip: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The whole bar: blocks from the left, and the card's end (1 or less; 0: no card)."""

    blocks: tuple[Block, ...] = ()
    card: float = 0.0
    label: str = ""


EMPTY_BAR = Bar()


def plan_bar(plan: PlanInfo | None) -> Bar:
    """The planned components against the card."""
    if plan is None:
        return EMPTY_BAR
    available = plan.verdict.available
    known = sum(item.figure.bytes or 0 for item in plan.components)
    full = max(known, available or 0)
    word = tr("budget") if plan.scenario.budget is not None else tr("card")
    label = "" if available is None else f"{word} {short_bytes(available)}"
    return Bar(_blocks(plan.components, full), (available or 0) / full if full else 0.0, label)


def measured_bar(measured: Sequence[ComponentInfo], plan: PlanInfo | None) -> Bar:
    """The measured components on the scale of the plan's bar."""
    if not measured:
        return EMPTY_BAR
    planned = sum(item.figure.bytes or 0 for item in plan.components) if plan is not None else 0
    available = (plan.verdict.available or 0) if plan is not None else 0
    full = max(planned, available, sum(item.figure.bytes or 0 for item in measured))
    return Bar(_blocks(measured, full))


def _blocks(components: Sequence[ComponentInfo], full: int) -> tuple[Block, ...]:
    blocks, start = [], 0.0
    for item in shown_components(components):
        size = item.figure.bytes
        width = size / full if size and full else 0.0
        blocks.append(Block(item.name, start, width, size is not None, _tip(item)))
        start += width
    return tuple(blocks)


def _tip(item: ComponentInfo) -> str:
    lines = (f"{tr(item.name)}: {figure_tip(item.figure)}", item.detail)
    return "\n".join(line for line in lines if line)


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One component in the legend: planned and measured, in short and in full."""

    name: str
    planned: str
    certainty: str
    measured: str
    tip: str


def legend(plan: PlanInfo | None, measured: Sequence[ComponentInfo]) -> tuple[LegendEntry, ...]:
    """Every planned component that the model has, and those that were only measured.

    A component outside the allocator has no bytes there: that is not a measurement of 0.
    """
    planned = shown_components(plan.components) if plan is not None else []
    unmeasured = {item.name for item in planned if item.figure.bytes is None}
    seen: Mapping[str, ComponentInfo] = {
        item.name: item for item in measured if item.figure.bytes or item.name not in unmeasured
    }
    entries = [
        LegendEntry(
            item.name,
            figure_text(item.figure),
            item.figure.certainty,
            figure_text(seen[item.name].figure) if item.name in seen else "",
            _both_tips(item, seen.get(item.name)),
        )
        for item in planned
    ]
    names = {item.name for item in planned}
    extra = [item for item in shown_components(measured) if item.name not in names]
    return (*entries, *(LegendEntry(i.name, "–", "", figure_text(i.figure), _tip(i)) for i in extra))


def _both_tips(planned: ComponentInfo, measured: ComponentInfo | None) -> str:
    lines = [tr("planned {tip}", tip=_tip(planned))]
    if measured is not None:
        lines.append(tr("measured {tip}", tip=_tip(measured)))
    return "\n".join(lines)

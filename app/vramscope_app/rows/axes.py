"""Axes as rows and bars: each symbol's interval, what is in use of it now, and what is reserved ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope_app.rows.cells import Cell, Heading, Row
from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.planning import AxisInfo, PlanInfo

AXIS_HEADINGS = (
    Heading("Symbol", 20, "The name of the dimension in the model"),
    Heading("Low", 7, "The smallest extent", right=True),
    Heading("Maximum", 9, "The largest extent; double-click or press F2 to declare one", right=True),
    Heading("In use", 8, "Of an axis that grows with the text: the tokens there are now", right=True),
    Heading("Ahead", 9, "Reserved ahead: bytes of the KV cache that no token fills yet", right=True),
    Heading("Known as", 9, "exact, bound, or refused"),
    Heading("Because of", 13, "What bounds it"),
    Heading("Source", 32),
    Heading("Values", 7, "How many values have this dimension", right=True),
    Heading("First node", 34),
)
MAXIMUM_COLUMN = 2
"""The column of the axis table that can be edited."""


@dataclass(frozen=True, slots=True)
class AxisBar:
    """One symbol on a logarithmic scale from 0 to 1; ``end`` is 1 for an axis without a ceiling."""

    symbol: str
    start: float
    end: float
    current: float | None
    refused: bool
    certainty: str
    tip: str


def sorted_axes(plan: PlanInfo | None) -> list[AxisInfo]:
    """Refused ones first, else in the plan's order."""
    return sorted(plan.axes, key=lambda axis: not axis.refused) if plan is not None else []


def in_use(axis: AxisInfo, position: int) -> int | None:
    """The extent now; None where nothing runs or the axis does not grow with the text."""
    return position if position > 0 and axis.grows else None


def reserved_ahead(plan: PlanInfo, axis: AxisInfo, position: int) -> int | None:
    """Bytes of the KV cache beyond the tokens that are there; None as :func:`in_use`."""
    if in_use(axis, position) is None or not plan.kv_capacity:
        return None
    return max(plan.kv_capacity - position, 0) * plan.kv_bytes_per_token * plan.scenario.batch


def axis_rows(plan: PlanInfo | None, position: int = 0) -> list[Row]:
    """One row a symbol."""
    return [_axis_row(plan, axis, position) for axis in sorted_axes(plan)] if plan is not None else []


def _axis_row(plan: PlanInfo, axis: AxisInfo, position: int) -> Row:
    refused = bool(axis.refused)
    tone = "bad" if refused else ""
    why = axis.refused or "\n".join(axis.derivation) or axis.source
    maximum = tr("none") if axis.high is None else f"{axis.high:,}"
    used, ahead = in_use(axis, position), reserved_ahead(plan, axis, position)
    cells = (
        Cell(axis.symbol, why, tone, icon="refused" if refused else ""),
        Cell(f"{axis.low:,}", right=True),
        Cell(maximum, _maximum_tip(axis), tone, right=True, edit=_edit_text(axis)),
        Cell("–" if used is None else f"{used:,}", right=True, tone="muted" if used is None else ""),
        Cell("–", right=True, tone="muted")
        if ahead is None
        else Cell(short_bytes(ahead), exact_bytes(ahead), right=True),
        Cell(tr("refused") if refused else tr(axis.certainty), why, tone),
        Cell(axis.kind),
        Cell(axis.refused or axis.source, why, tone),
        Cell(f"{axis.uses:,}", right=True),
        Cell(axis.first_node, axis.first_node),
    )
    return Row(axis.symbol, cells, axis.first_node, _axis_detail(axis))


def _edit_text(axis: AxisInfo) -> str | None:
    if not axis.editable:
        return None
    return "" if axis.high is None else str(axis.high)


def _maximum_tip(axis: AxisInfo) -> str:
    if not axis.editable:
        return tr("The scenario or the model fixes this maximum")
    return tr("Double-click or press F2 to declare a maximum; empty takes it back")


def _axis_detail(axis: AxisInfo) -> str:
    if axis.refused:
        cure = tr("Declare a maximum for {symbol} to settle it", symbol=axis.symbol) if axis.editable else ""
        head = ". ".join(part for part in (f"{axis.symbol}: {axis.refused}", cure) if part)
    else:
        head = f"{axis.symbol}: {axis.source}"
    return "\n".join([head, *(f"    {line}" for line in axis.derivation)])


def axis_bars(plan: PlanInfo | None, position: int = 0) -> list[AxisBar]:
    """One bar a symbol, in the order of the rows."""
    axes = sorted_axes(plan)
    top = max((axis.high for axis in axes if axis.high is not None), default=1)
    return [_bar(axis, max(top, position, 2), position) for axis in axes]


def _bar(axis: AxisInfo, top: int, position: int) -> AxisBar:
    used = in_use(axis, position)
    end = 1.0 if axis.high is None else place_of(axis.high, top)
    return AxisBar(
        axis.symbol,
        min(place_of(axis.low, top), end),
        end,
        None if used is None else place_of(used, top),
        bool(axis.refused),
        axis.certainty,
        _bar_tip(axis, used),
    )


def _bar_tip(axis: AxisInfo, used: int | None) -> str:
    high = tr("no ceiling") if axis.high is None else f"{axis.high:,}"
    now = "" if used is None else tr("\n{used:,} in use now", used=used)
    return tr(
        "{symbol}: {low:,} to {high}{now}\n{refused}",
        symbol=axis.symbol,
        low=axis.low,
        high=high,
        now=now,
        refused=axis.refused or axis.source,
    )


def place_of(extent: int, top: int) -> float:
    """Where an extent stands: 0 for none, 1 for ``top``; each doubling is a step of the same width."""
    return min(math.log2(extent + 1) / math.log2(top + 1), 1.0)


def ticks(plan: PlanInfo | None) -> list[tuple[float, str]]:
    """Powers of 8 or so below the bars: where they stand, and what they are called."""
    highs: Sequence[int] = [axis.high for axis in sorted_axes(plan) if axis.high is not None]
    top = max([*highs, 2])
    found, extent = [], 1
    while extent <= top:
        found.append((place_of(extent, top), f"{extent:,}"))
        extent *= 16
    return found

"""The table of axes: every symbol of the program with its interval, its source and how that was derived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.expr import Interval, Symbol, derivation
from vramscope.plan.types import AxisRow, Certainty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.graph.model import Minted
    from vramscope.plan.index import Mention, PlanningIndex
    from vramscope.plan.sizes import SymbolRanges
    from vramscope.plan.symbols import PhaseBindings


def axis_rows(
    index: PlanningIndex,
    phases: Sequence[tuple[PhaseBindings, SymbolRanges]],
    minted: Mapping[str, Minted],
) -> tuple[AxisRow, ...]:
    """One row per symbol over all phases; refused ones first, then by name."""
    rows = [_row(name, mention, phases, minted) for name, mention in index.mentions.items()]
    return tuple(sorted(rows, key=lambda row: (not row.refused, row.symbol)))


def _row(
    name: str,
    mention: Mention,
    phases: Sequence[tuple[PhaseBindings, SymbolRanges]],
    minted: Mapping[str, Minted],
) -> AxisRow:
    intervals = [ranges.intervals.get(name) for _, ranges in phases]
    known = [item for item in intervals if item is not None]
    _bindings, ranges = phases[-1]
    kind = ranges.kinds.get(name, "")
    missing = len(known) < len(intervals)
    high = None if missing else max((item.high for item in known if item.high is not None), default=None)
    merged = Interval(min((item.low for item in known), default=0), high)
    sources = [f"{b.phase.value}: {r.sources[name]}" for b, r in phases if name in r.sources]
    origin = minted.get(name)
    lines = derivation(Symbol(name), ranges.intervals, ranges.sources)
    if origin is not None and origin.ceiling is not None:
        lines = (*derivation(origin.ceiling, ranges.intervals, ranges.sources), *lines)
    return AxisRow(
        symbol=name,
        low=merged.low,
        high=merged.high,
        certainty=_certainty(kind, missing=missing),
        kind=kind,
        source=_short_source(sources, ranges.sources.get(name, "")),
        derivation=lines,
        uses=mention.uses,
        first_node=mention.first_node,
        refused=_refusal(name, origin) if missing else "",
        editable=kind in ("", "ConfiguredMax"),
    )


def _certainty(kind: str, *, missing: bool) -> Certainty:
    if missing:
        return Certainty.UNKNOWN
    return Certainty.EXACT if kind == "Binding" else Certainty.BOUND


def _short_source(by_phase: list[str], last: str) -> str:
    distinct = {item.split(": ", 1)[1] for item in by_phase}
    return last if len(distinct) <= 1 else "; ".join(by_phase)


def _refusal(name: str, origin: Minted | None) -> str:
    if origin is None:
        return f"no input, capacity or declared maximum bounds {name}"
    why = origin.reason or "its extent depends on data"
    return f"{origin.operator} at {origin.node} decides {name} while it runs: {why}"

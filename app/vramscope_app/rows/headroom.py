"""The headroom chart as numbers: stacked components, other batches, the card's line, and where they cross."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.text import short_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vramscope.messages.headroom import HeadroomCurves
    from vramscope.messages.planning import ScenarioInfo

FAR = 3.0
"""A card that is so many times larger than everything drawn is told in words instead."""
ROOM = 1.12
OTHER_BATCHES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """One component and the top of its layer at each context, in bytes; NaN where it is unknown."""

    name: str
    top: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Crossing:
    """The largest context of a batch that fits."""

    batch: int
    context: int
    bytes: float


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Everything that is drawn; stacks from the bottom up."""

    contexts: NDArray[np.float64]
    stacks: tuple[Stack, ...]
    lines: tuple[tuple[int, NDArray[np.float64]], ...]
    """Total bytes of every batch, the scenario's own first."""
    card: float | None
    card_text: str
    crossings: tuple[Crossing, ...]
    top: float
    """Where the vertical axis ends."""
    own: int
    """The scenario's context; 0 for the model's limit."""


def chart(curves: HeadroomCurves) -> Chart:
    """The chart of an answer."""
    contexts = np.array(curves.contexts, np.float64)
    stacks, base = [], np.zeros(len(contexts))
    for column in curves.components:
        base = base + _known(column.bytes)
        stacks.append(Stack(column.name, base))
    lines = tuple((line.batch, _known(line.totals)) for line in curves.lines)
    highest = float(np.nanmax(np.concatenate([base, [1.0]])))
    available = curves.available
    near = available is not None and available <= FAR * highest
    top = ROOM * max(highest, float(available or 0) if near else 0.0)
    return Chart(
        contexts,
        tuple(stacks),
        lines,
        float(available) if near and available is not None else None,
        _card_text(curves.scenario, available, near=near),
        tuple(_crossings(curves)) if near else (),
        top,
        curves.scenario.context,
    )


def _known(sizes: list[int]) -> NDArray[np.float64]:
    found = np.array(sizes, np.float64)
    found[found < 0] = np.nan
    return found


def _card_text(scenario: ScenarioInfo, available: int | None, *, near: bool) -> str:
    if available is None:
        return "Choose a card to see where it ends"
    name = scenario.card if scenario.budget is None else "budget"
    return f"{name} {short_bytes(available)}" + ("" if near else ", far above this chart: every context fits")


def _crossings(curves: HeadroomCurves) -> list[Crossing]:
    """Where a batch's total reaches the card; none where even the longest context fits."""
    found = []
    for line in curves.lines:
        last = curves.contexts[-1] if curves.contexts else 0
        if line.largest_context is not None and line.largest_context < last:
            found.append(Crossing(line.batch, line.largest_context, float(curves.available or 0)))
    return found


def other_batches(batch: int) -> list[int]:
    """Batches to compare with: one sequence, half, twice and four times as many."""
    wanted = dict.fromkeys((1, batch // 2, batch * 2, batch * 4))
    return [item for item in wanted if item >= 1 and item != batch][:OTHER_BATCHES]


def context_at(place: float, contexts: NDArray[np.float64]) -> int:
    """The context that a click at ``place`` means: round to the eye, within the chart."""
    low, high = int(contexts[0]), int(contexts[-1])
    grain = max(1, 1 << max((high - low).bit_length() - 8, 0))
    return max(low, min(high, round(place / grain) * grain))


def spoken(made: Chart) -> str:
    """The chart in words, for who cannot see it."""
    fits = (f"batch {item.batch} fits up to a context of {item.context:,}" for item in made.crossings)
    return "; ".join((made.card_text, *fits))

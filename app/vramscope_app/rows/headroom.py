"""The headroom chart as numbers: stacked components, other batches, the card's line, and where they cross."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.text import short_bytes
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vramscope.messages.headroom import HeadroomCurves, HeadroomLimit

FAR = 3.0
"""A card that is so many times larger than everything drawn is told in words instead."""
ROOM = 1.12
NEAR = 0.04
"""A click that is so near to a batch's line, as a part of the chart's height, means that batch."""


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


@dataclass(frozen=True, slots=True)
class CardLine:
    """A card or budget that is drawn, and where the batches cross it."""

    text: str
    bytes: float
    own: bool
    crossings: tuple[Crossing, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Everything that is drawn; stacks from the bottom up."""

    contexts: NDArray[np.float64]
    stacks: tuple[Stack, ...]
    lines: tuple[tuple[int, NDArray[np.float64]], ...]
    """Total bytes of every batch, the scenario's own first."""
    cards: tuple[CardLine, ...]
    words: str
    """About cards that are too far above to be drawn, or that there is none."""
    top: float
    """Where the vertical axis ends."""
    own: int
    """The scenario's context; 0 for the model's limit."""

    def batch_at(self, context: float, size: float) -> int:
        """The batch whose line passes by a place; the scenario's own when none does."""
        near: list[tuple[float, int]] = []
        for batch, totals in self.lines:
            passed = abs(float(np.interp(context, self.contexts, totals)) - size)
            near.append((passed, batch) if passed <= NEAR * self.top else (np.inf, batch))
        distance, batch = min(near, key=lambda item: item[0])
        return batch if np.isfinite(distance) else self.lines[0][0]


def chart(curves: HeadroomCurves) -> Chart:
    """The chart of an answer."""
    contexts = np.array(curves.contexts, np.float64)
    stacks, base = [], np.zeros(len(contexts))
    for column in curves.components:
        base = base + _known(column.bytes)
        stacks.append(Stack(column.name, base))
    lines = tuple((line.batch, _known(line.totals)) for line in curves.lines)
    highest = float(np.nanmax(np.concatenate([base, [1.0]])))
    near = [place for place, limit in enumerate(curves.limits) if limit.available <= FAR * highest]
    drawn = [_card_line(curves, place) for place in near]
    return Chart(
        contexts,
        tuple(stacks),
        lines,
        tuple(drawn),
        _card_words(curves, near),
        ROOM * max([highest, *(line.bytes for line in drawn)]),
        curves.scenario.context,
    )


def _known(sizes: list[int]) -> NDArray[np.float64]:
    found = np.array(sizes, np.float64)
    found[found < 0] = np.nan
    return found


def _card_words(curves: HeadroomCurves, near: list[int]) -> str:
    if not curves.limits:
        return tr("Choose a card to see where it ends")
    far = [limit_text(limit) for place, limit in enumerate(curves.limits) if place not in near]
    return tr("{cards}: far above this chart, every context fits", cards=", ".join(far)) if far else ""


def limit_text(limit: HeadroomLimit) -> str:
    """A card or budget with its bytes."""
    return f"{limit.name.removeprefix('GeForce ')} {short_bytes(limit.available)}"


def _card_line(curves: HeadroomCurves, place: int) -> CardLine:
    """A card with the contexts where totals reach it; none where even the longest context fits."""
    limit, last = curves.limits[place], curves.contexts[-1] if curves.contexts else 0
    found = []
    for line in curves.lines:
        edge = line.largest_contexts[place]
        if edge is not None and edge < last:
            found.append(Crossing(line.batch, edge, float(limit.available)))
    return CardLine(limit_text(limit), float(limit.available), limit.own, tuple(found))


def context_at(place: float, contexts: NDArray[np.float64]) -> int:
    """The context that a click at ``place`` means: round to the eye, within the chart."""
    low, high = int(contexts[0]), int(contexts[-1])
    grain = max(1, 1 << max((high - low).bit_length() - 8, 0))
    return max(low, min(high, round(place / grain) * grain))


def spoken(made: Chart) -> str:
    """The chart in words, for who cannot see it."""
    fits = (
        tr(
            "in {text} batch {batch} fits up to a context of {context:,}",
            text=card.text,
            batch=item.batch,
            context=item.context,
        )
        for card in made.cards
        for item in card.crossings
    )
    cards = ", ".join(card.text for card in made.cards)
    return "; ".join(part for part in (cards, made.words, *fits) if part)

"""The headroom chart: components over context, other batches as lines, the card's line, a click to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from vramscope_app.panels.card_picker import CardPicker
from vramscope_app.panels.ticks import AXIS_WIDTH, byte_spacing, byte_ticks
from vramscope_app.rows.headroom import CardLine, Chart, chart, context_at, spoken
from vramscope_app.text import short_bytes
from vramscope_app.theme import component_colour
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.headroom import HeadroomCurves
    from vramscope_app.look import Look

WAIT_MILLISECONDS = 120
WORD_LINES = 2
"""More would leave a low chart no room; the tip has them all."""
LABEL_STEP = 0.19
"""The names of cards stand beside each other, so many parts of the width apart: their lines may be close."""
NAME_ROOM = 0.14
"""Part of the chart's height around a card's line where its name and its crossing's may stand."""
LABEL_BELOW = 0.8
"""A line above this part of the chart's height has its words below: above there is no room."""
LABEL_CEILING, LABEL_HIGH = 0.82, 26
"""A name stands above a point below this part of the chart's height, and takes so many pixels."""
SAME_PLACE = 0.02
NAME_WIDE, LINE_HIGH = 66, 18
"""Pixels that a batch's name takes."""
EMPTY = marked("The chart of a decoder's memory over its context appears here once it is planned")


def token_ticks(values: Sequence[float], _scale: float, _spacing: float) -> list[str]:
    """Tick texts of an axis of tokens."""
    return [f"{value:,.0f}" for value in values]


def near_a_card(made: Chart, size: float) -> bool:
    """Whether a name at so many bytes would run into a card's."""
    return any(abs(size - card.bytes) < NAME_ROOM * made.top for card in made.cards)


class HeadroomPanel(QWidget):
    """Draws the newest answer; asks for a newer one while it can be seen."""

    wanted = Signal(object)
    """Curves for the plan of now are wanted, with these cards beside its own (a list of names)."""
    chosen = Signal(int, int)
    """The context that was clicked, and the batch."""
    compared = Signal(object)
    """Other cards were chosen to compare with (a list of names)."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self.drawn: Chart | None = None
        self._seen = False
        self._placed_below = LABEL_CEILING
        """Where names were placed when the chart was drawn."""
        self._names: list[tuple[float, float]] = []
        """Where names of batches begin and stand, in tokens and bytes."""
        self.plot = pg.PlotWidget()
        self._words = QLabel(tr(EMPTY))
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(WAIT_MILLISECONDS)
        self._timer.timeout.connect(self._ask)
        self.cards = CardPicker()
        self.cards.changed.connect(self._compare)
        self._build()
        self.set_look(look)

    def _build(self) -> None:
        self._words.setProperty("role", "muted")
        self._words.setObjectName("headroom_words")
        self._words.setContentsMargins(6, 2, 6, 2)
        self._words.setWordWrap(True)
        self._words.setMaximumHeight(WORD_LINES * self._words.fontMetrics().lineSpacing() + 4)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._words, 1)
        row.addWidget(self.cards)
        layout.addLayout(row)
        layout.addWidget(self.plot, 1)
        item = self.plot.getPlotItem()
        item.hideButtons()
        item.setMenuEnabled(False)
        item.getViewBox().setMouseEnabled(x=False, y=False)
        item.getViewBox().sigResized.connect(self._resized)
        item.getAxis("left").setWidth(AXIS_WIDTH)
        item.getAxis("left").tickStrings = byte_ticks
        item.getAxis("left").tickSpacing = byte_spacing
        item.getAxis("bottom").tickStrings = token_ticks
        item.getAxis("bottom").setLabel(tr("context, tokens"))
        for side in ("left", "bottom"):
            item.getAxis(side).enableAutoSIPrefix(enable=False)
        self.plot.setAccessibleName(tr("Headroom over context"))
        self.plot.setToolTip(tr("Click to set the context; on another batch's line that batch too"))
        self.plot.scene().sigMouseClicked.connect(self._clicked)
        self.plot.hide()

    def _ask(self) -> None:
        self.wanted.emit(self.cards.chosen)

    def _compare(self) -> None:
        self.compared.emit(self.cards.chosen)
        self.ask_soon()

    def ask_soon(self) -> None:
        """The plan is another one: asks for its curves unless nobody sees them."""
        if self._seen:
            self._timer.start()

    def set_seen(self, seen: bool) -> None:
        """Whether its tab is in front; seen again, perhaps the plan changed meanwhile."""
        self._seen = seen
        self.ask_soon()

    def set_curves(self, curves: HeadroomCurves | None) -> None:
        """Draws an answer; nothing for None."""
        self.drawn = None if curves is None else chart(curves)
        self.plot.setVisible(curves is not None)
        self._draw()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        theme = look.theme
        self.plot.setBackground(theme.base)
        for side in ("left", "bottom"):
            axis = self.plot.getAxis(side)
            axis.setPen(QColor(theme.border))
            axis.setTextPen(QColor(theme.muted))
        self.plot.getAxis("bottom").setLabel(tr("context, tokens"), color=theme.muted)
        self._draw()

    def _draw(self) -> None:
        self.plot.clear()
        made = self.drawn
        if made is None:
            self._words.setText(tr(EMPTY))
            return
        self._placed_below, self._names = self._ceiling(), []
        self._words.setText(self._legend(made))
        self._words.setToolTip(self._words.text())
        self.plot.setAccessibleDescription(spoken(made))
        for stack in reversed(made.stacks):
            self._fill(made, stack.top, QColor(component_colour(stack.name)))
        for order, (batch, totals) in enumerate(made.lines[1:]):
            self._line(made, batch, totals, 3 * order)
        step = float(made.contexts[-1] - made.contexts[0]) * LABEL_STEP
        for place, card in enumerate(sorted(made.cards, key=lambda card: -card.bytes)):
            self._draw_card(made, card, float(made.contexts[0]) + step * place)
        if made.own:
            pen = pg.mkPen(self._look.theme.text, width=1, style=Qt.PenStyle.DotLine)
            self.plot.addItem(pg.InfiniteLine(made.own, angle=90, pen=pen), ignoreBounds=True)
        first, last = float(made.contexts[0]), float(made.contexts[-1])
        self.plot.setXRange(first, last if last > first else first + 1, padding=0.01)
        self.plot.setYRange(0, made.top, padding=0)

    def _fill(self, made: Chart, top: Any, colour: QColor) -> None:  # noqa: ANN401 - pyqtgraph carries no types
        pen = pg.mkPen(self._look.theme.base, width=1)
        self.plot.plot(made.contexts, top, pen=pen, fillLevel=0, brush=colour, connect="finite")

    def _line(
        self,
        made: Chart,
        batch: int,
        totals: Any,  # noqa: ANN401 - pyqtgraph carries no types
        before: int,
    ) -> None:
        """Another batch; its name stands so many points before the end, beside those of others."""
        theme = self._look.theme
        pen = pg.mkPen(theme.text, width=1, style=Qt.PenStyle.DashLine)
        self.plot.plot(made.contexts, totals, pen=pen, connect="finite")
        inside = np.flatnonzero(totals <= made.top * self._ceiling())
        free = [point for point in inside.tolist() if not near_a_card(made, float(totals[point]))]
        inside = np.array(free, np.int64) if free else inside
        if len(inside):
            place = int(inside[max(len(inside) - 1 - before, len(inside) // 2)])
            self._name_line(made, batch, float(made.contexts[place]), float(totals[place]))

    def _name_line(self, made: Chart, batch: int, x: float, y: float) -> None:
        """A batch's name above a point of its line, unless another name stands there."""
        first, last = float(made.contexts[0]), float(made.contexts[-1])
        box = self.plot.getViewBox()
        high = LINE_HIGH / max(float(box.height()), 1.0) * made.top
        wide = NAME_WIDE / max(float(box.width()), 1.0) * (last - first)
        left = x - wide if x > first + wide else x
        if all(abs(left - other) > wide or abs(y - low) > high for other, low in self._names):
            self._names.append((left, y))
            anchor = (0.0 if left == x else 1.0, 1.0)
            self._label(tr("batch {batch}", batch=batch), x, y, anchor, self._look.theme.text)

    def _ceiling(self) -> float:
        """The part of the chart's height below which a name stands whole above its point."""
        high = max(float(self.plot.getViewBox().height()), 1.0)
        return min(LABEL_CEILING, max(1 - LABEL_HIGH / high, 0.5))

    def _resized(self) -> None:
        """Names stand elsewhere in a chart of another height."""
        if self.drawn is not None and abs(self._ceiling() - self._placed_below) > SAME_PLACE:
            self._draw()

    def _draw_card(self, made: Chart, card: CardLine, left: float) -> None:
        """A line at the card's end, its name, and a dot where each batch reaches it."""
        theme = self._look.theme
        colour = theme.bad if card.own else theme.info
        style = Qt.PenStyle.SolidLine if card.own else Qt.PenStyle.DashDotLine
        line = pg.InfiniteLine(card.bytes, angle=0, pen=pg.mkPen(colour, width=1, style=style))
        self.plot.addItem(line, ignoreBounds=True)
        above = card.bytes <= LABEL_BELOW * made.top
        self._label(card.text, left, card.bytes, (0.0, 1.0 if above else 0.0), colour)
        for crossing in card.crossings:
            spot = pg.ScatterPlotItem(
                [crossing.context],
                [crossing.bytes],
                size=9,
                pen=pg.mkPen(theme.base),
                brush=QColor(colour),
            )
            self.plot.addItem(spot, ignoreBounds=True)
            if crossing.batch == made.lines[0][0]:
                text = tr("fits to {context:,}", context=crossing.context)
                self._label(text, crossing.context, crossing.bytes, (0.5, 1.15 if above else -0.15), colour)

    def _label(self, text: str, x: float, y: float, anchor: tuple[float, float], colour: str) -> None:
        label = pg.TextItem(text, color=colour, anchor=anchor, fill=QColor(self._look.theme.base))
        label.setPos(x, y)
        self.plot.addItem(label, ignoreBounds=True)

    def _legend(self, made: Chart) -> str:
        squares = [
            f"<span style='color:{component_colour(stack.name)}'>■</span> {tr(stack.name)}"
            for stack in made.stacks
        ]
        batch, totals = made.lines[0]
        known = totals[~np.isnan(totals)]
        most = tr(", up to {most}", most=short_bytes(round(float(known.max())))) if len(known) else ""
        words = f" &nbsp;·&nbsp; {made.words}" if made.words else ""
        return tr(
            "batch {batch}{most} &nbsp; {parts}{words}",
            batch=batch,
            most=most,
            parts=" &nbsp; ".join(squares),
            words=words,
        )

    def choose_at(self, place: float, size: float) -> None:
        """A click: the context below it, and the batch whose line passes by."""
        if self.drawn is not None:
            context = context_at(place, self.drawn.contexts)
            self.chosen.emit(context, self.drawn.batch_at(context, size))

    def _clicked(self, event: Any) -> None:  # noqa: ANN401 - pyqtgraph carries no types
        if event.button() == Qt.MouseButton.LeftButton:
            place = self.plot.getViewBox().mapSceneToView(event.scenePos())
            self.choose_at(place.x(), place.y())

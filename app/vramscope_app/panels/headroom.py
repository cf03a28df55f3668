"""The headroom chart: components over context, other batches as lines, the card's line, a click to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from vramscope_app.panels.ticks import AXIS_WIDTH, byte_spacing, byte_ticks
from vramscope_app.rows.headroom import Chart, chart, context_at, spoken
from vramscope_app.text import short_bytes
from vramscope_app.theme import component_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.headroom import HeadroomCurves
    from vramscope_app.look import Look

WAIT_MILLISECONDS = 120
EMPTY = "The chart of a decoder's memory over its context appears here once it is planned"


def token_ticks(values: Sequence[float], _scale: float, _spacing: float) -> list[str]:
    """Tick texts of an axis of tokens."""
    return [f"{value:,.0f}" for value in values]


class HeadroomPanel(QWidget):
    """Draws the newest answer; asks for a newer one while it can be seen."""

    wanted = Signal()
    """Curves for the plan of now are wanted."""
    chosen = Signal(int)
    """The context that was clicked."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self.drawn: Chart | None = None
        self._seen = False
        self.plot = pg.PlotWidget()
        self._words = QLabel(EMPTY)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(WAIT_MILLISECONDS)
        self._timer.timeout.connect(self.wanted)
        self._build()
        self.set_look(look)

    def _build(self) -> None:
        self._words.setProperty("role", "muted")
        self._words.setObjectName("headroom_words")
        self._words.setContentsMargins(6, 2, 6, 2)
        self._words.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._words)
        layout.addWidget(self.plot, 1)
        item = self.plot.getPlotItem()
        item.hideButtons()
        item.setMenuEnabled(False)
        item.getViewBox().setMouseEnabled(x=False, y=False)
        item.getAxis("left").setWidth(AXIS_WIDTH)
        item.getAxis("left").tickStrings = byte_ticks
        item.getAxis("left").tickSpacing = byte_spacing
        item.getAxis("bottom").tickStrings = token_ticks
        item.getAxis("bottom").setLabel("context, tokens")
        for side in ("left", "bottom"):
            item.getAxis(side).enableAutoSIPrefix(enable=False)
        self.plot.setAccessibleName("Headroom over context")
        self.plot.setToolTip("Click to set the context")
        self.plot.scene().sigMouseClicked.connect(self._clicked)
        self.plot.hide()

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
        self.plot.getAxis("bottom").setLabel("context, tokens", color=theme.muted)
        self._draw()

    def _draw(self) -> None:
        self.plot.clear()
        made = self.drawn
        if made is None:
            self._words.setText(EMPTY)
            return
        self._words.setText(self._legend(made))
        self.plot.setAccessibleDescription(spoken(made))
        for stack in reversed(made.stacks):
            self._fill(made, stack.top, QColor(component_colour(stack.name)))
        for batch, totals in made.lines[1:]:
            self._line(made, batch, totals)
        self._draw_card(made)
        if made.own:
            pen = pg.mkPen(self._look.theme.text, width=1, style=Qt.PenStyle.DotLine)
            self.plot.addItem(pg.InfiniteLine(made.own, angle=90, pen=pen), ignoreBounds=True)
        first, last = float(made.contexts[0]), float(made.contexts[-1])
        self.plot.setXRange(first, last if last > first else first + 1, padding=0.01)
        self.plot.setYRange(0, made.top, padding=0)

    def _fill(self, made: Chart, top: Any, colour: QColor) -> None:  # noqa: ANN401 - pyqtgraph carries no types
        pen = pg.mkPen(self._look.theme.base, width=1)
        self.plot.plot(made.contexts, top, pen=pen, fillLevel=0, brush=colour, connect="finite")

    def _line(self, made: Chart, batch: int, totals: Any) -> None:  # noqa: ANN401 - pyqtgraph carries no types
        theme = self._look.theme
        pen = pg.mkPen(theme.text, width=1, style=Qt.PenStyle.DashLine)
        self.plot.plot(made.contexts, totals, pen=pen, connect="finite")
        inside = np.flatnonzero(totals <= made.top * 0.82)
        if len(inside):
            place = int(inside[-1])
            self._label(f"batch {batch}", float(made.contexts[place]), float(totals[place]), (1.0, 1.0))

    def _draw_card(self, made: Chart) -> None:
        if made.card is None:
            return
        pen = pg.mkPen(self._look.theme.bad, width=1)
        self.plot.addItem(pg.InfiniteLine(made.card, angle=0, pen=pen), ignoreBounds=True)
        self._label(made.card_text, float(made.contexts[0]), made.card, (0.0, 1.0), bad=True)
        for crossing in made.crossings:
            colour = QColor(self._look.theme.bad)
            spot = pg.ScatterPlotItem(
                [crossing.context],
                [crossing.bytes],
                size=9,
                pen=pg.mkPen(self._look.theme.base),
                brush=colour,
            )
            self.plot.addItem(spot, ignoreBounds=True)
            if crossing.batch == made.lines[0][0]:
                text = f"fits to {crossing.context:,}"
                self._label(text, crossing.context, crossing.bytes, (0.5, 1.15), bad=True)

    def _label(
        self, text: str, x: float, y: float, anchor: tuple[float, float], *, bad: bool = False
    ) -> None:
        theme = self._look.theme
        label = pg.TextItem(
            text, color=theme.bad if bad else theme.text, anchor=anchor, fill=QColor(theme.base)
        )
        label.setPos(x, y)
        self.plot.addItem(label, ignoreBounds=True)

    def _legend(self, made: Chart) -> str:
        squares = [
            f"<span style='color:{component_colour(stack.name)}'>■</span> {stack.name}"
            for stack in made.stacks
        ]
        batch, totals = made.lines[0]
        known = totals[~np.isnan(totals)]
        most = f", up to {short_bytes(round(float(known.max())))}" if len(known) else ""
        return f"batch {batch}{most} &nbsp; {' &nbsp; '.join(squares)} &nbsp;·&nbsp; {made.card_text}"

    def choose_at(self, place: float) -> None:
        """A click at a place of the horizontal axis."""
        if self.drawn is not None:
            self.chosen.emit(context_at(place, self.drawn.contexts))

    def _clicked(self, event: Any) -> None:  # noqa: ANN401 - pyqtgraph carries no types
        if event.button() == Qt.MouseButton.LeftButton:
            self.choose_at(self.plot.getViewBox().mapSceneToView(event.scenePos()).x())

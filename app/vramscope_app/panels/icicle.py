"""Bytes by scope: bars that a click widens, or that show their node; what is too narrow is not drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QShowEvent
from PySide6.QtWidgets import QComboBox, QWidget

from vramscope_app.panels.elided import ElidedLabel
from vramscope_app.panels.headed import lay_out
from vramscope_app.rows.icicle import COMPONENTS, MEASURES, icicle_of
from vramscope_app.theme import component_colour, luminance
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QPaintEvent

    from vramscope_app.look import Look
    from vramscope_app.rows.icicle import Icicle
    from vramscope_app.rows.nodes import NodeTable

EMPTY = marked("The bytes of scopes appear here once the model is planned")
HINT = marked("Click a scope to widen it, the top bar or Backspace to go back, a node to show it in the tree")
PHASE = "decode"
HIGH = 22
"""Pixels of a row at most."""
NARROWEST, LETTERS = 1.0, 34.0
"""Pixels from which a bar is drawn, and from which its name stands in it."""


def last_number(name: str) -> str:
    """The number that a scope of many ends in: of ``layers.31`` it is 31; empty for other names."""
    head, dot, tail = name.rpartition(".")
    return tail if head and dot and tail.isdecimal() else ""


class IcicleView(QWidget):
    """The bars of one icicle; a click widens a scope, or asks for a node."""

    hovered = Signal(str)
    jump = Signal(str)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self.icicle: Icicle | None = None
        self.top = 0
        """The bar that fills the width."""
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Bytes by scope"))
        self.setToolTip(tr(HINT))
        self.setMinimumHeight(4 * HIGH)

    def set_icicle(self, icicle: Icicle | None) -> None:
        """Shows other bars, all of them."""
        self.icicle, self.top = icicle, 0
        self.setAccessibleDescription(icicle.summary if icicle is not None else "")
        self.update()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self.update()

    def bar_at(self, place: QPointF) -> int:
        """The bar at a pixel; −1 for none."""
        icicle = self.icicle
        if icicle is None or not icicle.sizes[0]:
            return -1
        scale = int(icicle.sizes[self.top]) / max(self.width(), 1)
        return icicle.at(float(icicle.begins[self.top]) + place.x() * scale, int(place.y() // self._height()))

    def choose(self, bar: int) -> None:
        """What a click on a bar does: a scope is widened, the widened one goes back, a node is asked for."""
        icicle = self.icicle
        if icicle is None or bar < 0:
            return
        if icicle.nodes[bar]:
            self.jump.emit(icicle.nodes[bar])
            return
        self.top = max(int(icicle.parents[bar]), 0) if bar == self.top else bar
        self.update()

    def _height(self) -> float:
        rows = int(self.icicle.depths.max()) + 1 if self.icicle is not None else 1
        return min(HIGH, self.height() / rows)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Draws every bar that is wide enough to be seen."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._look.theme.base))
        icicle = self.icicle
        if icicle is None or not icicle.sizes[0]:
            return
        scale, high = self.width() / int(icicle.sizes[self.top]), self._height()
        lefts = np.maximum((icicle.begins - icicle.begins[self.top]) * scale, 0.0)
        rights = np.minimum((icicle.begins + icicle.sizes - icicle.begins[self.top]) * scale, self.width())
        for bar in np.flatnonzero(rights - lefts >= NARROWEST).tolist():
            area = QRectF(lefts[bar], int(icicle.depths[bar]) * high, rights[bar] - lefts[bar], high)
            self._paint_bar(painter, area.adjusted(0, 0, -0.5, -1), icicle, bar)

    def _paint_bar(self, painter: QPainter, area: QRectF, icicle: Icicle, bar: int) -> None:
        theme = self._look.theme
        colour = component_colour(COMPONENTS[icicle.measure]) if icicle.nodes[bar] else theme.raised
        painter.fillRect(area, QColor(colour))
        painter.setPen(QColor(theme.border))
        painter.drawRect(area)
        painter.setPen(QColor("#ffffff" if luminance(colour) < 0.35 else "#000000"))
        metrics = painter.fontMetrics()
        if area.width() >= LETTERS:
            room = area.adjusted(4, 0, -4, 0)
            text = metrics.elidedText(icicle.names[bar], Qt.TextElideMode.ElideMiddle, int(room.width()))
            painter.drawText(room, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), text)
            return
        number = last_number(icicle.names[bar])
        if number and metrics.horizontalAdvance(number) + 2 <= area.width():
            painter.drawText(area, int(Qt.AlignmentFlag.AlignCenter), number)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Says what is under the mouse."""
        bar = self.bar_at(event.position())
        self.hovered.emit(self.icicle.text(bar) if self.icicle is not None and bar >= 0 else "")

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        """Nothing is under the mouse any more."""
        self.hovered.emit("")
        super().leaveEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Widens or jumps."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.choose(self.bar_at(event.position()))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Backspace goes back to the scope above."""
        if event.key() == Qt.Key.Key_Backspace:
            self.choose(self.top)
        else:
            super().keyPressEvent(event)


class IciclePanel(QWidget):
    """The bars of a measure and the words about them."""

    jump = Signal(str)
    """The node whose bar was clicked."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._table: NodeTable | None = None
        self._shown: tuple[NodeTable | None, str] = (None, "")
        """What the bars were built of."""
        self.measure, self.words, self.view = QComboBox(), ElidedLabel(tr(EMPTY)), IcicleView(look)
        self.measure.setObjectName("icicle_measure")
        self.measure.setAccessibleName(tr("What the bars measure"))
        for key, title in MEASURES.items():
            self.measure.addItem(tr(title), key)
        self.words.setObjectName("icicle_words")
        lay_out(self, self.words, self.measure, self.view)
        self.measure.currentIndexChanged.connect(self._show)
        self.view.hovered.connect(self._say)
        self.view.jump.connect(self.jump)

    def set_tables(self, tables: Mapping[str, NodeTable]) -> None:
        """Shows another plan's nodes: those of a decode step, or of the only phase."""
        self._table = tables.get(PHASE) or next(iter(tables.values()), None)
        self._show()

    def _show(self) -> None:
        """Built when somebody looks: a large model has a hundred thousand bars."""
        measure = str(self.measure.currentData())
        built, of = self._shown
        if self.isVisible() and (built is not self._table or of != measure):
            self._shown = (self._table, measure)
            self.view.set_icicle(icicle_of(self._table, measure) if self._table is not None else None)
            self._say("")

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        """Builds what changed while nobody looked."""
        super().showEvent(event)
        self._show()

    def _say(self, text: str) -> None:
        icicle = self.view.icicle
        self.words.setText(text or (icicle.summary if icicle is not None else tr(EMPTY)))

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.view.set_look(look)

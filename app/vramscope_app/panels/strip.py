"""The segment strip: the program's steps from left to right, captured or eager by kind, and its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolTip, QWidget

from vramscope_app.panels.bar import Swatch
from vramscope_app.rows.segments import CAPTURED, Stretch, kind_words, kinds, short_words
from vramscope_app.theme import COMPONENT_COLOURS
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope_app.look import Look
    from vramscope_app.theme import Theme

HEIGHT = 18
SHORTEST = 2.0
"""Pixels of the shortest stretch: what is thinner could not be seen."""
_SOLID = Qt.BrushStyle.SolidPattern
_PATTERNS = {
    "HostControlFlowOrSequence": ("weights", Qt.BrushStyle.Dense4Pattern),
    "UnresolvedOutputShape": ("KV cache", Qt.BrushStyle.BDiagPattern),
    "UnresolvedInputShape": ("KV cache", Qt.BrushStyle.FDiagPattern),
    "ClassifierDisqualified": ("workspace", Qt.BrushStyle.DiagCrossPattern),
    "KernelNotWarmed": ("inputs and outputs", Qt.BrushStyle.HorPattern),
    "KernelCaptureUnsupported": ("KV cache", Qt.BrushStyle.CrossPattern),
}


def kind_brush(kind: str, theme: Theme) -> QBrush:
    """Colour and pattern of a kind: never the colour alone."""
    if kind == CAPTURED:
        return QBrush(QColor(theme.good), _SOLID)
    if kind in _PATTERNS:
        component, pattern = _PATTERNS[kind]
        return QBrush(QColor(COMPONENT_COLOURS[component]), pattern)
    return QBrush(QColor(theme.bad), Qt.BrushStyle.BDiagPattern)


class SegmentStrip(QWidget):
    """Every stretch of the program; a click on an eager one asks to jump to its node."""

    jump = Signal(str)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self.parts: list[Stretch] = []
        self.setObjectName("segments")
        self.setAccessibleName(tr("Segments of the captured program"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """As wide as there is room."""
        return QSize(300, HEIGHT)

    def set_parts(self, parts: list[Stretch]) -> None:
        """Shows other stretches."""
        self.parts = parts
        self.setAccessibleDescription("; ".join(part.words for part in parts[:50]))
        self.setVisible(bool(parts))
        self.update()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self.update()

    def areas(self) -> list[tuple[QRectF, Stretch]]:
        """Where every stretch is drawn; short ones are widened over what follows."""
        end = max((part.end for part in self.parts), default=1)
        scale, height = self.width() / end, self.height()
        return [
            (QRectF(part.start * scale, 0, max((part.end - part.start) * scale, SHORTEST), height), part)
            for part in self.parts
        ]

    def stretch_at(self, place: QPointF) -> Stretch | None:
        """The stretch at a place; the last one drawn wins."""
        return next((part for area, part in reversed(self.areas()) if area.contains(place)), None)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Paints the stretches, the eager ones over the captured ones."""
        painter = QPainter(self)
        theme = self._look.theme
        painter.fillRect(self.rect(), QColor(theme.base))
        for area, part in sorted(self.areas(), key=lambda item: item[1].kind != CAPTURED):
            painter.fillRect(area, QColor(theme.base))
            painter.fillRect(area, kind_brush(part.kind, theme))
            if area.width() > 3 * SHORTEST:
                painter.fillRect(QRectF(area.right() - 1, 0, 1, area.height()), QColor(theme.base))
        painter.setPen(QColor(theme.border))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(0.5, 0.5, self.width() - 1, self.height() - 1))
        painter.end()

    def event(self, event: QEvent) -> bool:
        """Tells what lies under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            part = self.stretch_at(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), part.words if part else "", self)
            return True
        return super().event(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Asks for the node under the mouse."""
        part = self.stretch_at(event.position())
        if part is not None and part.node:
            self.jump.emit(part.node)


class StripLegend(QWidget):
    """A swatch and a word for every kind of stretch that there is."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._kinds: list[tuple[str, int]] = []
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(5)
        self._row.addStretch(1)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(60)
        self._cells: list[tuple[Swatch, QLabel]] = []

    def set_parts(self, parts: list[Stretch]) -> None:
        """Shows the kinds of other stretches."""
        self._kinds = kinds(parts)
        while len(self._cells) < len(self._kinds):
            cell = (Swatch(), QLabel())
            cell[1].setProperty("role", "muted")
            for widget in cell:
                self._row.addWidget(widget)
            self._cells.append(cell)
        self._draw()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self._draw()

    def _draw(self) -> None:
        for place, (swatch, label) in enumerate(self._cells):
            shown = place < len(self._kinds)
            for widget in (swatch, label):
                widget.setVisible(shown)
            if shown:
                kind, count = self._kinds[place]
                swatch.set_brush(kind_brush(kind, self._look.theme))
                label.setText(f"{short_words(kind)} {count:,}")
                label.setToolTip(kind_words(kind))

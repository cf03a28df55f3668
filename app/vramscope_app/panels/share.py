"""The cells of the node tree, drawn by hand: text, colour, and a thin bar for a node's part of the largest.

A view asks a model for seven roles a cell and draws it through the style sheet; for a page of rows that is a
frame's time. This asks once and draws with three calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QStaticText
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from vramscope_app.models.rows_model import RIGHT

if TYPE_CHECKING:
    from collections.abc import Collection

    from PySide6.QtCore import QObject, QRect

    from vramscope_app.look import Look
    from vramscope_app.models.node_model import NodeModel
    from vramscope_app.models.rows_model import Index

SMALLEST_SHARE = 0.03
"""Smaller parts would be specks."""
OPACITY = 150
PADDING = 7
TONES = ("", "good", "warning", "bad", "info", "muted")
SELECTED = QStyle.StateFlag.State_Selected.value
KEPT_TEXTS = 4000
"""Texts whose layout is kept, to be drawn again."""


class NodeCellDelegate(QStyledItemDelegate):
    """Draws every column; those of ``shared`` have the bar below their text, from the right."""

    def __init__(self, model: NodeModel, shared: Collection[int], look: Look, parent: QObject) -> None:
        super().__init__(parent)
        self._model = model
        self._shared = frozenset(shared)
        self._laid: dict[tuple[str, int], tuple[QStaticText, int, int]] = {}
        self.set_look(look)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        theme = look.theme
        self._laid.clear()
        self._tones = {
            tone: QColor(look.tone(tone)) for tone in ("", "good", "warning", "bad", "info", "muted")
        }
        self._bar = QColor(theme.accent)
        self._bar.setAlpha(OPACITY)
        self._selection, self._selected = QColor(theme.selection), QColor(theme.selection_text)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Ground, text and bar."""
        text, tone, align = self._model.cell(index)
        area = option.rect
        chosen = option.state.value & SELECTED
        if chosen:
            painter.fillRect(area, self._selection)
        if text:
            painter.setPen(self._selected if chosen else self._tones[tone])
            self._write(painter, area, text, right=align == RIGHT)
        if index.column() in self._shared:
            self._paint_share(painter, area, self._model.share(index))

    def _write(self, painter: QPainter, area: QRect, text: str, *, right: bool) -> None:
        """The text in the middle of its room; what was laid out once is kept."""
        width = area.width() - 2 * PADDING
        laid = self._laid.get((text, 0)) or self._lay_out(painter, text, 0)
        if laid[1] > width:
            laid = self._laid.get((text, width)) or self._lay_out(painter, text, width, right=right)
        x = area.right() + 1 - PADDING - laid[1] if right else area.left() + PADDING
        painter.drawStaticText(x, area.top() + (area.height() - laid[2]) // 2, laid[0])

    def _lay_out(
        self, painter: QPainter, text: str, width: int, *, right: bool = False
    ) -> tuple[QStaticText, int, int]:
        """A text, elided for a width above 0, with its own width and height; a number keeps its beginning."""
        if len(self._laid) >= KEPT_TEXTS:
            self._laid.clear()
        metrics = painter.fontMetrics()
        mode = Qt.TextElideMode.ElideRight if right else Qt.TextElideMode.ElideMiddle
        shown = metrics.elidedText(text, mode, width) if width else text
        made = QStaticText(shown)
        made.setTextFormat(Qt.TextFormat.PlainText)
        made.prepare(font=painter.font())
        laid = (made, metrics.horizontalAdvance(shown), metrics.height())
        self._laid[text, width] = laid
        return laid

    def _paint_share(self, painter: QPainter, area: QRect, share: float) -> None:
        if share >= SMALLEST_SHARE:
            width = round((area.width() - 4) * share)
            painter.fillRect(area.right() - width, area.bottom() - 2, width, 2, self._bar)

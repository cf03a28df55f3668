"""The cells of the node tree, drawn by hand: text, colour, and a thin bar for a node's part of the largest.

A view asks a model for seven roles a cell and draws it through the style sheet; for a page of rows that is a
frame's time. This asks once and draws with three calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

if TYPE_CHECKING:
    from collections.abc import Collection

    from PySide6.QtCore import QObject

    from vramscope_app.look import Look
    from vramscope_app.models.node_model import NodeModel
    from vramscope_app.models.rows_model import Index

SMALLEST_SHARE = 0.03
"""Smaller parts would be specks."""
OPACITY = 150
PADDING = 7
TONES = ("", "good", "warning", "bad", "info", "muted")
SELECTED = QStyle.StateFlag.State_Selected


class NodeCellDelegate(QStyledItemDelegate):
    """Draws every column; those of ``shared`` have the bar below their text, from the right."""

    def __init__(self, model: NodeModel, shared: Collection[int], look: Look, parent: QObject) -> None:
        super().__init__(parent)
        self._model = model
        self._shared = frozenset(shared)
        self.set_look(look)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        theme = look.theme
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
        chosen = bool(option.state & SELECTED)
        if chosen:
            painter.fillRect(area, self._selection)
        if text:
            painter.setPen(self._selected if chosen else self._tones[tone])
            room = area.adjusted(PADDING, 0, -PADDING, 0)
            width, metrics = room.width(), option.fontMetrics
            if metrics.horizontalAdvance(text) > width:
                text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
            painter.drawText(room, align, text)
        if index.column() in self._shared:
            self._paint_share(painter, option, self._model.share(index))

    def _paint_share(self, painter: QPainter, option: QStyleOptionViewItem, share: float) -> None:
        if share >= SMALLEST_SHARE:
            area = option.rect
            width = round((area.width() - 4) * share)
            painter.fillRect(area.right() - width, area.bottom() - 2, width, 2, self._bar)

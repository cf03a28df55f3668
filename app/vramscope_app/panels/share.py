"""A cell with a thin bar below its text: how large a node's bytes are beside the largest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from vramscope_app.models.rows_model import SHARE_ROLE

if TYPE_CHECKING:
    from PySide6.QtCore import QObject, QRect

    from vramscope_app.models.rows_model import Index

SMALLEST_SHARE = 0.03
"""Smaller parts would be specks."""
OPACITY = 150


class ShareDelegate(QStyledItemDelegate):
    """Paints the bar as a line below the text, from the right."""

    def __init__(self, colour: str, parent: QObject) -> None:
        super().__init__(parent)
        self.set_colour(colour)

    def set_colour(self, colour: str) -> None:
        """Another colour."""
        self._colour = QColor(colour)
        self._colour.setAlpha(OPACITY)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """What the style paints, then the bar."""
        share = float(index.data(SHARE_ROLE) or 0.0)
        super().paint(painter, option, index)
        if share >= SMALLEST_SHARE:
            area: QRect = option.rect
            width = round((area.width() - 4) * share)
            painter.fillRect(area.right() - width, area.bottom() - 2, width, 2, self._colour)

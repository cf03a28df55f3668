"""A part of a whole as a bar with words on it; unlike Qt's progress bar it never paints at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

if TYPE_CHECKING:
    from vramscope_app.look import Look


class Gauge(QWidget):
    """Shows ``part``, 0 to 1, and words."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._part, self._words = 0.0, ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """A line of text high."""
        return QSize(120, self.fontMetrics().height() + 3)

    def show_part(self, part: float, words: str) -> None:
        """Shows another part; painted when the window paints next."""
        if (part, words) != (self._part, self._words):
            self._part, self._words = part, words
            self.setAccessibleDescription(words)
            self.update()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Paints frame, part and words."""
        painter = QPainter(self)
        theme = self._look.theme
        frame = QRectF(0.5, 0.5, self.width() - 1, self.height() - 1)
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.setBrush(QColor(theme.base))
        painter.drawRect(frame)
        inner = frame.adjusted(0.5, 0.5, -0.5, -0.5)
        inner.setWidth(inner.width() * min(max(self._part, 0.0), 1.0))
        painter.fillRect(inner, QColor(theme.selection))
        painter.setPen(QColor(theme.text))
        painter.drawText(frame, int(Qt.AlignmentFlag.AlignCenter), self._words)
        painter.end()

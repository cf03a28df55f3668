"""A label whose text changes many times a second without a new layout of the whole window."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget


class SteadyLabel(QWidget):
    """Room for a text of a given length around a label.

    A bare label tells every layout above it about each new text, up to the window's docks: 2 ms each time.
    """

    def __init__(self, name: str, characters: int, role: str = "") -> None:
        """``name``: of the label; ``characters``: how long the text may become; ``role``: in the theme."""
        super().__init__()
        self.label = QLabel(self)
        self.label.setObjectName(name)
        self.label.setProperty("role", role)
        self._characters = characters
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Room for the text, whatever it is now."""
        metrics = QFontMetrics(self.label.font())
        return QSize(metrics.averageCharWidth() * self._characters, metrics.height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """The label fills its room."""
        self.label.resize(event.size())

"""A label whose text changes many times a second without a new layout of the whole window."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget


class SteadyLabel(QWidget):
    """Room for a text of a given length around a label.

    A bare label tells every layout above it about each new text, up to the window's docks: 2 ms each time.
    """

    def __init__(self, name: str, characters: int, role: str = "", *, least: int = 0) -> None:
        """A label called ``name`` in a ``role`` of the theme.

        Args:
            name: object name of the label.
            characters: how long the text may become.
            role: how the theme draws it.
            least: characters that are never cut.
        """
        super().__init__()
        self.label = QLabel(self)
        self.label.setObjectName(name)
        self.label.setProperty("role", role)
        self._characters, self._least = characters, least
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Room for the text, whatever it is now."""
        return self._room(self._characters)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Room for what must not be cut."""
        return self._room(self._least)

    def _room(self, characters: int) -> QSize:
        metrics = QFontMetrics(self.label.font())
        return QSize(metrics.averageCharWidth() * characters, metrics.height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """The label fills its room."""
        self.label.resize(event.size())

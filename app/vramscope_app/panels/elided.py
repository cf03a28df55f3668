"""A line of words that ends in … where it does not fit, and words in the middle of a view without rows."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QLabel, QSizePolicy

SIDE = 12


class ElidedLabel(QLabel):
    """As narrow as it must be; what it leaves out is its tooltip then."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._full = self._tip = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setText(text)

    def text(self) -> str:
        """All of it, shown or not."""
        return self._full

    def setText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Another text."""
        if text != self._full:
            self._full = text
            self.setAccessibleName(text)
            self._fit()

    def setToolTip(self, tip: str) -> None:  # noqa: N802 - Qt's name
        """The tooltip while everything is shown."""
        self._tip = tip
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """More or less of it fits now."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        room = self.contentsRect().width()
        shown = self.fontMetrics().elidedText(self._full, Qt.TextElideMode.ElideRight, room)
        super().setText(shown)
        super().setToolTip(self._tip if shown == self._full else self._full)


class EmptyWords(QLabel):
    """What a view will show, or why it shows nothing, while its model has no rows."""

    def __init__(self, view: QAbstractItemView, text: str) -> None:
        super().__init__(text, view.viewport())
        self._view = view
        self.setWordWrap(True)
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setProperty("role", "muted")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        model = view.model()
        for signal in (model.modelReset, model.rowsInserted, model.rowsRemoved):
            signal.connect(self._follow)
        view.viewport().installEventFilter(self)
        self._follow()

    def _follow(self) -> None:
        self.setVisible(not self._view.model().rowCount())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Fills the view, whatever its size."""
        if isinstance(event, QResizeEvent):
            self.setGeometry(SIDE, 0, max(event.size().width() - 2 * SIDE, 0), event.size().height())
        return super().eventFilter(watched, event)

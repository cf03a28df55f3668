"""What runs just now, how far it is, and a button to stop it; hidden while nothing runs for long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QToolButton, QWidget

from vramscope_app.translation import tr

if TYPE_CHECKING:
    from PySide6.QtGui import QAction

    from vramscope_app.state import Busy

PATIENCE_MILLISECONDS = 150
"""Shorter work shows nothing: an indicator that flickers tells nothing."""


class BusyIndicator(QWidget):
    """Lives in the status bar."""

    def __init__(self, cancel: QAction) -> None:
        super().__init__()
        self.setObjectName("busy")
        self._busy: Busy | None = None
        self._label, self._bar = QLabel(), QProgressBar()
        self._bar.setFixedWidth(170)
        self._bar.setAccessibleName(tr("Progress"))
        button = QToolButton()
        button.setDefaultAction(cancel)
        button.setAutoRaise(True)
        button.setAccessibleName(tr("Cancel"))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(6, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self._label)
        layout.addWidget(self._bar)
        layout.addWidget(button)
        self._timer = QTimer(self)
        self._timer.setInterval(PATIENCE_MILLISECONDS)
        self._timer.timeout.connect(self._tick)
        self.setVisible(False)

    def set_busy(self, busy: Busy | None) -> None:
        """Shows another request, or nothing."""
        self._busy = busy
        if busy is None:
            self._timer.stop()
            self.setVisible(False)
        else:
            if not self._timer.isActive():
                self._timer.start()
            if self.isVisible():
                self._show()

    def _tick(self) -> None:
        self._show()
        self.setVisible(self._busy is not None)

    def _show(self) -> None:
        if self._busy is None:
            return
        self._label.setText(busy_text(self._busy, time.monotonic()))
        self._bar.setMaximum(self._busy.total)
        self._bar.setValue(self._busy.done)


def busy_text(busy: Busy, now: float) -> str:
    """What runs, its stage and for how long."""
    seconds = now - busy.call.sent
    stage = f": {busy.stage}" if busy.stage else ""
    tail = f" · {seconds:.0f} s" if seconds >= 1 else ""
    return f"{busy.title}{stage}{tail}"

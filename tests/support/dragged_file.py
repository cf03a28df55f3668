"""A small window from which a file is dragged: it stands for a file manager.

python -m dragged_file FILE
"""

from __future__ import annotations

import sys

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDrag, QMouseEvent, QPaintEvent
from PySide6.QtWidgets import QApplication, QLabel

PLACE = (960, 40, 200, 120)
"""Left, top, width and height on the screen."""


def tell_action(action: Qt.DropAction) -> None:
    """Says when what lies under the mouse would take the file."""
    if action is Qt.DropAction.CopyAction:
        print("welcome", flush=True)


class Draggable(QLabel):
    """A press begins to drag the file; tells on standard output when it can be pressed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path = path
        self._told = False

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Only what is on the screen is painted."""
        super().paintEvent(event)
        if not self._told:
            self._told = True
            print("shown", flush=True)

    def mousePressEvent(self, _event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Hands the file to whatever it is dropped on."""
        data, drag = QMimeData(), QDrag(self)
        data.setUrls([QUrl.fromLocalFile(self._path)])
        drag.setMimeData(data)
        drag.actionChanged.connect(tell_action)
        drag.exec(Qt.DropAction.CopyAction)


if __name__ == "__main__":
    application = QApplication(sys.argv)
    source = Draggable(sys.argv[1])
    source.setWindowFlag(Qt.WindowType.X11BypassWindowManagerHint)
    source.setGeometry(*PLACE)
    source.show()
    sys.exit(application.exec())

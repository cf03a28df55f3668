"""A small window from which a file is dragged: it stands for a file manager.

python -m dragged_file FILE
"""

from __future__ import annotations

import sys

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDrag, QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel

PLACE = (960, 40, 200, 120)
"""Left, top, width and height on the screen."""


class Draggable(QLabel):
    """A press begins to drag the file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path = path

    def mousePressEvent(self, _event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Hands the file to whatever it is dropped on."""
        data, drag = QMimeData(), QDrag(self)
        data.setUrls([QUrl.fromLocalFile(self._path)])
        drag.setMimeData(data)
        drag.exec(Qt.DropAction.CopyAction)


if __name__ == "__main__":
    application = QApplication(sys.argv)
    source = Draggable(sys.argv[1])
    source.setWindowFlag(Qt.WindowType.X11BypassWindowManagerHint)
    source.setGeometry(*PLACE)
    source.show()
    print("shown", flush=True)
    sys.exit(application.exec())

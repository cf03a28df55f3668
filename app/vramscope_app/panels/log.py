"""What the engine process wrote to its standard error."""

from __future__ import annotations

from PySide6.QtGui import QFontDatabase, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit

from vramscope_app.translation import tr

LONGEST_LOG = 5000
"""Lines kept."""


class LogPanel(QPlainTextEdit):
    """Appends text as it comes, in pieces of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("log")
        self.setAccessibleName(tr("Engine log"))
        self.setReadOnly(True)
        self.setMaximumBlockCount(LONGEST_LOG)
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setPlaceholderText(tr("The engine wrote nothing"))

    def add_text(self, text: str) -> None:
        """Appends and stays at the end."""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text)
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

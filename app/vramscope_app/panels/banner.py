"""A banner: colour, icon and text together say one thing, with room for a button."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from vramscope_app.rows.verdict import Message

if TYPE_CHECKING:
    from vramscope_app.look import Look

ICON_SIZE = 26


def restyle(widget: QWidget) -> None:
    """Makes the style sheet look at a widget's properties again."""
    widget.style().unpolish(widget)
    widget.style().polish(widget)


class Banner(QFrame):
    """One message; buttons are added by its owner."""

    def __init__(self, name: str, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setProperty("banner", True)
        self._look = look
        self._message = Message()
        self._icon, self._title, self._body = QLabel(), QLabel(), QLabel()
        self._title.setProperty("role", "heading")
        self._body.setProperty("role", "muted")
        for label in (self._title, self._body):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        font = self._title.font()
        font.setPointSizeF(font.pointSizeF() + 1.0)
        self._title.setFont(font)
        self._lay_out()

    def _lay_out(self) -> None:
        texts = QVBoxLayout()
        texts.setSpacing(1)
        texts.addWidget(self._title)
        texts.addWidget(self._body)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(12, 7, 10, 7)
        self._row.setSpacing(11)
        self._row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignVCenter)
        self._row.addLayout(texts, 1)

    def add_button(self, button: QWidget) -> None:
        """Puts a button at the right."""
        self._row.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)

    def show_message(self, message: Message) -> None:
        """Shows a message; the same message again changes nothing."""
        if message == self._message:
            return
        self._message = message
        self._title.setText(message.title)
        self._body.setText(message.body)
        self._body.setVisible(bool(message.body))
        self.setAccessibleName(message.title)
        self.setAccessibleDescription(message.body)
        self.setProperty("tone", message.tone)
        restyle(self)
        self._draw_icon()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self._draw_icon()

    def _draw_icon(self) -> None:
        tone = self._look.tone(self._message.tone)
        ratio = self.devicePixelRatioF()
        self._icon.setPixmap(self._look.icons.picture(self._message.icon, tone, ICON_SIZE, ratio))


def push_button(text: str, name: str, tip: str) -> QPushButton:
    """A plain button with a name for tests and screen readers."""
    button = QPushButton(text)
    button.setObjectName(name)
    button.setToolTip(tip)
    button.setAccessibleName(text)
    return button

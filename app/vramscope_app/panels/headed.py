"""A panel of one view with words about it and a chooser above."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout

if TYPE_CHECKING:
    from PySide6.QtWidgets import QComboBox, QWidget

    from vramscope_app.panels.elided import ElidedLabel


def lay_out(panel: QWidget, words: ElidedLabel, chooser: QComboBox, view: QWidget) -> None:
    """Lays out a panel; where it is narrow the words are cut, the chooser is not."""
    words.setProperty("role", "muted")
    bar = QHBoxLayout()
    bar.setContentsMargins(6, 2, 0, 0)
    bar.addWidget(words, 1)
    bar.addWidget(chooser)
    layout = QVBoxLayout(panel)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(2)
    layout.addLayout(bar)
    layout.addWidget(view, 1)

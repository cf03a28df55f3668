"""A panel of one view with words about it and a chooser above."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout

if TYPE_CHECKING:
    from PySide6.QtWidgets import QComboBox, QLabel, QWidget


def lay_out(panel: QWidget, words: QLabel, chooser: QComboBox, view: QWidget) -> None:
    """Lays out a panel; the words may be cut where it is narrow, the chooser is never."""
    words.setProperty("role", "muted")
    words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    bar = QHBoxLayout()
    bar.setContentsMargins(6, 2, 0, 0)
    bar.addWidget(words, 1)
    bar.addWidget(chooser)
    layout = QVBoxLayout(panel)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(2)
    layout.addLayout(bar)
    layout.addWidget(view, 1)

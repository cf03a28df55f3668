"""The allocations dock: counts by component, and beside them what became of the memory slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from vramscope_app.panels.elided import ElidedLabel
from vramscope_app.panels.table import TablePanel
from vramscope_app.rows.slots import MEMORY_HEADINGS, memory_rows, memory_words
from vramscope_app.rows.tables import COUNTER_HEADINGS, counter_rows, level_rows
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope.messages.live import SnapshotInfo
    from vramscope.messages.slots import SlotChangeInfo
    from vramscope_app.look import Look


class CounterPanel(QWidget):
    """Two tables side by side."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._shown: object = None
        self.table = TablePanel(
            "counters",
            tr("Allocations"),
            COUNTER_HEADINGS,
            look,
            empty=tr("Bytes of every component are counted here once the model runs"),
        )
        self.slots = TablePanel("memory_slots", tr("History of memory slots"), MEMORY_HEADINGS, look)
        self.words = ElidedLabel(memory_words([]))
        self.words.setProperty("role", "muted")
        self.words.setContentsMargins(6, 4, 6, 4)
        right = QWidget()
        column = QVBoxLayout(right)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.words)
        column.addWidget(self.slots, 1)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(self.table)
        split.addWidget(right)
        split.setSizes([560, 460])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(split)

    def set_snapshot(self, now: SnapshotInfo) -> None:
        """Shows the newest counts, and what lies around them."""
        shown = (now.counters, now.leases, now.left, now.phase_peaks)
        if shown != self._shown:
            self._shown = shown
            self.table.set_rows([*counter_rows(now.counters), *level_rows(now)])

    def set_history(self, changes: list[SlotChangeInfo]) -> None:
        """Shows what became of the memory slots."""
        self.words.setText(memory_words(changes))
        self.slots.set_rows(memory_rows(changes))

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.table.set_look(look)
        self.slots.set_look(look)

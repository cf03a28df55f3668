"""The event log: a bounded list that follows its end, filtered by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QTableView, QToolButton, QVBoxLayout, QWidget

from vramscope_app.models.event_model import HEADINGS, EventModel
from vramscope_app.panels.elided import EmptyWords
from vramscope_app.panels.table import dress_table
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from vramscope.messages.live import Events
    from vramscope_app.look import Look

KINDS = (
    marked("every kind"),
    marked("allocate"),
    marked("release"),
    marked("phase"),
    marked("capture"),
    marked("decline"),
    marked("replay"),
    marked("invalidate"),
    marked("transfer"),
    marked("grow"),
    marked("token"),
    marked("note"),
)


FLOOD = 100
"""More new events than this in one picture are more than anybody reads: the next one waits."""
REST_MILLISECONDS = 400


class EventPanel(QWidget):
    """Shows what happened; new events come in at the next refresh."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.model = EventModel(look, self)
        self.view = QTableView()
        self.kind = QComboBox()
        self._count, self._clear = QLabel(), QToolButton()
        self._pending: list[Events] = []
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(REST_MILLISECONDS)
        self._rest.timeout.connect(self.refresh)
        self._build()
        self.kind.currentIndexChanged.connect(self._filter)
        self._clear.clicked.connect(self.clear)

    def _build(self) -> None:
        self.kind.addItems([tr(kind) for kind in KINDS])
        self.kind.setObjectName("event_kind")
        self.kind.setAccessibleName(tr("Kind of event"))
        self._clear.setText(tr("Clear"))
        self._clear.setAutoRaise(True)
        self._count.setProperty("role", "muted")
        self.view.setModel(self.model)
        self.view.setAccessibleName(tr("Events"))
        dress_table(self.view, "events")
        self._empty = EmptyWords(
            self.view, tr("What happens appears here while the model runs: phases, captures, lost graphs")
        )
        unit = self.view.fontMetrics().averageCharWidth() + 1
        for column, heading in enumerate(HEADINGS):
            self.view.setColumnWidth(column, max(heading.width, len(tr(heading.title)) + 1) * unit + 12)
        bar = QHBoxLayout()
        bar.setContentsMargins(0, 0, 0, 0)
        bar.addWidget(self.kind)
        bar.addWidget(self._count)
        bar.addStretch(1)
        bar.addWidget(self._clear)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(bar)
        layout.addWidget(self.view, 1)

    def add_events(self, events: Events) -> None:
        """Takes a batch."""
        self._pending.append(events)

    def refresh(self) -> None:
        """Shows the batches that came in and stays at the end when it was there."""
        if not self._pending or self._rest.isActive():
            return
        batches, self._pending = self._pending, []
        bar = self.view.verticalScrollBar()
        follow = bar.value() >= bar.maximum() - 2
        events = [event for batch in batches for event in batch.events]
        if len(events) > FLOOD:
            self._rest.start()
        self.model.append(events)
        self.model.dropped += sum(batch.dropped for batch in batches)
        self._tell()
        if follow:
            self.view.scrollToBottom()

    def clear(self) -> None:
        """Forgets every event."""
        self._pending = []
        self.model.clear()
        self._tell()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.model.set_look(look)

    def _filter(self, place: int) -> None:
        self.model.set_kind(KINDS[place] if place else "")
        self._tell()
        self.view.scrollToBottom()

    def _tell(self) -> None:
        text = tr("{n:,} event(s)", n=self.model.rowCount())
        dropped = (
            tr(" · {dropped:,} lost to a full buffer", dropped=self.model.dropped)
            if self.model.dropped
            else ""
        )
        self._count.setText(text + dropped)
        self._count.setAlignment(Qt.AlignmentFlag.AlignVCenter)

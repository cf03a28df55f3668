"""Events in a bounded list: appended at the end, the oldest dropped many at a time."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt

from vramscope_app.models.rows_model import Index, cell_data, heading_data
from vramscope_app.rows.cells import Cell, Heading, bytes_cell
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope.messages.live import EventInfo
    from vramscope_app.look import Look

CAPACITY = 100_000
SLACK = 10_000
"""Events beyond the capacity before the oldest are dropped together."""
HEADINGS = (
    Heading("#", 7, "The number of the event", right=True),
    Heading("Seconds", 9, "Since the engine started", right=True),
    Heading("Kind", 10),
    Heading("Step", 6, "The decode step", right=True),
    Heading("Component", 13),
    Heading("Bytes", 10, right=True),
    Heading("Subject", 16),
    Heading("What happened", 60),
)
_TONES = {
    "invalidate": "bad",
    "decline": "warning",
    "grow": "warning",
    "capture": "good",
    "replay": "good",
    "phase": "info",
}
_NONE = QModelIndex()


def _sequence(event: EventInfo) -> int:
    return event.sequence


_CELLS: tuple[Callable[[EventInfo], Cell], ...] = (
    lambda event: Cell(f"{event.sequence:,}", right=True),
    lambda event: Cell(f"{event.seconds:.3f}", right=True),
    lambda event: Cell(tr(event.kind), tone=_TONES.get(event.kind, "muted")),
    lambda event: Cell("" if event.step < 0 else f"{event.step:,}", right=True),
    lambda event: Cell(tr(event.component)),
    lambda event: bytes_cell(event.bytes) if event.bytes else Cell(""),
    lambda event: Cell(event.subject, event.subject),
    lambda event: Cell(event.text, event.text),
)


def event_cell(event: EventInfo, column: int) -> Cell:
    """One cell of an event."""
    return _CELLS[column](event)


class EventModel(QAbstractTableModel):
    """The kept events, or those of one kind."""

    def __init__(self, look: Look, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._look = look
        self._all: list[EventInfo] = []
        self._shown: list[EventInfo] = []
        self._kind = ""
        self._last: tuple[EventInfo | None, int, Cell] = (None, -1, Cell(""))
        self.dropped = 0
        """Events that the engine's full buffer lost."""

    def append(self, events: Sequence[EventInfo]) -> None:
        """Adds events at the end."""
        self._all.extend(events)
        wanted = self._wanted(events)
        if wanted:
            self.beginInsertRows(_NONE, len(self._shown), len(self._shown) + len(wanted) - 1)
            self._shown.extend(wanted)
            self.endInsertRows()
        if len(self._all) > CAPACITY + SLACK:
            self._drop_oldest()

    def _wanted(self, events: Sequence[EventInfo]) -> list[EventInfo]:
        return [event for event in events if not self._kind or event.kind == self._kind]

    def _drop_oldest(self) -> None:
        self._all = self._all[-CAPACITY:]
        first = self._all[0].sequence
        gone = bisect_left(self._shown, first, key=_sequence)
        if gone:
            self.beginRemoveRows(_NONE, 0, gone - 1)
            self._shown = self._shown[gone:]
            self.endRemoveRows()

    def set_kind(self, kind: str) -> None:
        """Shows one kind; every kind for an empty text."""
        self.beginResetModel()
        self._kind = kind
        self._shown = self._wanted(self._all)
        self.endResetModel()

    def clear(self) -> None:
        """Forgets every event."""
        self.beginResetModel()
        self._all, self._shown, self.dropped = [], [], 0
        self.endResetModel()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        if self._shown:
            corner = self.index(len(self._shown) - 1, len(HEADINGS) - 1)
            self.dataChanged.emit(self.index(0, 0), corner)

    def rowCount(self, parent: Index = _NONE) -> int:  # noqa: N802 - Qt's name
        """Events shown."""
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index = _NONE) -> int:  # noqa: N802 - Qt's name
        """Headings."""
        return 0 if parent.isValid() else len(HEADINGS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401 - Qt's type
        """One cell in one role."""
        if not index.isValid():
            return None
        event, column = self._shown[index.row()], index.column()
        if self._last[0] is not event or self._last[1] != column:  # a view asks seven roles of each cell
            self._last = (event, column, event_cell(event, column))
        return cell_data(self._last[2], role, self._look)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:  # noqa: ANN401 - Qt's type
        """Titles."""
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(HEADINGS):
            return None
        return heading_data(HEADINGS[section], role)

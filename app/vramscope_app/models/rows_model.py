"""A table of frozen rows: a newer list of rows changes only what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QColor

from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope_app.look import Look
    from vramscope_app.rows.cells import Cell, Heading, Row

RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
SHARE_ROLE = int(Qt.ItemDataRole.UserRole)
"""How large a cell's bytes are beside the largest."""
Index = QModelIndex | QPersistentModelIndex
_NONE = QModelIndex()


class RowsModel(QAbstractTableModel):
    """Rows under headings; editing only signals, the new rows come from whoever owns the data."""

    edited = Signal(str, str)
    """Key of the row, and the text that was typed."""

    def __init__(self, headings: Sequence[Heading], look: Look, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._headings = tuple(headings)
        self._look = look
        self._rows: list[Row] = []

    def row(self, index: int) -> Row:
        """One row."""
        return self._rows[index]

    def set_rows(self, rows: list[Row]) -> None:
        """Shows ``rows``: changed rows are told one by one, added ones inserted, else everything anew."""
        old = self._rows
        shared = min(len(old), len(rows))
        if [row.key for row in old] == [row.key for row in rows[:shared]]:
            self._extend(rows, shared)
        else:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()

    def _extend(self, rows: list[Row], shared: int) -> None:
        old, self._rows = self._rows, rows[:shared]
        last = len(self._headings) - 1
        for place in range(shared):
            if old[place].cells != rows[place].cells:
                self.dataChanged.emit(self.index(place, 0), self.index(place, last))
        if len(rows) > shared:
            self.beginInsertRows(_NONE, shared, len(rows) - 1)
            self._rows = rows
            self.endInsertRows()

    def set_look(self, look: Look) -> None:
        """Draws icons and tones in the colours of another theme."""
        self._look = look
        if self._rows:
            last = self.index(len(self._rows) - 1, len(self._headings) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def rowCount(self, parent: Index = _NONE) -> int:  # noqa: N802 - Qt's name
        """Rows; none below a row."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = _NONE) -> int:  # noqa: N802 - Qt's name
        """Headings; none below a row."""
        return 0 if parent.isValid() else len(self._headings)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401 - Qt's type
        """One cell in one role."""
        if not index.isValid():
            return None
        cell = self._rows[index.row()].cells[index.column()]
        return cell_data(cell, role, self._look)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:  # noqa: ANN401 - Qt's type
        """Titles and what they mean."""
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(self._headings):
            return None
        return heading_data(self._headings[section], role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Cells with a text to edit can be edited."""
        flags = super().flags(index)
        if index.isValid() and self._rows[index.row()].cells[index.column()].edit is not None:
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags

    def setData(  # noqa: N802 - Qt's name
        self,
        index: Index,
        value: Any,  # noqa: ANN401 - Qt's type
        role: int = Qt.ItemDataRole.EditRole,
    ) -> bool:
        """Signals what was typed; the rows stay until newer ones are set."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        row = self._rows[index.row()]
        if str(value).strip() == row.cells[index.column()].edit:
            return False
        self.edited.emit(row.key, str(value).strip())
        return True


def heading_data(heading: Heading, role: int) -> Any:  # noqa: ANN401 - Qt's type
    """One heading in one role."""
    if role == Qt.ItemDataRole.DisplayRole:
        return tr(heading.title)
    if role == Qt.ItemDataRole.ToolTipRole:
        return tr(heading.tip or heading.title)
    if role == Qt.ItemDataRole.TextAlignmentRole:
        return RIGHT if heading.right else LEFT
    return None


def cell_data(cell: Cell, role: int, look: Look) -> Any:  # noqa: ANN401, PLR0911 - Qt's type, a return a role
    """One cell in one role."""
    if role == Qt.ItemDataRole.DisplayRole:
        return cell.text
    if role == Qt.ItemDataRole.EditRole:
        return cell.edit
    if role == Qt.ItemDataRole.ToolTipRole:
        return cell.tip or None
    if role == Qt.ItemDataRole.AccessibleTextRole:
        return cell.text or cell.tip
    if role == Qt.ItemDataRole.TextAlignmentRole:
        return RIGHT if cell.right else LEFT
    if role == Qt.ItemDataRole.ForegroundRole and cell.tone:
        return QColor(look.tone(cell.tone))
    if role == SHARE_ROLE:
        return cell.share
    if role == Qt.ItemDataRole.DecorationRole and cell.icon:
        return look.icons.get(cell.icon, look.tone(cell.tone) if cell.tone else "")
    return None

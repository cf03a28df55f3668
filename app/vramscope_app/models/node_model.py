"""The node tree's Qt model: it indexes the columns of a plan; items are numbers, never objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, Qt, Signal
from PySide6.QtGui import QColor

from vramscope_app.models.rows_model import LEFT, RIGHT, SHARE_ROLE, Index
from vramscope_app.rows import nodes as rows
from vramscope_app.rows.columns import (
    COLUMNS,
    NodeView,
    group_text,
    group_tip,
    node_text,
    node_tip,
    sort_keys,
    view_of,
)
from vramscope_app.rows.query import Haystack, QueryError, Term, parse
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope_app.look import Look
    from vramscope_app.rows.nodes import NodeTable

_NONE = QModelIndex()


class NodeModel(QAbstractItemModel):
    """Scopes and nodes of one phase, filtered and sorted by NumPy, never by a proxy."""

    repainted = Signal()
    """Cells anywhere in the tree changed, the items did not."""

    def __init__(self, look: Look, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._look = look
        self._grouped = True
        self._words = ""
        self._terms: tuple[Term, ...] = ()
        self._haystack = Haystack(rows.EMPTY_TABLE)
        self._sort: tuple[int, bool] | None = None
        self._view: NodeView = view_of(rows.EMPTY_TABLE, grouped=True)
        self._tree = self._build()

    @property
    def shown(self) -> int:
        """Nodes that pass the filter."""
        return self._tree.shown

    @property
    def total(self) -> int:
        """Nodes of the phase."""
        return self._view.table.rows

    def set_table(self, table: NodeTable) -> None:
        """Shows another table; when it has the same nodes only their cells change."""
        old = self._view.table
        same = old.rows == table.rows and all(
            old.column(name) == table.column(name) for name in ("scope", "name", "operator")
        )
        if same and self._sort is None and not self._words:
            self._view = view_of(table, grouped=self._grouped, scopes=self._view.scopes)
            self._haystack = Haystack(table)
            self._tell_cells()
        else:
            self._reset(view_of(table, grouped=self._grouped))

    def set_grouped(self, *, grouped: bool) -> None:
        """Groups nodes by scope, or lists them flat."""
        if grouped != self._grouped:
            self._grouped = grouped
            self._reset(view_of(self._view.table, grouped=grouped))

    def set_filter(self, words: str) -> str:
        """Shows only nodes that a query finds.

        Returns:
            What is wrong with the query, which then changes nothing; empty when nothing is.
        """
        if words != self._words:
            try:
                self._terms = parse(words)
            except QueryError as error:
                return str(error)
            self._words = words
            self._reset(self._view)
        return ""

    def set_look(self, look: Look) -> None:
        """Draws in the colours of another theme."""
        self._look = look
        self._tell_cells()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sorts below every parent; column −1 is the program's order."""
        wanted = None if column < 0 else (column, order is Qt.SortOrder.DescendingOrder)
        if wanted != self._sort:
            self._sort = wanted
            self._reset(self._view)

    def index_of(self, name: str) -> QModelIndex:
        """The index of the first shown node of that name; invalid when there is none."""
        for row, found in enumerate(self._view.table.column("name")):
            item = self._tree.groups + row
            if found == name and self._tree.places[item] >= 0:
                return self.createIndex(int(self._tree.places[item]), 0, item)
        return QModelIndex()

    def node_row(self, index: Index) -> int:
        """The table's row of an index; −1 for a scope."""
        return index.internalId() - self._tree.groups if index.isValid() else -1

    @property
    def scopes(self) -> tuple[str, ...]:
        """Names of the scopes; item ``i`` is scope ``i`` in every tree over the same nodes."""
        return self._view.scopes.names

    @property
    def filtered(self) -> bool:
        """Whether a search hides nodes."""
        return bool(self._words.strip())

    def scope_index(self, scope: int) -> QModelIndex:
        """The index of a scope; invalid when it is hidden."""
        return self._index_of_item(scope) if self._tree.places[scope] >= 0 else QModelIndex()

    @property
    def table(self) -> NodeTable:
        """The table that is shown."""
        return self._view.table

    def _reset(self, view: NodeView) -> None:
        self.beginResetModel()
        if view.table is not self._view.table:
            self._haystack = Haystack(view.table)
        self._view = view
        self._tree = self._build()
        self.endResetModel()

    def _build(self) -> rows.Tree:
        kept = self._haystack.rows(self._terms)
        if self._sort is None:
            return rows.build_tree(self._view.scopes, kept)
        column, descending = self._sort
        keys = sort_keys(self._view, COLUMNS[column].key)
        return rows.build_tree(self._view.scopes, kept, keys, descending=descending)

    def _tell_cells(self) -> None:
        """Tells that cells changed: at the top one by one, below by asking for a new picture.

        A view looks through its rows for each parent that is told: a thousand would take a second.
        """
        top = self._tree.count(-1)
        if top:
            self.dataChanged.emit(self.index(0, 0), self.index(top - 1, len(COLUMNS) - 1))
        self.repainted.emit()

    def _index_of_item(self, item: int) -> QModelIndex:
        return QModelIndex() if item < 0 else self.createIndex(int(self._tree.places[item]), 0, item)

    def index(self, row: int, column: int, parent: Index = _NONE) -> QModelIndex:
        """The index of a child."""
        item = parent.internalId() if parent.isValid() else -1
        if column < 0 or column >= len(COLUMNS) or row < 0 or row >= self._children(parent):
            return QModelIndex()
        return self.createIndex(row, column, self._tree.child(item, row))

    def parent(self, child: Index) -> QModelIndex:  # type: ignore[override]  # Qt overloads it with QObject's
        """The scope around an item."""
        return self._index_of_item(int(self._tree.parents[child.internalId()])) if child.isValid() else _NONE

    def _children(self, parent: Index) -> int:
        if not parent.isValid():
            return self._tree.count(-1)
        item = parent.internalId()
        return self._tree.count(item) if item < self._tree.groups and parent.column() == 0 else 0

    def rowCount(self, parent: Index = _NONE) -> int:  # noqa: N802 - Qt's name
        """Children of a scope, or at the top."""
        return self._children(parent)

    def columnCount(self, _parent: Index = _NONE) -> int:  # noqa: N802 - Qt's name
        """The same columns everywhere."""
        return len(COLUMNS)

    def hasChildren(self, parent: Index = _NONE) -> bool:  # noqa: N802 - Qt's name
        """Whether there is anything below."""
        return self._children(parent) > 0

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # noqa: ANN401 - Qt's type
        """One cell in one role."""
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self._text(index)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return RIGHT if COLUMNS[index.column()].right else LEFT
        if role == SHARE_ROLE:
            return self.share(index)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._tip(index)
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._colour(index)
        return None

    def cell(self, index: Index) -> tuple[str, str, int]:
        """Text, tone and alignment of a cell, at one asking."""
        column, row = COLUMNS[index.column()], self.node_row(index)
        key, align = column.key, RIGHT if column.right else LEFT
        if row < 0:
            return group_text(self._view, index.internalId(), key), "" if key == "name" else "muted", align
        return node_text(self._view, row, key, short=self._grouped), self._view.tone(row, key), align

    def share(self, index: Index) -> float:
        """A node's part of the largest in its column, 0 to 1."""
        return self._view.share(self.node_row(index), COLUMNS[index.column()].key)

    def _text(self, index: Index) -> str:
        key, row = COLUMNS[index.column()].key, self.node_row(index)
        return (
            node_text(self._view, row, key, short=self._grouped)
            if row >= 0
            else group_text(self._view, index.internalId(), key)
        )

    def _tip(self, index: Index) -> str | None:
        key, row = COLUMNS[index.column()].key, self.node_row(index)
        tip = node_tip(self._view, row, key) if row >= 0 else group_tip(self._view, index.internalId(), key)
        return tip or None

    def _colour(self, index: Index) -> QColor | None:
        row, key = self.node_row(index), COLUMNS[index.column()].key
        if row < 0:
            return None if key == "name" else QColor(self._look.theme.muted)
        tone = self._view.tone(row, key)
        return QColor(self._look.tone(tone)) if tone else None

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:  # noqa: ANN401 - Qt's type
        """Titles and what they mean."""
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(COLUMNS):
            return None
        column = COLUMNS[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return tr(column.title)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tr(column.tip)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return RIGHT if column.right else LEFT
        return None

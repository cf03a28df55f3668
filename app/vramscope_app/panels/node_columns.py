"""Which columns the node tree shows, in which order: a menu at its header, and what is remembered of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from vramscope_app.rows.columns import COLUMNS
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtWidgets import QTreeView

FIRST = tuple(column.key for column in COLUMNS if not column.hidden)
"""The columns of a new window."""
_PLACES = {column.key: place for place, column in enumerate(COLUMNS)}


class ColumnMenu(QMenu):
    """Ticks columns; the name stays where it is."""

    changed = Signal(object)
    """Keys of the columns that are shown, from left to right."""

    def __init__(self, view: QTreeView) -> None:
        super().__init__(tr("Columns"), view)
        self._header = view.header()
        self._actions: dict[str, QAction] = {}
        self.setAccessibleName(tr("Columns of the node tree"))
        self.setToolTipsVisible(True)
        for column in COLUMNS[1:]:
            action = QAction(tr(column.title), self)
            action.setCheckable(True)
            action.setToolTip(tr(column.tip))
            action.setData(column.key)
            self.addAction(action)
            self._actions[column.key] = action
        self.addSeparator()
        self._reset = self.addAction(tr("As in a new window"))
        self._header.setSectionsMovable(True)
        self._header.setFirstSectionMovable(False)
        self._header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._header.customContextMenuRequested.connect(self._open)
        self._header.sectionMoved.connect(self._moved)
        self.triggered.connect(self._choose)
        self.show_columns(FIRST)

    @property
    def shown(self) -> list[str]:
        """Keys of the shown columns, from left to right."""
        order = sorted(range(len(COLUMNS)), key=self._header.visualIndex)
        return [COLUMNS[place].key for place in order if not self._header.isSectionHidden(place)]

    def show_columns(self, keys: Sequence[str]) -> None:
        """Shows these columns in this order; unknown keys are left out, the name is always there."""
        known = [key for key in dict.fromkeys(keys) if _PLACES.get(key)]
        blocked = self._header.blockSignals(True)
        for column in COLUMNS[1:]:
            self._header.setSectionHidden(_PLACES[column.key], column.key not in known)
            self._actions[column.key].setChecked(column.key in known)
        for place, key in enumerate(known, start=1):
            self._header.moveSection(self._header.visualIndex(_PLACES[key]), place)
        self._header.blockSignals(blocked)
        self._header.viewport().update()

    def reveal(self, keys: Sequence[str]) -> None:
        """Shows more columns, right behind the operator where they were not shown."""
        shown = self.shown
        new = [key for key in keys if key not in shown]
        if new:
            place = shown.index("operator") + 1 if "operator" in shown else 1
            self.show_columns([*shown[:place], *new, *shown[place:]])

    def _open(self, place: QPoint) -> None:
        self.popup(self._header.mapToGlobal(place))

    def _choose(self, action: QAction) -> None:
        if action is self._reset:
            self.show_columns(FIRST)
        else:
            self._header.setSectionHidden(_PLACES[str(action.data())], not action.isChecked())
        self.changed.emit(self.shown)

    def _moved(self, _logical: int, _old: int, _new: int) -> None:
        self.changed.emit(self.shown)

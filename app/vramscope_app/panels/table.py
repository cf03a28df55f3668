"""A table of rows with an optional detail below it: axes, counters, problems, declines, slots, outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QSize, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QLabel, QTableView, QVBoxLayout, QWidget

from vramscope_app.models.rows_model import RowsModel
from vramscope_app.panels.elided import EmptyWords
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope_app.look import Look
    from vramscope_app.rows.cells import Heading, Row


LEAST_HEIGHT = 48
"""A heading and a row: a small window cuts tables before anything else."""


def dress_table(view: QTableView, name: str) -> None:
    """Dense rows, no grid, whole rows chosen."""
    view.setObjectName(name)
    view.setShowGrid(False)
    view.setAlternatingRowColors(True)
    view.setWordWrap(False)
    view.setTextElideMode(Qt.TextElideMode.ElideMiddle)
    view.setMinimumHeight(LEAST_HEIGHT)
    view.setTabKeyNavigation(False)
    view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    rows = view.verticalHeader()
    rows.setVisible(False)
    rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
    rows.setDefaultSectionSize(view.fontMetrics().height() + 7)
    view.horizontalHeader().setHighlightSections(False)
    view.horizontalHeader().setStretchLastSection(True)
    view.setIconSize(QSize(15, 15))


class TablePanel(QWidget):
    """Rows under headings; activating one that has a node asks to jump there."""

    jump = Signal(str)
    edited = Signal(str, str)

    def __init__(
        self,
        name: str,
        title: str,
        headings: Sequence[Heading],
        look: Look,
        *,
        detail: bool = False,
        empty: str = "",
    ) -> None:
        """A table called ``title``.

        Args:
            name: object name of the view.
            title: what it is called where it is read aloud.
            headings: its columns.
            look: the theme.
            detail: whether the chosen row's further lines are shown below.
            empty: what is said where there are no rows.
        """
        super().__init__()
        self.model = RowsModel(headings, look, self)
        self.view = QTableView()
        self.view.setModel(self.model)
        self.view.setAccessibleName(title)
        dress_table(self.view, name)
        unit = self.view.fontMetrics().averageCharWidth() + 1
        for column, heading in enumerate(headings):
            self.view.setColumnWidth(column, max(heading.width, len(tr(heading.title)) + 1) * unit + 12)
        self._empty = EmptyWords(self.view, empty)
        self._detail = QLabel()
        self._detail.setProperty("role", "muted")
        self._detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._detail.setWordWrap(True)
        self._detail.setContentsMargins(6, 2, 6, 2)
        self._detail.setVisible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self.view, 1)
        layout.addWidget(self._detail)
        self._wants_detail = detail
        self.view.activated.connect(self._activated)
        self.view.selectionModel().currentRowChanged.connect(self._chosen)
        self.model.modelReset.connect(self._forget)
        self.model.edited.connect(self.edited)

    def set_rows(self, rows: list[Row]) -> None:
        """Shows other rows."""
        self.model.set_rows(rows)
        self._chosen(self.view.currentIndex(), QModelIndex())

    def choose_first(self) -> None:
        """Chooses the first row, whose detail is shown, where none is chosen."""
        if self.model.rowCount() and not self.view.currentIndex().isValid():
            self.view.setCurrentIndex(self.model.index(0, 0))

    def edit_cell(self, key: str, column: int) -> None:
        """Opens the editor of a cell in the row of that key, if there is one."""
        for place in range(self.model.rowCount()):
            index = self.model.index(place, column)
            if self.model.row(place).key == key and self.model.flags(index) & Qt.ItemFlag.ItemIsEditable:
                self.view.setCurrentIndex(index)
                self.view.setFocus(Qt.FocusReason.OtherFocusReason)
                self.view.edit(index)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.model.set_look(look)

    def _forget(self) -> None:
        self._detail.setVisible(False)

    def _activated(self, index: QModelIndex) -> None:
        node = self.model.row(index.row()).node
        editable = bool(self.model.flags(index) & Qt.ItemFlag.ItemIsEditable)
        if node and not editable:
            self.jump.emit(node)

    def _chosen(self, current: QModelIndex, _previous: QModelIndex) -> None:
        text = self.model.row(current.row()).detail if current.isValid() else ""
        self._detail.setText(text)
        self._detail.setVisible(self._wants_detail and bool(text))

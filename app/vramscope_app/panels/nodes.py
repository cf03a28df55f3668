"""The node tree: search, phase, grouping, and a jump to any node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QToolButton,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from vramscope_app.models.node_model import NodeModel
from vramscope_app.panels.elided import EmptyWords
from vramscope_app.panels.node_columns import ColumnMenu
from vramscope_app.panels.share import NodeCellDelegate
from vramscope_app.panels.table import LEAST_HEIGHT
from vramscope_app.rows.columns import COLUMNS
from vramscope_app.rows.nodes import EMPTY_TABLE, PEAK, NodeTable
from vramscope_app.rows.query import HELP
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QAction

    from vramscope_app.look import Look

SEARCH_MILLISECONDS = 120
SHARED = frozenset({"weight_bytes", "output_bytes", "workspace_bytes", "live_bytes", PEAK, "nanoseconds"})
"""Columns with a bar below the number."""
NO_NODES = marked("The model's nodes appear here once it is planned")
NOT_FOUND = marked("No node is like that")
OPEN_ROWS = 400
"""A tree with fewer nodes than this is opened whole."""


class NodePanel(QWidget):
    """Shows one phase of a plan's node table."""

    chosen = Signal()
    """Another node is the current one, or the same of another plan."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._tables: Mapping[str, NodeTable] = {}
        self._scopes: tuple[str, ...] = ()
        self._open: set[int] = set()
        self._chosen = ""
        self._filtered = False
        self.model = NodeModel(look, self)
        self.view = QTreeView()
        self.search = QLineEdit()
        self.phase = QComboBox()
        self.grouping = QToolButton()
        self.chooser, self.profiler = QToolButton(), QToolButton()
        self._count, self._wrong = QLabel(), QLabel()
        self._search_action = self.search.addAction(
            look.icons.get("search", look.theme.muted), QLineEdit.ActionPosition.LeadingPosition
        )
        shared = [place for place, column in enumerate(COLUMNS) if column.key in SHARED]
        self._cells = NodeCellDelegate(self.model, shared, look, self)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SEARCH_MILLISECONDS)
        self._build(look)
        self._connect()

    def _build(self, look: Look) -> None:
        self.search.setPlaceholderText(tr("Find nodes: words, op:MatMul, bytes>1M, scope:layers.3"))
        self.search.setToolTip(tr(HELP))
        self.search.setClearButtonEnabled(True)
        self.search.setObjectName("node_search")
        self.search.setAccessibleName(tr("Find nodes"))
        self.phase.setObjectName("node_phase")
        self.phase.setAccessibleName(tr("Phase"))
        self.phase.setVisible(False)
        self.phase.setToolTip(tr("Prefill computes the prompt, decode one token at a time"))
        self.grouping.setObjectName("node_grouping")
        self.grouping.setCheckable(True)
        self.grouping.setChecked(True)
        self.grouping.setAutoRaise(True)
        self.grouping.setText(tr("By scope"))
        self.grouping.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.grouping.setToolTip(tr("Group nodes by scope, or list them in the order in which they run"))
        self.grouping.setIcon(look.icons.get("tree"))
        self.chooser.setObjectName("node_columns")
        self.chooser.setIcon(look.icons.get("panels"))
        self.chooser.setToolTip(tr("Choose columns; drag their headings to move them"))
        self.chooser.setAccessibleName(tr("Columns"))
        self.chooser.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._count.setProperty("role", "muted")
        self._wrong.setObjectName("node_query_error")
        self._wrong.setProperty("tone", "bad")
        self._wrong.setWordWrap(True)
        self._wrong.hide()
        bar = QHBoxLayout()
        bar.setContentsMargins(0, 0, 0, 0)
        bar.addWidget(self.search, 1)
        bar.addWidget(self.grouping)
        bar.addWidget(self.phase)
        bar.addWidget(self.profiler)
        bar.addWidget(self.chooser)
        bar.addWidget(self._count)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(bar)
        layout.addWidget(self._wrong)
        layout.addWidget(self.view, 1)
        self._dress_view()
        self.columns = ColumnMenu(self.view)
        self.chooser.setMenu(self.columns)

    def _dress_view(self) -> None:
        view = self.view
        view.setObjectName("node_tree")
        view.setAccessibleName(tr("Nodes"))
        view.setUniformRowHeights(True)
        view.setMinimumHeight(LEAST_HEIGHT)
        view.setAlternatingRowColors(True)
        view.setModel(self.model)
        view.setIndentation(15)
        view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        header = view.header()
        header.setSectionsClickable(True)
        header.setSortIndicatorShown(True)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        header.setStretchLastSection(True)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        unit = view.fontMetrics().averageCharWidth() + 1
        for place, column in enumerate(COLUMNS):
            view.setColumnWidth(place, max(column.width, len(tr(column.title)) + 2) * unit)
        view.setItemDelegate(self._cells)
        self._empty = EmptyWords(view, tr(NO_NODES))

    def _connect(self) -> None:
        self.search.textChanged.connect(self._typed)
        self._timer.timeout.connect(self._filter)
        self.phase.currentTextChanged.connect(self._show_phase)
        self.grouping.toggled.connect(self._group)
        self.view.header().sortIndicatorChanged.connect(self.model.sort)
        self.view.selectionModel().currentRowChanged.connect(self.chosen)
        self.model.repainted.connect(self.view.viewport().update)
        self.model.modelAboutToBeReset.connect(self._remember)
        self.model.modelReset.connect(self._restore)

    def set_profiler(self, action: QAction) -> None:
        """The command that measures what the column of times shows."""
        self.profiler.setDefaultAction(action)
        self.profiler.setObjectName("node_profile")
        self.profiler.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.profiler.setAccessibleName(action.text().replace("&", ""))

    def set_tables(self, tables: Mapping[str, NodeTable]) -> None:
        """Shows another plan's nodes, by phase, in the phase that is chosen."""
        self._tables = tables
        found = list(tables)
        if found != [self.phase.itemText(place) for place in range(self.phase.count())]:
            chosen = self.phase.currentText()
            with QSignalBlocker(self.phase):
                self.phase.clear()
                self.phase.addItems(found)
                self.phase.setCurrentText(chosen if chosen in found else found[-1] if found else "")
            self.phase.setVisible(len(found) > 1)
        self._show_phase(self.phase.currentText())

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.model.set_look(look)
        self._cells.set_look(look)
        self._search_action.setIcon(look.icons.get("search", look.theme.muted))
        self.grouping.setIcon(look.icons.get("tree"))
        self.chooser.setIcon(look.icons.get("panels"))

    def focus_search(self) -> None:
        """Puts the cursor into the search."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def table_name(self, index: QModelIndex) -> str:
        """The full name of the node at an index; empty for a scope."""
        row = self.model.node_row(index)
        return self.model.table.text("name", row) if row >= 0 else ""

    def chosen_step(self) -> tuple[str, int]:
        """The phase that is shown, and the chosen node's step; −1 for none."""
        row = self.model.node_row(self.view.currentIndex())
        return self.phase.currentText(), self.model.table.number("step", row) if row >= 0 else -1

    def jump(self, name: str) -> bool:
        """Shows and chooses a node by name; clears the search when that hides it."""
        index = self.model.index_of(name)
        if not index.isValid() and self.search.text():
            self.search.clear()
            self._filter()
            index = self.model.index_of(name)
        if not index.isValid():
            return False
        self.view.setCurrentIndex(index)
        self.view.scrollTo(index, QAbstractItemView.ScrollHint.PositionAtCenter)
        self.view.setFocus(Qt.FocusReason.OtherFocusReason)
        return True

    def _typed(self, _text: str) -> None:
        self._timer.start()

    def _filter(self) -> None:
        self._timer.stop()
        wrong = self.model.set_filter(self.search.text())
        self._wrong.setText(wrong)
        self._wrong.setVisible(bool(wrong))

    def _show_phase(self, phase: str) -> None:
        self.model.set_table(self._tables.get(phase, EMPTY_TABLE))
        self._tell_count()

    def _group(self, grouped: bool) -> None:
        self.model.set_grouped(grouped=grouped)

    def _remember(self) -> None:
        """Before everything is shown anew: what is open and what is chosen."""
        self._chosen = self.table_name(self.view.currentIndex())
        if not self._filtered:
            self._scopes = self.model.scopes
            indexes = [self.model.scope_index(scope) for scope in range(len(self._scopes))]
            self._open = {scope for scope, index in enumerate(indexes) if self.view.isExpanded(index)}

    def _restore(self) -> None:
        """After everything is shown anew: the same again where the nodes are the same."""
        self._filtered = self.model.filtered
        if self._filtered:
            self.view.expandAll()
        elif self._open and self.model.scopes == self._scopes:
            for scope in self._open:
                self.view.expand(self.model.scope_index(scope))
        elif self.model.shown <= OPEN_ROWS:
            self.view.expandAll()
        else:
            self.view.expandToDepth(0)
        if self._chosen:
            self.view.setCurrentIndex(self.model.index_of(self._chosen))
        self._tell_count()

    def _tell_count(self) -> None:
        shown, total = self.model.shown, self.model.total
        self._empty.setText(tr(NOT_FOUND if total else NO_NODES))
        self._count.setText(
            tr("{n:,} node(s)", n=total)
            if shown == total
            else tr("{shown:,} of {n:,} node(s)", shown=shown, n=total)
        )

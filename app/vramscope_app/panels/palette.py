"""The command palette: type a few letters of a command, choose with the arrow keys, run it with Enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from vramscope_app.commands import COMMANDS, key_text
from vramscope_app.rows.palette import Choice, choices, plain_title
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope_app.look import Look
    from vramscope_app.state import AppState

WIDTH, HEIGHT, TOP = 760, 380, 90
EDGE, ROOM = 40, 24
"""Beside the palette in a narrow window, and around the text of a column."""
STEPS = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
KEYS = {*STEPS, Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape}


class Palette(QFrame):
    """Lies over the window; closes itself before it asks to run a command, and when it loses the focus."""

    chosen = Signal(str)
    """The id of a command."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.hide()
        self.setProperty("card", True)
        self.setObjectName("palette")
        self.setAccessibleName(tr("Command palette"))
        self.line, self.list = QLineEdit(), QTreeWidget()
        self._state: AppState | None = None
        self._muted = QColor()
        self._choices: list[Choice] = []
        self._place = 0
        self._before: QWidget | None = None
        self._build()
        self.line.textChanged.connect(self._filter)
        self.line.installEventFilter(self)
        self.list.itemClicked.connect(self._clicked)

    def _build(self) -> None:
        self.line.setPlaceholderText(tr("Type a command"))
        self.line.setAccessibleName(tr("Command"))
        self.line.setObjectName("palette_line")
        self.list.setAccessibleName(tr("Commands"))
        self.list.setObjectName("palette_list")
        self.list.setColumnCount(3)
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addWidget(self.line)
        layout.addWidget(self.list)

    def begin(self, state: AppState, look: Look) -> None:
        """Shows itself over the window with every command."""
        self._state, self._muted = state, QColor(look.theme.muted)
        self.line.clear()
        self._filter("")
        self._fit_columns()
        window = self.parentWidget()
        width = WIDTH if window is None else min(WIDTH, window.width() - EDGE)
        self.resize(width, HEIGHT)
        if window is not None:
            self._before = window.focusWidget()
            self.move((window.width() - width) // 2, TOP)
        self.show()
        self.raise_()
        self.line.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def end(self) -> None:
        """Closes; the focus goes back to where it was."""
        self.hide()
        if self._before is not None:
            self._before.setFocus(Qt.FocusReason.OtherFocusReason)

    def _filter(self, typed: str) -> None:
        if self._state is None:
            return
        self._choices = choices(COMMANDS, self._state, typed)
        self.list.clear()
        for choice in self._choices:
            item = QTreeWidgetItem([choice.title, choice.tip, key_text(choice.shortcut)])
            item.setForeground(1, self._muted)
            item.setForeground(2, self._muted)
            if not choice.enabled:
                item.setForeground(0, self._muted)
                item.setToolTip(0, tr("Not possible just now"))
            self.list.addTopLevelItem(item)
        self._select(0)

    def _fit_columns(self) -> None:
        """Titles and keys are never cut; what commands do may be."""
        metrics = self.list.fontMetrics()
        titles = [plain_title(command) for command in COMMANDS]
        keys = [key_text(command.shortcuts[0]) for command in COMMANDS if command.shortcuts]
        for column, texts in ((0, titles), (2, keys)):
            self.list.setColumnWidth(column, max(map(metrics.horizontalAdvance, texts)) + ROOM)

    def _select(self, place: int) -> None:
        self._place = max(0, min(place, len(self._choices) - 1))
        item = self.list.topLevelItem(self._place)
        if item is not None:
            self.list.setCurrentItem(item)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Arrows move in the list and Enter runs, while the letters go into the line."""
        if event.type() is QEvent.Type.FocusOut:
            self.hide()
        if not isinstance(event, QKeyEvent) or event.key() not in KEYS:
            return False
        if event.type() is QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        if event.type() is QEvent.Type.KeyPress:
            self._press(Qt.Key(event.key()))
            return True
        return False

    def _press(self, key: Qt.Key) -> None:
        if key in STEPS:
            self._select(self._place + STEPS[key])
        elif key == Qt.Key.Key_Escape:
            self.end()
        else:
            self._run()

    def _clicked(self, item: QTreeWidgetItem) -> None:
        self._place = self.list.indexOfTopLevelItem(item)
        self._run()

    def _run(self) -> None:
        if self._choices and self._choices[self._place].enabled:
            chosen = self._choices[self._place].id
            self.end()
            self.chosen.emit(chosen)

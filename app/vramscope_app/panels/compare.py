"""The comparison: what A and B are, and a table of components, layers or nodes with small bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from vramscope_app.models.rows_model import SHARE_ROLE
from vramscope_app.panels.table import TablePanel
from vramscope_app.rows.compare import HEADINGS, PARTS, Compared, rows_of, shown_text, tip, words
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtCore import QObject
    from PySide6.QtGui import QAction

    from vramscope_app.look import Look
    from vramscope_app.models.rows_model import Index

COMMANDS = ("keep_baseline", "compare_with", "compare_run", "clear_baseline")
"""The panel's buttons, in order."""
PHASE_COLUMN, DIFFERENCE_COLUMN, SHAPES_COLUMN = 1, 4, 6
SMALLEST_SHARE = 0.02
OPACITY = 170


class DifferenceDelegate(QStyledItemDelegate):
    """Paints a line below the text: from the middle to the right for more, to the left for less."""

    def __init__(self, look: Look, parent: QObject) -> None:
        super().__init__(parent)
        self.set_look(look)

    def set_look(self, look: Look) -> None:
        """The colours of another theme."""
        self._more, self._less = QColor(look.tone("warning")), QColor(look.tone("good"))
        for colour in (self._more, self._less):
            colour.setAlpha(OPACITY)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """What the style paints, then the bar."""
        super().paint(painter, option, index)
        share = float(index.data(SHARE_ROLE) or 0.0)
        if abs(share) < SMALLEST_SHARE:
            return
        area = option.rect
        middle, half = area.left() + area.width() // 2, area.width() // 2 - 3
        width = max(round(half * abs(share)), 2)
        start = middle if share > 0 else middle - width
        painter.fillRect(start, area.bottom() - 2, width, 2, self._more if share > 0 else self._less)


class ComparePanel(QWidget):
    """Shows the newest comparison; its buttons are commands of the window."""

    jump = Signal(str)
    """A node that was activated."""

    def __init__(self, actions: Mapping[str, QAction], look: Look) -> None:
        super().__init__()
        self._compared = Compared()
        self.words, self.part = QLabel(words(self._compared)), QComboBox()
        self.table = TablePanel("compare", tr("Differences"), HEADINGS, look)
        self._bars = DifferenceDelegate(look, self)
        self.buttons = [self._button(actions[name]) for name in COMMANDS]
        self._build()
        self.part.currentIndexChanged.connect(self._show)
        self.table.jump.connect(self.jump)

    def _button(self, action: QAction) -> QToolButton:
        button = QToolButton()
        button.setDefaultAction(action)
        button.setObjectName(f"compare_{action.objectName()}")
        button.setAccessibleName(action.text().replace("&", ""))
        return button

    def _build(self) -> None:
        self.words.setObjectName("compare_words")
        self.words.setProperty("role", "muted")
        self.words.setWordWrap(True)
        self.words.setContentsMargins(4, 2, 4, 2)
        self.part.addItems([tr(part) for part in PARTS])
        self.part.setObjectName("compare_part")
        self.part.setAccessibleName(tr("What to compare"))
        self.part.setToolTip(tr("Components, layers or nodes"))
        bar = QHBoxLayout()
        bar.setContentsMargins(0, 0, 0, 0)
        bar.setSpacing(4)
        for button in self.buttons:
            bar.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        bar.addWidget(self.words, 1)
        bar.addWidget(self.part, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(bar)
        layout.addWidget(self.table, 1)
        layout.addStretch(0)
        self.table.view.setTextElideMode(Qt.TextElideMode.ElideLeft)
        header = self.table.view.horizontalHeader()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.table.view.setItemDelegateForColumn(DIFFERENCE_COLUMN, self._bars)
        self.table.hide()
        self.part.setEnabled(False)

    def set_compared(self, compared: Compared) -> None:
        """Shows a newer comparison, or what to do to get one."""
        self._compared = compared
        self.table.setVisible(compared.found is not None)
        self.part.setEnabled(compared.found is not None and not compared.run)
        if compared.run:
            self.part.setCurrentIndex(0)
        self._show()

    def _show(self) -> None:
        part = PARTS[self.part.currentIndex()]
        text, more = words(self._compared), shown_text(self._compared, part)
        self.words.setText(f"{text} · {more}" if more else text)
        self.words.setToolTip(tip(self._compared))
        self.words.setAccessibleName(text)
        self.table.view.setColumnHidden(PHASE_COLUMN, part == "components")
        self.table.view.setColumnHidden(SHAPES_COLUMN, part != "nodes")
        self.table.set_rows(rows_of(self._compared, part))

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.table.set_look(look)
        self._bars.set_look(look)

"""Any set of cards, chosen from the catalogue: a button whose list can be searched and ticked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QToolButton, QVBoxLayout

from vramscope_app.rows.scenario import card_label
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.model import CardInfo

MOST = 8
"""More lines would hide each other."""
WIDTH, HEIGHT = 330, 300


class CardPicker(QToolButton):
    """The button, and the list that it opens; what is chosen is known by the catalogue's names."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.list, self.search = QListWidget(), QLineEdit()
        self._popup = QFrame(self, Qt.WindowType.Popup)
        self.setObjectName("compare_cards")
        self.setToolTip(tr("Draw the lines of other cards too, up to {most}", most=MOST))
        self._build()
        self.clicked.connect(self._open)
        self.search.textChanged.connect(self._filter)
        self.list.itemChanged.connect(self._ticked)
        self._tell()

    def _build(self) -> None:
        self._popup.setFrameShape(QFrame.Shape.StyledPanel)
        self._popup.setAccessibleName(tr("Cards to compare with"))
        self.search.setPlaceholderText(tr("Find cards"))
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName(tr("Find cards"))
        self.list.setAccessibleName(tr("Cards"))
        self.list.setUniformItemSizes(True)
        layout = QVBoxLayout(self._popup)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.addWidget(self.search)
        layout.addWidget(self.list)
        self._popup.resize(WIDTH, HEIGHT)

    @property
    def chosen(self) -> list[str]:
        """Names of the ticked cards, in the catalogue's order."""
        items = [self.list.item(row) for row in range(self.list.count())]
        ticked = [item for item in items if item.checkState() is Qt.CheckState.Checked]
        return [str(item.data(Qt.ItemDataRole.UserRole)) for item in ticked]

    def set_cards(self, cards: Sequence[CardInfo], chosen: Sequence[str]) -> None:
        """The catalogue, and which of it is ticked."""
        with QSignalBlocker(self.list):
            self.list.clear()
            for card in cards:
                item = QListWidgetItem(card_label(card))
                item.setData(Qt.ItemDataRole.UserRole, card.name)
                ticked = card.name in chosen
                item.setCheckState(Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked)
                self.list.addItem(item)
        self._tell()

    def _ticked(self, item: QListWidgetItem) -> None:
        if len(self.chosen) > MOST:
            with QSignalBlocker(self.list):
                item.setCheckState(Qt.CheckState.Unchecked)
            return
        self._tell()
        self.changed.emit()

    def _tell(self) -> None:
        number = len(self.chosen)
        self.setText(tr("Compare cards ({number})", number=number) if number else tr("Compare cards"))
        self.setAccessibleName(self.text())

    def _filter(self, text: str) -> None:
        words = text.lower().split()
        for row in range(self.list.count()):
            item = self.list.item(row)
            item.setHidden(not all(word in item.text().lower() for word in words))

    def _open(self) -> None:
        corner = self.mapToGlobal(self.rect().bottomRight())
        self._popup.move(corner.x() - WIDTH, corner.y() + 2)
        self._popup.show()
        self.search.setFocus(Qt.FocusReason.PopupFocusReason)

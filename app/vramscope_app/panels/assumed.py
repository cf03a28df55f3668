"""The line below the verdict that says what other export is planned, with a way out of each assumption."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from vramscope_app.panels.banner import push_button
from vramscope_app.panels.flow import FlowLayout
from vramscope_app.rows.exports import Assumptions
from vramscope_app.translation import tr


class AssumedLine(QWidget):
    """Chips to take an assumption back, what they save, and buttons to compare and to leave."""

    dropped = Signal(object)
    """Ids that are not to be assumed any more."""
    compare = Signal()
    """The file as it is is wanted beside this plan."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("assumed_line")
        self._shown = Assumptions()
        self._label = QLabel(tr("Planned as if:"))
        self._label.setProperty("role", "heading")
        self.chips: list[QPushButton] = []
        self.saved = QLabel()
        self.saved.setObjectName("assumed_saved")
        self.saved.setProperty("role", "muted")
        self.compare_button = push_button(
            tr("Compare with the file as it is"),
            "assumed_compare",
            tr("Keep the plan of the file as it is as the baseline, and show what differs"),
        )
        self.leave_button = push_button(
            tr("Plan the file as it is"), "assumed_leave", tr("Assume nothing any more; undo brings it back")
        )
        self._layout = FlowLayout(self)
        for widget in (self._label, self.saved, self.compare_button, self.leave_button):
            self._layout.addWidget(widget)
        self.compare_button.clicked.connect(self.compare)
        self.leave_button.clicked.connect(self._leave)
        self.hide()

    def set_assumptions(self, shown: Assumptions) -> None:
        """Shows others; hides itself where nothing is assumed."""
        if shown == self._shown:
            return
        self._shown = shown
        for place, item in enumerate(shown.items):
            self._show_chip(self._chip(place), item.title, item.tip)
        for chip in self.chips[len(shown.items) :]:
            chip.hide()
        self.saved.setText(shown.saved)
        self.saved.setToolTip(shown.saved_tip)
        self.saved.setVisible(bool(shown.saved))
        self.compare_button.setEnabled(shown.comparable)
        for widget in (*self.chips, self.leave_button):
            widget.setEnabled(shown.editable)
        titles = ", ".join(item.title for item in shown.items)
        self.setAccessibleName(tr("Planned as if exported otherwise: {titles}", titles=titles))
        self.setVisible(bool(shown.items))

    def _chip(self, place: int) -> QPushButton:
        if place == len(self.chips):
            chip = QPushButton()
            chip.setObjectName(f"assumed_{place}")
            chip.clicked.connect(self._drop)
            self.chips.append(chip)
            self._layout.insertWidget(place + 1, chip)
        return self.chips[place]

    def _show_chip(self, chip: QPushButton, title: str, tip: str) -> None:
        chip.setText(f"{title}  ×")  # the sign that closes, not a letter
        chip.setAccessibleName(tr("Do not assume: {title}", title=title))
        chip.setToolTip(tip)
        chip.show()

    def _drop(self) -> None:
        sender = self.sender()
        if isinstance(sender, QPushButton):
            self.dropped.emit([self._shown.items[self.chips.index(sender)].id])

    def _leave(self) -> None:
        self.dropped.emit([item.id for item in self._shown.items])

"""The inspector: the chosen node's values, bounds, scratch and neighbours to go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from vramscope_app.panels.table import TablePanel
from vramscope_app.rows.node_detail import DETAIL_HEADINGS, detail_rows, node_heading
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope.messages.node import NodeInfo
    from vramscope_app.look import Look


class InspectorPanel(QWidget):
    """Shows one node; asks for the chosen one while it can be seen."""

    wanted = Signal()
    """The chosen node is wanted."""
    jump = Signal(str)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.seen = False
        self.words = QLabel(node_heading(None))
        self.words.setObjectName("inspector_words")
        self.words.setWordWrap(True)
        self.words.setContentsMargins(6, 2, 6, 2)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.table = TablePanel("inspector", tr("Node"), DETAIL_HEADINGS, look, detail=True)
        self.table.jump.connect(self.jump)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self.words)
        layout.addWidget(self.table, 1)

    def set_node(self, node: NodeInfo | None) -> None:
        """Shows another node."""
        self.words.setText(node_heading(node))
        self.table.set_rows(detail_rows(node))

    def set_seen(self, seen: bool) -> None:
        """Whether its tab is in front; seen again, perhaps another node was chosen meanwhile."""
        self.seen = seen
        self.wanted.emit()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.table.set_look(look)

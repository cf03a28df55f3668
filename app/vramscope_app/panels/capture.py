"""The capture dock: segments, what a capture needs, and pages: declines, slots, signature, verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from vramscope.messages.slots import SlotsInfo
from vramscope_app.panels.elided import ElidedLabel
from vramscope_app.panels.strip import SegmentStrip, StripLegend
from vramscope_app.panels.table import TablePanel
from vramscope_app.rows.run import capture_text, verify_text
from vramscope_app.rows.segments import stretches
from vramscope_app.rows.slots import (
    LOST_HEADINGS,
    PRECONDITION_HEADINGS,
    SIGNATURE_HEADINGS,
    SLOT_HEADINGS,
    VERIFY_HEADINGS,
    changed_columns,
    lost_rows,
    precondition_rows,
    precondition_words,
    signature_rows,
    signature_words,
    slot_rows,
    verify_rows,
)
from vramscope_app.rows.tables import DECLINE_HEADINGS, decline_rows
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from vramscope.messages.live import SlotInfo
    from vramscope.messages.running import CaptureInfo, VerifyInfo
    from vramscope_app.look import Look

NOTHING = marked("Nothing was captured yet")
DECLINES, SLOTS, LOST, SIGNATURE, VERIFY = PAGES = (
    marked("Declines"),
    marked("Graph slots"),
    marked("Lost graphs"),
    marked("Signature"),
    marked("Verify"),
)


class CapturePanel(QWidget):
    """The last capture, both graph slots, and the last verification."""

    jump = Signal(str)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._slots = SlotsInfo()
        self._live: list[SlotInfo] = []
        self._words, self._needs = ElidedLabel(tr(NOTHING)), ElidedLabel(precondition_words([]))
        self.strip, self._legend = SegmentStrip(look), StripLegend(look)
        self.needs = TablePanel(
            "preconditions",
            tr("Preconditions of a capture"),
            PRECONDITION_HEADINGS,
            look,
            empty=tr("Checked once a prompt is prefilled"),
        )
        self.declines = TablePanel(
            "declines",
            tr("Declines"),
            DECLINE_HEADINGS,
            look,
            detail=True,
            empty=tr("Nodes that a capture has to leave out appear here, each with its reason"),
        )
        self.slots = TablePanel(
            "slots", tr("Graph slots"), SLOT_HEADINGS, look, empty=tr("Filled once a prompt is prefilled")
        )
        self.lost = TablePanel(
            "lost", tr("Graphs that died"), LOST_HEADINGS, look, empty=tr("No graph has died")
        )
        self.signature = TablePanel("signature", tr("Signature of the graph"), SIGNATURE_HEADINGS, look)
        self.verified = TablePanel("verified", tr("Replay beside eager"), VERIFY_HEADINGS, look)
        self.signature_words, self.verify_words = ElidedLabel(signature_words(None)), ElidedLabel()
        self.pages, self._stack = QTabBar(), QStackedWidget()
        self._build()
        self.set_verify(None)
        self.strip.jump.connect(self.jump)
        self.declines.jump.connect(self.jump)
        self.pages.currentChanged.connect(self._stack.setCurrentIndex)

    def _build(self) -> None:
        self._words.setObjectName("capture_words")
        self.strip.setVisible(False)
        head = QHBoxLayout()
        head.setContentsMargins(6, 0, 6, 0)
        head.addWidget(self._words, 1)
        head.addWidget(self._legend)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(self.strip)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(_below(self._needs, self.needs))
        split.addWidget(self._page_box())
        split.setStretchFactor(0, 2)
        split.setStretchFactor(1, 3)
        split.setSizes([450, 570])
        layout.addWidget(split, 1)

    def _page_box(self) -> QWidget:
        self.pages.setObjectName("capture_pages")
        self.pages.setAccessibleName(tr("Pages of the capture panel"))
        self.pages.setDrawBase(False)
        self.pages.setExpanding(False)
        contents = (
            self.declines,
            self.slots,
            self.lost,
            _below(self.signature_words, self.signature),
            _below(self.verify_words, self.verified),
        )
        for title, content in zip(PAGES, contents, strict=True):
            self.pages.addTab(tr(title))
            self._stack.addWidget(content)
        box = QWidget()
        layout = QVBoxLayout(box)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.pages)
        layout.addWidget(self._stack, 1)
        return box

    def show_page(self, title: str) -> None:
        """Brings a page to the front."""
        self.pages.setCurrentIndex(PAGES.index(title))

    def set_capture(self, capture: CaptureInfo | None) -> None:
        """Shows another capture."""
        self._words.setText(capture_text(capture) if capture is not None else tr(NOTHING))
        parts = stretches(capture) if capture is not None else []
        self.strip.set_parts(parts)
        self._legend.set_parts(parts)
        declines = capture.declines if capture is not None else []
        self.declines.set_rows(decline_rows(declines))
        self._title(
            DECLINES,
            tr("Declines ({declines:,})", declines=len(declines)) if declines else tr("Declines"),
        )
        if capture is not None:
            self.show_page(DECLINES if declines else SLOTS)

    def set_verify(self, verify: VerifyInfo | None) -> None:
        """Shows another verification."""
        text = tr("Verify ×N replays steps, computes them eagerly too, and compares them here")
        self.verify_words.setText(text if verify is None else verify_text(verify))
        self.verified.set_rows(verify_rows(verify))
        self._title(
            VERIFY,
            tr("Verify") if verify is None else f"{tr('Verify')} {'✓' if verify.equal else '✗'}",
        )
        if verify is not None:
            self.show_page(VERIFY)
            self._show_difference(verify)

    def _show_difference(self, verify: VerifyInfo) -> None:
        first = verify.first_difference
        if first is not None and first < len(verify.compared):
            self.verified.view.scrollTo(self.verified.model.index(first, 0))

    def set_slots(self, slots: list[SlotInfo]) -> None:
        """Shows the live counts of the graph slots."""
        if slots != self._live:
            self._live = slots
            self.slots.set_rows(slot_rows(slots, self._slots.graphs))

    def set_details(self, slots: SlotsInfo) -> None:
        """Shows the slots in full: preconditions, signature, lost graphs."""
        self._slots = slots
        self._needs.setText(precondition_words(slots.preconditions))
        self.needs.set_rows(precondition_rows(slots.preconditions))
        self.slots.set_rows(slot_rows(self._live, slots.graphs))
        lost = lost_rows(slots.graphs)
        self.lost.set_rows(lost)
        self._title(LOST, tr("Lost graphs ({lost:,})", lost=len(lost)) if lost else tr("Lost graphs"))
        graph = next(iter(slots.graphs), None)
        self.signature_words.setText(signature_words(graph))
        self.signature.set_rows(signature_rows(slots, graph) if graph is not None else [])
        self._widen(changed_columns(graph))

    def _widen(self, columns: list[int]) -> None:
        """Room for old and new where a field differs."""
        for column in columns:
            self.signature.view.resizeColumnToContents(column)

    def _title(self, page: str, text: str) -> None:
        self.pages.setTabText(PAGES.index(page), text)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        for part in (self.strip, self._legend, self.needs, self.declines, self.slots, self.lost):
            part.set_look(look)
        for table in (self.signature, self.verified):
            table.set_look(look)


def _below(words: ElidedLabel, table: TablePanel) -> QWidget:
    """A table with a line of words above it."""
    words.setProperty("role", "muted")
    words.setContentsMargins(6, 2, 6, 2)
    box = QWidget()
    layout = QVBoxLayout(box)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    layout.addWidget(words)
    layout.addWidget(table, 1)
    return box

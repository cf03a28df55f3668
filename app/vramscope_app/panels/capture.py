"""What a capture held: segments drawn in order, declines with their reasons, the graph slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSplitter, QVBoxLayout, QWidget

from vramscope_app.panels.table import TablePanel
from vramscope_app.rows.run import capture_text
from vramscope_app.rows.tables import DECLINE_HEADINGS, SLOT_HEADINGS, decline_rows, slot_rows

if TYPE_CHECKING:
    from vramscope.messages.live import SlotInfo
    from vramscope.messages.running import CaptureInfo, SegmentInfo
    from vramscope_app.look import Look

STRIP_HEIGHT = 16


class SegmentStrip(QWidget):
    """The program's steps from left to right: captured ones filled, seams hatched."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._segments: list[SegmentInfo] = []
        self.setObjectName("segments")
        self.setAccessibleName("Segments of the captured program")

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """As wide as there is room."""
        return QSize(300, STRIP_HEIGHT)

    def set_segments(self, segments: list[SegmentInfo]) -> None:
        """Shows other segments."""
        self._segments = segments
        words = ("captured" if item.captured else "eager" for item in segments)
        spans = (f"steps {item.start} to {item.end - 1}" for item in segments)
        self.setToolTip("\n".join(f"{span}: {word}" for span, word in zip(spans, words, strict=True)))
        self.setAccessibleDescription(self.toolTip())
        self.setVisible(bool(segments))
        self.update()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Paints the segments."""
        painter = QPainter(self)
        end = max((item.end for item in self._segments), default=1)
        scale = self.width() / end
        for item in self._segments:
            area = QRectF(item.start * scale, 0, max((item.end - item.start) * scale - 1, 1.5), self.height())
            theme = self._look.theme
            style = Qt.BrushStyle.SolidPattern if item.captured else Qt.BrushStyle.BDiagPattern
            painter.fillRect(area, QBrush(QColor(theme.good if item.captured else theme.warning), style))
        painter.end()


class CapturePanel(QWidget):
    """The last capture."""

    jump = Signal(str)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._words = QLabel("Nothing was captured yet")
        self._words.setObjectName("capture_words")
        self.strip = SegmentStrip(look)
        self.strip.setVisible(False)
        self.declines = TablePanel("declines", "Declines", DECLINE_HEADINGS, look, detail=True)
        self.slots = TablePanel("slots", "Graph slots", SLOT_HEADINGS, look)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(self.declines)
        split.addWidget(self.slots)
        split.setSizes([680, 300])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        self._words.setContentsMargins(6, 0, 6, 0)
        layout.addWidget(self._words)
        layout.addWidget(self.strip)
        layout.addWidget(split, 1)
        self.declines.jump.connect(self.jump)

    def set_capture(self, capture: CaptureInfo | None) -> None:
        """Shows another capture."""
        self._words.setText(capture_text(capture) if capture is not None else "Nothing was captured yet")
        self.strip.set_segments(capture.segments if capture is not None else [])
        self.declines.set_rows(decline_rows(capture.declines) if capture is not None else [])

    def set_slots(self, slots: list[SlotInfo]) -> None:
        """Shows the graph slots."""
        self.slots.set_rows(slot_rows(slots))

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.strip.set_look(look)
        self.declines.set_look(look)
        self.slots.set_look(look)

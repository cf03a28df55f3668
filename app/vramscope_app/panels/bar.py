"""The component bar, painted: stacked blocks, the card's end, hatching for unknown; and its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QToolTip, QWidget

from vramscope_app.panels.flow import FlowLayout
from vramscope_app.rows.bar import EMPTY_BAR, Bar, Block, LegendEntry
from vramscope_app.theme import component_colour
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope_app.look import Look

UNKNOWN_WIDTH = 26
PLAN_HEIGHT = 24
MEASURED_HEIGHT = 7
GAP = 3
LINE_MARGIN = 4


class ComponentBar(QWidget):
    """The plan's bar and, once something runs, a thinner measured one below it on the same scale."""

    def __init__(self, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("component_bar")
        self._look = look
        self._plan, self._measured = EMPTY_BAR, EMPTY_BAR
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(tr("Components against the card"))

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Wide, and as high as both bars and the card's line."""
        return QSize(400, LINE_MARGIN + PLAN_HEIGHT + GAP + MEASURED_HEIGHT + LINE_MARGIN)

    def set_bars(self, plan: Bar, measured: Bar) -> None:
        """Shows other bars."""
        if (plan, measured) != (self._plan, self._measured):
            self._plan, self._measured = plan, measured
            self.setAccessibleDescription("; ".join(block.tip for block in plan.blocks))
            self.update()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self.update()

    def _scale(self) -> float:
        unknown = sum(not block.known for block in self._plan.blocks)
        return max(self.width() - 2 - unknown * UNKNOWN_WIDTH, 1)

    def _rectangles(self) -> list[tuple[QRectF, Block]]:
        """Every block of the plan's bar; unknown ones have a fixed width after the known ones."""
        scale, top, found = self._scale(), LINE_MARGIN, []
        end = 1.0
        for block in self._plan.blocks:
            if block.known and block.width:
                left = max(end, 1 + block.start * scale)
                rectangle = QRectF(left, top, max(block.width * scale, 2.0), PLAN_HEIGHT)
                found.append((rectangle, block))
                end = rectangle.right()
        for block in self._plan.blocks:
            if not block.known:
                found.append((QRectF(end, top, UNKNOWN_WIDTH, PLAN_HEIGHT), block))
                end += UNKNOWN_WIDTH
        return found

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Paints track, blocks, measured bar and the card's end."""
        painter = QPainter(self)
        theme = self._look.theme
        track = QRectF(0.5, LINE_MARGIN - 0.5, self.width() - 1, PLAN_HEIGHT + 1)
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.setBrush(QColor(theme.base))
        painter.drawRect(track)
        for rectangle, block in self._rectangles():
            self._paint_block(painter, rectangle, block)
        self._paint_measured(painter)
        if self._plan.card > 0:
            self._paint_card(painter)
        painter.end()

    def _paint_block(self, painter: QPainter, rectangle: QRectF, block: Block) -> None:
        colour = QColor(component_colour(block.name))
        if block.known:
            painter.fillRect(rectangle, colour)
            painter.fillRect(QRectF(rectangle.right() - 1, rectangle.top(), 1, rectangle.height()),
                             QColor(self._look.theme.base))  # fmt: skip
            return
        painter.fillRect(rectangle, QBrush(QColor(self._look.theme.muted), Qt.BrushStyle.BDiagPattern))

    def _paint_measured(self, painter: QPainter) -> None:
        scale, top = self._scale(), LINE_MARGIN + PLAN_HEIGHT + GAP
        for block in self._measured.blocks:
            if block.width:
                rectangle = QRectF(
                    1 + block.start * scale, top, max(block.width * scale, 1.0), MEASURED_HEIGHT
                )
                painter.fillRect(rectangle, QColor(component_colour(block.name)))

    def _paint_card(self, painter: QPainter) -> None:
        x = 1 + self._plan.card * self._scale()
        theme = self._look.theme
        over = any(block.start + block.width > self._plan.card + 1e-12 for block in self._plan.blocks)
        colour = QColor(theme.bad if over else theme.text)
        bottom = LINE_MARGIN + PLAN_HEIGHT + LINE_MARGIN
        painter.fillRect(QRectF(min(x, self.width() - 2), 0, 2, bottom), colour)
        if over:
            self._paint_excess(painter, x)
            return
        metrics = painter.fontMetrics()
        width = metrics.horizontalAdvance(self._plan.label)
        left = min(x - width - 8, self.width() - width - 8)
        free = max((r.right() for r, _ in self._rectangles()), default=0.0)
        if left > free + 8:
            painter.setPen(colour)
            painter.drawText(QRectF(left, LINE_MARGIN, width + 2, PLAN_HEIGHT),
                             int(Qt.AlignmentFlag.AlignVCenter), self._plan.label)  # fmt: skip

    def _paint_excess(self, painter: QPainter, card: float) -> None:
        """Hatches what does not fit and writes the card's size at its end."""
        theme = self._look.theme
        excess = QRectF(card + 2, LINE_MARGIN, self.width() - card - 3, PLAN_HEIGHT)
        shade = QColor(theme.base)
        shade.setAlpha(110)
        painter.fillRect(excess, QBrush(shade, Qt.BrushStyle.FDiagPattern))
        width = painter.fontMetrics().horizontalAdvance(self._plan.label) + 12
        if excess.width() > width + 8:
            label = QRectF(card + 6, LINE_MARGIN + 3, width, PLAN_HEIGHT - 6)
            painter.fillRect(label, QColor(theme.base))
            painter.setPen(QColor(theme.bad))
            painter.drawText(label, int(Qt.AlignmentFlag.AlignCenter), self._plan.label)

    def event(self, event: QEvent) -> bool:
        """Tells what lies under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            hit = [block.tip for area, block in self._rectangles() if area.contains(event.pos())]
            text = hit[0] if hit else self._plan.label
            QToolTip.showText(event.globalPos(), text, self)
            return True
        return super().event(event)


class Swatch(QWidget):
    """A small square in a component's colour; hatched when its bytes are unknown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(11, 11)
        self._brush = QBrush(Qt.GlobalColor.transparent)

    def set_brush(self, brush: QBrush) -> None:
        """Another fill."""
        self._brush = brush
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Fills the square."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._brush)
        painter.end()


class LegendCell(QWidget):
    """One component: colour, name, planned bytes and their certainty, measured bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._swatch, self._name, self._planned, self._measured = Swatch(), QLabel(), QLabel(), QLabel()
        self._name.setProperty("role", "muted")
        self._planned.setProperty("role", "value")
        self._measured.setProperty("role", "muted")
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(6)
        grid.setVerticalSpacing(0)
        grid.addWidget(self._swatch, 0, 0, Qt.AlignmentFlag.AlignVCenter)
        grid.addWidget(self._name, 0, 1, 1, 2)
        grid.addWidget(self._planned, 1, 1)
        grid.addWidget(self._measured, 1, 2)
        grid.setColumnStretch(2, 1)

    def show_entry(self, entry: LegendEntry, look: Look, *, measured: bool) -> None:
        """Shows another component; ``measured``: whether any of them was measured, so that lines agree."""
        hatched = entry.certainty == "unknown"
        colour = QColor(look.theme.muted if hatched else component_colour(entry.name))
        pattern = Qt.BrushStyle.BDiagPattern if hatched else Qt.BrushStyle.SolidPattern
        self._swatch.set_brush(QBrush(colour, pattern))
        self._name.setText(tr(entry.name))
        told = "" if hatched or entry.certainty == "growing" else tr(entry.certainty)
        certainty = f"  <span style='font-weight:400'>{told}</span>" if told else ""
        self._planned.setText(f"{entry.planned}{certainty}")
        self._measured.setVisible(measured)
        self._measured.setText(tr("· {measured} measured", measured=entry.measured) if entry.measured else "")
        self.setToolTip(entry.tip)


class Legend(QWidget):
    """A cell a component, in as many columns as there is room for."""

    def __init__(self, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("legend")
        self._look = look
        self._entries: tuple[LegendEntry, ...] = ()
        self._flow = FlowLayout(self, spacing=6, columns=True)
        self._cells: list[LegendCell] = []

    def set_entries(self, entries: tuple[LegendEntry, ...]) -> None:
        """Shows other entries; labels are made once and reused."""
        if entries == self._entries:
            return
        self._entries = entries
        while len(self._cells) < len(entries):
            cell = LegendCell()
            self._flow.addWidget(cell)
            self._cells.append(cell)
        measured = any(entry.measured for entry in entries)
        for place, cell in enumerate(self._cells):
            cell.setVisible(place < len(entries))
            if place < len(entries):
                cell.show_entry(entries[place], self._look, measured=measured)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        entries, self._entries = self._entries, ()
        self.set_entries(entries)

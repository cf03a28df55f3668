"""The axes: a table to edit maxima in, and beside it every symbol's interval as a bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QSplitter, QToolTip, QVBoxLayout, QWidget

from vramscope_app.panels.table import TablePanel
from vramscope_app.rows.axes import AXIS_HEADINGS, MAXIMUM_COLUMN, AxisBar, axis_bars, axis_rows, ticks
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint
    from PySide6.QtGui import QMouseEvent, QPaintEvent
    from PySide6.QtWidgets import QTableView

    from vramscope.messages.planning import PlanInfo
    from vramscope_app.look import Look

MARGIN = 8
THICK = 9
ARROW = 7


class AxisChart(QWidget):
    """A bar a row of the table, scrolled with it."""

    chosen = Signal(int)
    """The row whose bar was clicked."""

    def __init__(self, table: QTableView, look: Look) -> None:
        super().__init__()
        self._table, self._look = table, look
        self._bars: list[AxisBar] = []
        self._ticks: list[tuple[float, str]] = []
        self.setObjectName("axis_chart")
        self.setAccessibleName(tr("Intervals of the axes"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumWidth(110)
        table.verticalScrollBar().valueChanged.connect(self.update)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """About a third of the dock."""
        return QSize(260, 120)

    def set_bars(self, bars: list[AxisBar], marks: list[tuple[float, str]]) -> None:
        """Shows other bars."""
        if (bars, marks) != (self._bars, self._ticks):
            self._bars, self._ticks = bars, marks
            self.setAccessibleDescription("; ".join(bar.tip.replace("\n", ", ") for bar in bars))
            self.update()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self.update()

    def _top(self) -> int:
        return self._table.horizontalHeader().height() + 1

    def _middle(self, row: int) -> float:
        height = self._table.verticalHeader().defaultSectionSize()
        return self._top() + row * height - self._table.verticalScrollBar().value() + height / 2

    def _x(self, place: float) -> float:
        return MARGIN + place * (self.width() - 2 * MARGIN - ARROW)

    def _row_at(self, place: QPoint) -> int:
        height = self._table.verticalHeader().defaultSectionSize()
        offset = place.y() - self._top() + self._table.verticalScrollBar().value()
        return offset // height if offset >= 0 and place.y() >= self._top() else -1

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Paints the scale where the table has its headings, and the bars beside its rows."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._look.theme
        painter.fillRect(self.rect(), QColor(theme.base))
        self._paint_scale(painter)
        painter.setClipRect(0, self._top(), self.width(), self.height())
        for row, bar in enumerate(self._bars):
            self._paint_bar(painter, bar, self._middle(row))
        painter.end()

    def _paint_scale(self, painter: QPainter) -> None:
        theme, top, free = self._look.theme, self._top(), -1.0
        painter.fillRect(QRectF(0, 0, self.width(), top - 1), QColor(theme.raised))
        for place, text in self._ticks:
            x, width = self._x(place), painter.fontMetrics().horizontalAdvance(text)
            left = min(max(x - width / 2, 2.0), self.width() - width - 2.0)
            painter.setPen(QPen(QColor(theme.border), 1))
            painter.drawLine(int(x), top, int(x), self.height())
            if left > free:
                painter.setPen(QColor(theme.muted))
                painter.drawText(QRectF(left, 0, width + 2, top), int(Qt.AlignmentFlag.AlignVCenter), text)
                free = left + width + 8

    def _paint_bar(self, painter: QPainter, bar: AxisBar, middle: float) -> None:
        theme = self._look.theme
        colour = QColor(
            theme.bad if bar.refused else theme.accent if bar.certainty == "exact" else theme.warning
        )
        left, right = self._x(bar.start), self._x(bar.end)
        area = QRectF(left - 2, middle - THICK / 2, max(right - left, 0) + 4, THICK)
        painter.setPen(Qt.PenStyle.NoPen)
        if bar.refused:
            painter.setBrush(QBrush(colour, Qt.BrushStyle.BDiagPattern))
            painter.drawRect(area)
            painter.setBrush(colour)
            tip = area.right()
            half = THICK * 0.8
            painter.drawPolygon(
                QPolygonF(
                    [QPointF(tip, middle - half), QPointF(tip + ARROW, middle), QPointF(tip, middle + half)]
                )
            )
            return
        painter.setBrush(colour)
        if bar.current is None:
            painter.drawRoundedRect(area, 2, 2)
            return
        self._paint_use(
            painter, bar.current, QRectF(self._x(0), area.top(), right + 2 - self._x(0), THICK), colour
        )

    def _paint_use(self, painter: QPainter, current: float, area: QRectF, colour: QColor) -> None:
        """What is in use full, what is reserved ahead hatched, a mark between them."""
        now = self._x(current)
        used = QRectF(area.left(), area.top(), max(now - area.left(), 0), THICK)
        ahead = QRectF(now, area.top(), max(area.right() - now, 0), THICK)
        painter.drawRect(used)
        painter.setBrush(QBrush(colour, Qt.BrushStyle.BDiagPattern))
        painter.drawRect(ahead)
        painter.fillRect(QRectF(now - 1, area.top() - 3, 2, THICK + 6), QColor(self._look.theme.text))

    def event(self, event: QEvent) -> bool:
        """Tells what lies under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            row = self._row_at(event.pos())
            text = self._bars[row].tip if 0 <= row < len(self._bars) else ""
            QToolTip.showText(event.globalPos(), text, self)
            return True
        return super().event(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """A click chooses the row."""
        row = self._row_at(event.position().toPoint())
        if 0 <= row < len(self._bars):
            self.chosen.emit(row)


class AxesPanel(QWidget):
    """Table and chart side by side, of a plan and of how far a run is."""

    jump = Signal(str)
    edited = Signal(str, str)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._plan: PlanInfo | None = None
        self._position = 0
        self.table = TablePanel(
            "axes",
            tr("Bounded axes"),
            AXIS_HEADINGS,
            look,
            detail=True,
            empty=tr("The symbols in the model's shapes, and what bounds each"),
        )
        self.chart = AxisChart(self.table.view, look)
        self.table.jump.connect(self.jump)
        self.table.edited.connect(self.edited)
        self.chart.chosen.connect(self.table.view.selectRow)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.setChildrenCollapsible(False)
        split.addWidget(self.table)
        split.addWidget(self.chart)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(split)

    def set_plan(self, plan: PlanInfo | None) -> None:
        """Shows another plan's axes."""
        self._plan = plan
        self._show()

    def set_position(self, position: int) -> None:
        """How many tokens there are now; 0 while nothing runs."""
        if position != self._position:
            self._position = position
            self._show()

    def _show(self) -> None:
        self.table.set_rows(axis_rows(self._plan, self._position))
        self.chart.set_bars(axis_bars(self._plan, self._position), ticks(self._plan))

    def edit_maximum(self, symbol: str) -> None:
        """Opens the editor of a symbol's maximum."""
        self.table.edit_cell(symbol, MAXIMUM_COLUMN)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self.table.set_look(look)
        self.chart.set_look(look)

"""One strip chart of the live dock: curves with their peaks kept, phases behind them, marks over them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPainter
from PySide6.QtWidgets import QGraphicsItem, QToolTip

from vramscope_app.panels.ticks import (
    AXIS_WIDTH,
    byte_spacing,
    byte_ticks,
    count_spacing,
    count_ticks,
    log_spacing,
    log_ticks,
    plain_spacing,
    plain_ticks,
)
from vramscope_app.rows.live import CAPTURE, EAGER, PREFILL, REPLAY, ends, logarithms
from vramscope_app.rows.series import peaks
from vramscope_app.theme import component_colour
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vramscope_app.look import Look
    from vramscope_app.rows.live import Mark, Phase

    Curve = tuple[NDArray[np.float64], NDArray[np.float64]]

PHASE_PART = 0.14
"""How much of its colour a phase's stripe has; mixed beforehand: transparent ones cost more."""
TOP_ROOM = 6
"""Pixels above a chart, so that the words of the highest tick are whole."""
NEAR_PIXELS = 5
APART_PIXELS = 1.5
"""Marks nearer than this to the one before are not drawn over it."""
LABEL_ROOM = 8
"""Pixels beside a phase's name before it is left out."""
SIGNS = {"invalidate": ("✗", "bad"), "grow": ("▲", "warning"), "decline": ("!", "warning"),
         "capture": ("●", "good")}  # fmt: skip
TICKS = {
    "bytes": (byte_ticks, byte_spacing),
    "counts": (count_ticks, count_spacing),
    "plain": (plain_ticks, plain_spacing),
    "log": (log_ticks, log_spacing),
}


def phase_colours(look: Look) -> dict[str, str]:
    """The colour of each kind of phase; its name stands beside it, so that colour is never alone."""
    return {
        PREFILL: component_colour("weights"),
        EAGER: component_colour("KV cache"),
        CAPTURE: component_colour("workspace"),
        REPLAY: look.theme.good,
    }


def blend(ground: QColor, colour: QColor) -> QColor:
    """A colour thinned with the ground's."""
    pairs = zip(ground.getRgb()[:3], colour.getRgb()[:3], strict=True)  # type: ignore[index]  # stubs say object
    return QColor(*(round(under + (over - under) * PHASE_PART) for under, over in pairs))


class Backdrop(pg.UIGraphicsItem):  # type: ignore[misc]  # pyqtgraph carries no types
    """Phases as faint stripes with their names, marks as lines with a sign; only what is in view."""

    def __init__(self, *, named: bool) -> None:
        super().__init__()
        self._named = named
        self._look: Look | None = None
        self._colours: dict[str, QColor] = {}
        self._phases: list[tuple[float, float, str]] = []
        self._marks: list[tuple[float, str]] = []
        self.setZValue(-10)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        base = QColor(look.theme.base)
        self._colours = {kind: blend(base, QColor(name)) for kind, name in phase_colours(look).items()}
        self.update()

    def set_parts(self, phases: list[tuple[float, float, str]], marks: list[tuple[float, str]]) -> None:
        """Shows other phases (begin, end, kind) and marks (place, kind)."""
        if (phases, marks) != (self._phases, self._marks):
            self._phases, self._marks = phases, marks
            self.update()

    def paint(self, painter: QPainter, *_: object) -> None:
        """Fills the stripes, then writes names and signs in pixels."""
        if self._look is None:
            return
        view, colours = self.boundingRect(), self._colours
        transform, font = painter.transform(), painter.font()
        seen = [item for item in self._phases if item[1] >= view.left() and item[0] <= view.right()]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        for begun, ended, kind in seen:
            painter.fillRect(QRectF(begun, view.top(), ended - begun, view.height()), colours[kind])
        painter.resetTransform()
        font.setPointSizeF(max(font.pointSizeF() - 1.5, 6.5))
        painter.setFont(font)
        area = transform.mapRect(view)
        if self._named:
            for begun, ended, kind in seen:
                self._name(painter, area, transform.map(QPointF(begun, 0)).x(),
                           transform.map(QPointF(ended, 0)).x(), kind)  # fmt: skip
        drawn = -math.inf
        for place, kind in self._marks:
            x = transform.map(QPointF(place, 0)).x()
            if view.left() <= place <= view.right() and x - drawn >= APART_PIXELS:
                self._sign(painter, area, x, kind)
                drawn = x
        painter.setTransform(transform)

    def _name(self, painter: QPainter, area: QRectF, left: float, right: float, kind: str) -> None:
        assert self._look is not None
        left, right = max(left, area.left()), min(right, area.right())
        metrics = painter.fontMetrics()
        if right - left > metrics.horizontalAdvance(tr(kind)) + LABEL_ROOM:
            painter.setPen(QColor(self._look.theme.muted))
            room = QRectF(left + 3, area.top() + 1, right - left, metrics.height())
            painter.drawText(room, int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop), tr(kind))

    def _sign(self, painter: QPainter, area: QRectF, x: float, kind: str) -> None:
        assert self._look is not None
        sign, tone = SIGNS.get(kind, ("·", "info"))
        colour, metrics = QColor(self._look.tone(tone)), painter.fontMetrics()
        painter.setPen(colour)
        top = area.top() + (metrics.height() + 2 if self._named else 1)
        painter.drawLine(QPointF(x, top + metrics.height()), QPointF(x, area.bottom()))
        width = metrics.horizontalAdvance(sign)
        left = min(max(x - width / 2, area.left()), area.right() - width)
        painter.drawText(QPointF(left, top + metrics.ascent()), sign)


class StripChart(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph carries no types
    """A plot over time or steps: the mouse moves it sideways only, and says so."""

    moved = Signal()
    """The user moved or zoomed the picture."""

    def __init__(self, name: str, *, curves: int, named: bool) -> None:
        super().__init__()
        self.setAccessibleName(name)
        item = self.getPlotItem()
        item.hideButtons()
        item.setMenuEnabled(False)
        item.setMinimumHeight(60)
        item.layout.setContentsMargins(1, TOP_ROOM, 1, 1)
        item.getAxis("left").setWidth(AXIS_WIDTH)
        for side in ("left", "bottom"):
            item.getAxis(side).enableAutoSIPrefix(enable=False)
            item.getAxis(side).setCacheMode(QGraphicsItem.CacheMode.DeviceCoordinateCache)
        self.box = item.getViewBox()
        self.box.setMouseEnabled(x=True, y=False)
        self.box.setDefaultPadding(0.0)
        self.box.sigRangeChangedManually.connect(self._was_moved)
        self.backdrop = Backdrop(named=named)
        self.addItem(self.backdrop, ignoreBounds=True)
        self.curves = [self.plot([], [], stepMode="right") for _ in range(curves)]
        self.limit = pg.InfiniteLine(angle=0)
        self.addItem(self.limit, ignoreBounds=True)
        self.limit.hide()
        self._room = 1.35 if named else 1.15
        self._log, self._top, self._decades = False, 0.0, (0.0, 0.0)
        self._marks: list[tuple[float, str]] = []
        self.scene().sigMouseMoved.connect(self._tell)

    def set_look(self, look: Look, colours: Sequence[str]) -> None:
        """Draws in another theme; pens stay one pixel wide, wider ones are 35 times slower."""
        theme = look.theme
        font = QFont(self.font())
        font.setPointSizeF(max(font.pointSizeF() - 1.0, 7.0))
        self.setBackground(theme.base)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # what lies below stays
        for side in ("left", "bottom"):
            axis = self.getAxis(side)
            axis.setPen(QColor(theme.border))
            axis.setTextPen(QColor(theme.muted))
            axis.setTickFont(font)
        self.limit.setPen(pg.mkPen(theme.bad, width=1, style=Qt.PenStyle.DashLine))
        self.backdrop.set_look(look)
        for curve, colour in zip(self.curves, colours, strict=False):
            curve.setPen(pg.mkPen(QColor(colour), width=1))

    def set_axis(self, title: str, kind: str, colour: str) -> None:
        """What the left axis is called, and whether it counts bytes, things, numbers or orders of them."""
        self._log, self._top, self._decades = kind == "log", 0.0, (0.0, 0.0)
        axis = self.getAxis("left")
        axis.setLabel(title, color=colour)
        axis.tickStrings, spacing = TICKS[kind]
        axis.tickSpacing = spacing
        axis.picture = None
        axis.update()

    def set_backdrop(self, phases: Sequence[Phase], marks: Sequence[Mark], *, by_time: bool) -> None:
        """Shows phases and marks."""
        self._marks = [(mark.place(by_time=by_time), f"{mark.kind}: {mark.text}") for mark in marks]
        self.backdrop.set_parts(
            [(*phase.span(by_time=by_time), phase.kind) for phase in phases],
            [(mark.place(by_time=by_time), mark.kind) for mark in marks],
        )

    def draw(self, curves: Sequence[Curve], *, least: float = 0.0) -> None:
        """Draws what is in view; the axis ends with room over the highest point, at ``least`` or more."""
        low, high = self.box.viewRange()[0]
        columns = max(int(self.box.width()), 50)
        shown = [peaks(x, y, low, high, columns) for x, y in curves]
        if self._log:
            shown = [(x, logarithms(y)) for x, y in shown]
        for item, (x, y) in zip(self.curves, shown, strict=False):
            item.setData(x, y, connect="finite")
        for item in self.curves[len(shown) :]:
            item.setData([], [])
        lowest, highest = ends(*(y for _, y in shown))
        if self._log:
            self._set_decades(lowest, highest)
        else:
            self._set_top(max(highest, least))

    def _set_top(self, size: float) -> None:
        """Moves the axis only when the curves left it or use little of it."""
        if not 0.7 * self._top <= size * (self._room - 0.1) <= self._top:
            self._top = max(size * self._room, 1e-9)
            self.setYRange(0, self._top, padding=0)

    def _set_decades(self, lowest: float, highest: float) -> None:
        """The same in halves of a decade."""
        low, high = math.floor(2 * lowest - 0.2) / 2, math.ceil(2 * highest + 0.6) / 2
        if (low, high) != self._decades:
            self._decades = (low, high)
            self.setYRange(low, high, padding=0)

    def points(self) -> int:
        """Points of the first curve."""
        return len(self.curves[0].xData) if self.curves[0].xData is not None else 0

    def _was_moved(self, *_: Any) -> None:  # noqa: ANN401 - pyqtgraph carries no types
        self.moved.emit()

    def _tell(self, place: QPointF) -> None:
        """Says what the mark under the mouse is."""
        pixel = self.box.viewPixelSize()[0]
        x = self.box.mapSceneToView(place).x()
        near = [text for mark, text in self._marks if abs(mark - x) <= NEAR_PIXELS * pixel]
        if near:
            QToolTip.showText(self.mapToGlobal(self.mapFromScene(place)), "\n".join(near[:6]), self)

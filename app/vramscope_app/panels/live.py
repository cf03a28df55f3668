"""Live memory: bytes held and allocations made, over time or per step, drawn at most 30 times a second."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import (
    QButtonGroup,
    QGraphicsItem,
    QHBoxLayout,
    QLabel,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from vramscope.messages.live import EMPTY_SNAPSHOT
from vramscope_app.panels.steady import SteadyLabel
from vramscope_app.rows.live import LiveSeries
from vramscope_app.text import exact_bytes, figure_text, figure_tip, short_bytes
from vramscope_app.theme import component_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.live import SnapshotInfo, TokenInfo
    from vramscope_app.look import Look

AXIS_WIDTH = 66
NUMBER_CHARACTERS = 10
NUMBERS = (
    ("step", "allocs last step"),
    ("held", "held"),
    ("peak", "peak"),
    ("beside", "beside the plan"),
)


def byte_ticks(values: Sequence[float], _scale: float, _spacing: float) -> list[str]:
    """Tick texts of an axis of bytes; the 0 at its end would be cut off."""
    return [short_bytes(round(value)) if value else "" for value in values]


def byte_spacing(low: float, high: float, size: float) -> list[tuple[float, float]]:
    """Tick distances that are powers of two, a tick about every 34 pixels."""
    wanted = max((high - low) / max(size / 34, 1), 1.0)
    return [(float(2 ** math.ceil(math.log2(wanted))), 0.0)]


def count_ticks(values: Sequence[float], _scale: float, _spacing: float) -> list[str]:
    """Tick texts of an axis of counts: whole numbers only."""
    return [f"{value:,.0f}" if abs(value - round(value)) < 1e-9 else "" for value in values]


class LivePanel(QWidget):
    """Two plots above each other with one horizontal axis, and the newest numbers in words."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.series = LiveSeries()
        self._snapshot = EMPTY_SNAPSHOT
        self._bytes_dirty = self._counts_dirty = True
        self._ranges: tuple[float, ...] = ()
        self._good = look.theme.good
        self.by_time, self.by_step = QToolButton(), QToolButton()
        self._values: dict[str, QLabel] = {}
        self.bytes_plot, self.count_plot = pg.PlotWidget(), pg.PlotWidget()
        self._build()
        self._make_curves()
        self.set_look(look)
        self._modes.idToggled.connect(self._mode_changed)

    def _build(self) -> None:
        self._modes = QButtonGroup(self)
        bar = QHBoxLayout()
        bar.setContentsMargins(6, 2, 0, 2)
        bar.setSpacing(10)
        for name, caption in NUMBERS:
            bar.addLayout(self._number(name, caption))
        bar.addStretch(1)
        modes = QHBoxLayout()
        modes.setSpacing(0)
        for place, (button, text) in enumerate(((self.by_time, "Time"), (self.by_step, "Step"))):
            button.setText(text)
            button.setCheckable(True)
            button.setAutoRaise(True)
            button.setToolTip(f"Draw over {text.lower()}")
            self._modes.addButton(button, place)
            modes.addWidget(button)
        bar.addLayout(modes)
        self.by_time.setChecked(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(bar)
        layout.addWidget(self.bytes_plot, 1)
        layout.addWidget(self.count_plot, 1)
        self.bytes_plot.setAccessibleName("Bytes held")
        self.count_plot.setAccessibleName("Allocations made")

    def _number(self, name: str, caption: str) -> QVBoxLayout:
        room = SteadyLabel(f"live_{name}", NUMBER_CHARACTERS, "value", least=NUMBER_CHARACTERS)
        value, below = room.label, QLabel(caption)
        value.setText("–")
        value.setAccessibleName(caption)
        below.setProperty("role", "muted")
        self._values[name] = value
        layout = QVBoxLayout()
        layout.setSpacing(0)
        layout.addWidget(room)
        layout.addWidget(below)
        return layout

    def _make_curves(self) -> None:
        for plot in (self.bytes_plot, self.count_plot):
            item = plot.getPlotItem()
            item.hideButtons()
            item.setMenuEnabled(False)
            item.getAxis("left").setWidth(AXIS_WIDTH)
            for side in ("left", "bottom"):
                item.getAxis(side).enableAutoSIPrefix(enable=False)
                item.getAxis(side).setCacheMode(QGraphicsItem.CacheMode.DeviceCoordinateCache)
            item.getViewBox().setMouseEnabled(x=False, y=False)
            item.getViewBox().setDefaultPadding(0.02)
            item.setMinimumHeight(60)
        self.bytes_plot.getAxis("left").tickStrings = byte_ticks
        self.bytes_plot.getAxis("left").tickSpacing = byte_spacing
        self.count_plot.getAxis("left").tickStrings = count_ticks
        self.bytes_plot.hideAxis("bottom")
        self.count_plot.setXLink(self.bytes_plot)
        self._fill = self.bytes_plot.plot([], [], stepMode="right", pen=None)  # a pen would close its sides
        self._bytes = self.bytes_plot.plot([], [], stepMode="right")
        self._budget = pg.InfiniteLine(angle=0)
        self.bytes_plot.addItem(self._budget, ignoreBounds=True)
        self._budget.hide()
        self._eager = self.count_plot.plot([], [], stepMode="right")
        self._replayed = self.count_plot.plot([], [], stepMode="right")
        for curve in (self._fill, self._bytes, self._eager, self._replayed):
            curve.setDownsampling(auto=True, method="peak")
            curve.setClipToView(True)

    def set_look(self, look: Look) -> None:
        """Draws in another theme; pens stay one pixel wide, wider ones are 35 times slower."""
        theme = look.theme
        font = QFont(self.font())
        font.setPointSizeF(max(font.pointSizeF() - 1.0, 7.0))
        for plot, title in ((self.bytes_plot, "held"), (self.count_plot, "allocations")):
            plot.setBackground(theme.base)
            plot.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # what lies below stays
            for side in ("left", "bottom"):
                axis = plot.getAxis(side)
                axis.setPen(QColor(theme.border))
                axis.setTextPen(QColor(theme.muted))
                axis.setTickFont(font)
            plot.getAxis("left").setLabel(title, color=theme.muted)
        accent = QColor(theme.accent)
        self._bytes.setPen(pg.mkPen(accent, width=1))
        self._fill.setFillLevel(0)
        self._fill.setFillBrush(_faint(accent))
        self._budget.setPen(pg.mkPen(theme.bad, width=1, style=Qt.PenStyle.DashLine))
        self._good = theme.good
        eager, replayed = QColor(component_colour("KV cache")), QColor(theme.good)
        self._eager.setPen(pg.mkPen(eager, width=1))
        self._replayed.setPen(pg.mkPen(replayed, width=1))
        self._soil()
        self._draw_label()
        self.refresh()

    def clear(self) -> None:
        """As before anything ran."""
        self.series.clear()
        self._snapshot = EMPTY_SNAPSHOT
        self._soil()

    def add_token(self, token: TokenInfo) -> None:
        """Takes a step's end."""
        self.series.add_token(token)
        self._soil()

    def add_snapshot(self, snapshot: SnapshotInfo) -> None:
        """Takes the ledger's own numbers."""
        self._snapshot = snapshot
        self.series.add_snapshot(snapshot)
        self._soil()

    def refresh(self) -> None:
        """Draws when something came in since the last time."""
        self.refresh_bytes()
        self.refresh_counts()

    def refresh_bytes(self) -> None:
        """The upper plot and the numbers, when something came in."""
        if not self._bytes_dirty:
            return
        self._bytes_dirty = False
        series, column = (self.series.time, 1) if self.by_time.isChecked() else (self.series.steps, 2)
        for curve in (self._fill, self._bytes):
            _set(curve, series.column(0), series.column(column))
        self._draw_ranges()
        self._tell()

    def refresh_counts(self) -> None:
        """The lower plot, when something came in."""
        if not self._counts_dirty:
            return
        self._counts_dirty = False
        if self.by_time.isChecked():
            time = self.series.time
            _set(self._eager, time.column(0), time.column(2))
            _set(self._replayed, np.zeros(0), np.zeros(0))
            return
        steps = self.series.steps
        made, replayed = steps.column(1), steps.column(3) > 0
        _set(self._eager, steps.column(0), np.where(replayed, np.nan, made))
        _set(self._replayed, steps.column(0), np.where(replayed, made, np.nan))

    def _soil(self) -> None:
        self._bytes_dirty = self._counts_dirty = True

    def shown_points(self) -> tuple[int, int]:
        """Points that the two plots hold."""
        return len(self._bytes.xData), len(self._eager.xData)

    def _mode_changed(self, _button: int, checked: bool) -> None:
        if checked:
            self._draw_label()
            self._soil()
            self.refresh()

    def _draw_ranges(self) -> None:
        budget = self._snapshot.budget
        self._budget.setVisible(budget is not None)
        if budget is not None:
            self._budget.setValue(budget)
        series = self.series.time if self.by_time.isChecked() else self.series.steps
        held = series.column(1 if self.by_time.isChecked() else 2)
        made = series.column(2 if self.by_time.isChecked() else 1)
        place = series.column(0)
        first, last = (float(place[0]), float(place[-1])) if len(place) else (0.0, 0.0)
        ranges = (
            first,
            roomy(last - first),
            roomy(float(held.max(initial=0.0))),
            roomy(float(made.max(initial=3.0))),
        )
        if ranges != self._ranges:
            self._ranges = ranges
            self.count_plot.setXRange(first, first + ranges[1], padding=0)
            self.bytes_plot.setYRange(0, ranges[2], padding=0)
            self.count_plot.setYRange(0, ranges[3], padding=0)

    def _draw_label(self) -> None:
        self.count_plot.getAxis("bottom").setLabel(self._bottom_label())

    def _bottom_label(self) -> str:
        if self.by_time.isChecked():
            return "seconds"
        eager, replayed = component_colour("KV cache"), self._good
        return (
            f"step &nbsp; <span style='color:{eager}'>▬</span> eager "
            f"&nbsp; <span style='color:{replayed}'>▬</span> replayed"
        )

    def _tell(self) -> None:
        now = self._snapshot
        for name, (text, tip) in live_numbers(now).items():
            self._values[name].setText(text)
            self._values[name].setToolTip(tip)


def roomy(size: float) -> float:
    """A range with room that grows in steps of a quarter, so that axes stand still most of the time."""
    return max(1.25 ** math.ceil(math.log(max(size * 1.04, 1e-9), 1.25)), 0.1)


def live_numbers(now: SnapshotInfo) -> dict[str, tuple[str, str]]:
    """The newest numbers: per name the text and its tooltip; dashes before anything ran."""
    if not now.sequence:
        return {name: ("–", "Nothing ran yet") for name, _ in NUMBERS}
    moved = (
        f"uploads {now.uploads:,} ({exact_bytes(now.upload_bytes)})\n"
        f"downloads {now.downloads:,} ({exact_bytes(now.download_bytes)})"
    )
    beside = f"What kernels took beside the plan: {figure_tip(now.kernel_temporaries)}"
    return {
        "step": (f"{now.allocations_last_step:,}", f"Allocations in the last step\n{moved}"),
        "held": (short_bytes(now.allocated_bytes), exact_bytes(now.allocated_bytes)),
        "peak": (short_bytes(now.peak_bytes), exact_bytes(now.peak_bytes)),
        "beside": (figure_text(now.kernel_temporaries), beside),
    }


def _faint(colour: QColor) -> QColor:
    made = QColor(colour)
    made.setAlpha(38)
    return made


def _set(curve: Any, x: Any, y: Any) -> None:  # noqa: ANN401 - pyqtgraph carries no types
    curve.setData(x, y, connect="finite")

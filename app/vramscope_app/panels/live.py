"""The live dock: two strip charts with one horizontal axis, and the newest numbers in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QButtonGroup, QComboBox, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from vramscope.messages.live import EMPTY_SNAPSHOT
from vramscope_app.panels.steady import SteadyLabel
from vramscope_app.panels.strip_chart import StripChart
from vramscope_app.rows.live import CHARTS, LiveSeries, visible
from vramscope_app.text import exact_bytes, figure_text, figure_tip, short_bytes
from vramscope_app.theme import component_colour
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from vramscope.messages.live import Events, SnapshotInfo, TokenInfo
    from vramscope_app.look import Look

NUMBER_CHARACTERS = 10
NUMBERS = (
    ("step", marked("allocs last step")),
    ("held", marked("held")),
    ("peak", marked("peak")),
    ("beside", marked("beside the plan")),
)
KINDS = {"allocations": "counts", "latency": "log", "fill": "plain", "transfers": "bytes"}
"""What the axis of each lower chart counts."""
LEAST = {"allocations": 3.0, "latency": 0.01, "fill": 1.0, "transfers": 64.0}
"""The least end of each lower axis."""
TIPS = {
    marked("Time"): marked("Draw over time"),
    marked("Step"): marked("Draw over steps"),
    marked("Follow"): marked("Keep the newest in view; moving the charts by mouse lets go"),
    marked("Pause"): marked("Stop drawing; what comes meanwhile is kept"),
    marked("All"): marked("Back to the whole run"),
}


class LivePanel(QWidget):
    """Feeds the charts; draws at most 30 times a second, when the window says so."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.series = LiveSeries()
        self._look = look
        self._snapshot = EMPTY_SNAPSHOT
        self._bytes_dirty = self._counts_dirty = True
        self._span: float | None = None
        self._range = (0.0, 0.0)
        self.by_time, self.by_step = QToolButton(), QToolButton()
        self.follow, self.pause, self.whole = QToolButton(), QToolButton(), QToolButton()
        self.chart = QComboBox()
        self._values: dict[str, QLabel] = {}
        self.bytes_plot = StripChart(tr("Bytes held"), curves=1, named=True)
        self.count_plot = StripChart(tr("Allocations made"), curves=2, named=False)
        self._build()
        self.set_look(look)
        self._connect()

    def _build(self) -> None:
        numbers = QHBoxLayout()
        numbers.setContentsMargins(6, 2, 0, 0)
        numbers.setSpacing(10)
        for name, caption in NUMBERS:
            numbers.addLayout(self._number(name, caption))
        numbers.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(numbers)
        layout.addLayout(self._controls())
        layout.addWidget(self.bytes_plot, 1)
        layout.addWidget(self.count_plot, 1)
        self.bytes_plot.hideAxis("bottom")
        self.count_plot.setXLink(self.bytes_plot)

    def _controls(self) -> QHBoxLayout:
        self._modes = QButtonGroup(self)
        self.chart.setObjectName("live_chart")
        self.chart.setAccessibleName(tr("Lower chart"))
        for item in CHARTS:
            self.chart.addItem(tr(item.title), item.id)
        row = QHBoxLayout()
        row.setContentsMargins(4, 0, 4, 0)
        row.setSpacing(2)
        for place, (button, text) in enumerate(((self.by_time, "Time"), (self.by_step, "Step"))):
            _dress(button, text, checkable=True)
            self._modes.addButton(button, place)
            row.addWidget(button)
        row.addSpacing(6)
        row.addWidget(self.chart)
        row.addStretch(1)
        for button, text in ((self.pause, "Pause"), (self.follow, "Follow"), (self.whole, "All")):
            _dress(button, text, checkable=button is not self.whole)
            row.addWidget(button)
        self.by_time.setChecked(True)
        self.follow.setChecked(True)
        return row

    def _number(self, name: str, caption: str) -> QVBoxLayout:
        room = SteadyLabel(f"live_{name}", NUMBER_CHARACTERS, "value", least=NUMBER_CHARACTERS)
        value, below = room.label, QLabel(tr(caption))
        value.setText("–")
        value.setAccessibleName(tr(caption))
        below.setProperty("role", "muted")
        self._values[name] = value
        layout = QVBoxLayout()
        layout.setSpacing(0)
        layout.addWidget(room)
        layout.addWidget(below)
        return layout

    def _connect(self) -> None:
        self._modes.idToggled.connect(self._mode_changed)
        self.chart.currentIndexChanged.connect(self._chart_changed)
        self.follow.toggled.connect(self._follow_changed)
        self.pause.toggled.connect(self._redraw)
        self.whole.clicked.connect(self.show_all)
        for plot in (self.bytes_plot, self.count_plot):
            plot.moved.connect(self._moved)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self.bytes_plot.set_look(look, [look.theme.accent])
        self.bytes_plot.set_axis(tr("held"), "bytes", look.theme.muted)
        self.count_plot.set_look(look, [component_colour("KV cache"), look.theme.good])
        self._chart_changed()

    # What comes in

    def clear(self) -> None:
        """As before anything ran."""
        self.series.clear()
        self._snapshot = EMPTY_SNAPSHOT
        self._soil()
        self.show_all()

    def add_events(self, events: Events) -> None:
        """Takes what changes the run."""
        self.series.add_events(events.events)

    def add_token(self, token: TokenInfo) -> None:
        """Takes a step's end."""
        self.series.add_token(token)
        self._soil()

    def add_snapshot(self, snapshot: SnapshotInfo) -> None:
        """Takes the ledger's own numbers."""
        self._snapshot = snapshot
        self.series.add_snapshot(snapshot)
        self._soil()

    def _soil(self) -> None:
        self._bytes_dirty = self._counts_dirty = True

    # Drawing

    def refresh(self) -> None:
        """Draws when something came in since the last time."""
        self.refresh_bytes()
        self.refresh_counts()

    def refresh_bytes(self) -> None:
        """The upper chart and the numbers, when something came in."""
        if not self._bytes_dirty:
            return
        self._bytes_dirty = False
        self._tell()
        if self.pause.isChecked():
            return
        self._set_range()
        budget = self._snapshot.budget
        self.bytes_plot.limit.setVisible(budget is not None)
        self.bytes_plot.limit.setValue(budget or 0)
        self.bytes_plot.draw([self.series.upper(by_time=self._by_time)], least=1.0)
        self._set_backdrop(self.bytes_plot)

    def refresh_counts(self) -> None:
        """The lower chart, when something came in."""
        if not self._counts_dirty or self.pause.isChecked():
            return
        self._counts_dirty = False
        chart = self.chart.currentData()
        self.count_plot.draw(self.series.lower(chart, by_time=self._by_time), least=LEAST[chart])
        self._set_backdrop(self.count_plot)

    @property
    def _by_time(self) -> bool:
        return self.by_time.isChecked()

    def _set_backdrop(self, plot: StripChart) -> None:
        plot.set_backdrop(self.series.phases, self.series.marks, by_time=self._by_time)

    def _set_range(self) -> None:
        if not self.follow.isChecked():
            return
        places, _ = self.series.upper(by_time=self._by_time)
        newest = float(places[-1]) if len(places) else 0.0
        begun = self.series.begun if self._by_time else float(places[0]) if len(places) else 0.0
        wanted = visible(begun, newest, self._span)
        if wanted != self._range:
            self._range = wanted
            self.bytes_plot.setXRange(*wanted, padding=0)

    # What the user does

    def _moved(self) -> None:
        """The mouse moved the charts: the newest is no longer kept in view."""
        with QSignalBlocker(self.follow):
            self.follow.setChecked(False)
        self._redraw()

    def _follow_changed(self, follows: bool) -> None:
        if follows:
            low, high = self.bytes_plot.box.viewRange()[0]
            self._span = None if self._range == (low, high) else high - low
        self._redraw()

    def show_all(self) -> None:
        """Back to the whole run, and on with it."""
        self._span, self._range = None, (0.0, 0.0)
        with QSignalBlocker(self.follow):
            self.follow.setChecked(True)
        self._redraw()

    def _redraw(self) -> None:
        self._soil()
        self.refresh()

    def _mode_changed(self, _button: int, checked: bool) -> None:
        if checked:
            self._chart_changed()
            self.show_all()

    def _chart_changed(self) -> None:
        chart = CHARTS[self.chart.currentIndex()]
        self.count_plot.set_axis(tr(chart.axis), KINDS[chart.id], self._look.theme.muted)
        self.count_plot.setAccessibleName(tr(chart.title))
        self.count_plot.getAxis("bottom").setLabel(self._bottom_label())
        self._redraw()

    def _bottom_label(self) -> str:
        """What the axis shows, and which colour is which curve."""
        axis = tr("seconds") if self._by_time else tr("step")
        chart = CHARTS[self.chart.currentIndex()]
        colours = (component_colour("KV cache"), self._look.theme.good)
        if len(chart.curves) < 2 or (chart.id == "allocations" and self._by_time):
            return axis
        names = (
            f"&nbsp; <span style='color:{colour}'>▬</span> {tr(name)}"
            for colour, name in zip(colours, chart.curves, strict=True)
        )
        return f"{axis} {' '.join(names)}"

    def shown_points(self) -> tuple[int, int]:
        """Points that the two charts draw."""
        return self.bytes_plot.points(), self.count_plot.points()

    def _tell(self) -> None:
        for name, (text, tip) in live_numbers(self._snapshot).items():
            self._values[name].setText(text)
            self._values[name].setToolTip(tip)


def _dress(button: QToolButton, text: str, *, checkable: bool) -> None:
    button.setText(tr(text))
    button.setToolTip(tr(TIPS[text]))
    button.setCheckable(checkable)
    button.setAutoRaise(True)
    button.setObjectName(f"live_{text.lower()}")


def live_numbers(now: SnapshotInfo) -> dict[str, tuple[str, str]]:
    """The newest numbers: per name the text and its tooltip; dashes before anything ran."""
    if not now.sequence:
        return {name: ("–", tr("Nothing ran yet")) for name, _ in NUMBERS}
    moved = tr(
        "uploads {uploads:,} ({upload_bytes})\ndownloads {downloads:,} ({download_bytes})",
        uploads=now.uploads,
        upload_bytes=exact_bytes(now.upload_bytes),
        downloads=now.downloads,
        download_bytes=exact_bytes(now.download_bytes),
    )
    beside = tr(
        "What kernels took beside the plan: {kernel_temporaries}",
        kernel_temporaries=figure_tip(now.kernel_temporaries),
    )
    return {
        "step": (f"{now.allocations_last_step:,}", tr("Allocations in the last step\n{moved}", moved=moved)),
        "held": (short_bytes(now.allocated_bytes), exact_bytes(now.allocated_bytes)),
        "peak": (short_bytes(now.peak_bytes), exact_bytes(now.peak_bytes)),
        "beside": (figure_text(now.kernel_temporaries), beside),
    }

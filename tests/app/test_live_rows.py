"""The live charts as numbers: peaks, phases, marks, fill, latency, follow; and the dock that draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import QPointF

from vramscope.messages.live import LeaseInfo, PhasePeak
from vramscope_app.panels.ticks import log_spacing, log_ticks
from vramscope_app.rows.live import LiveSeries, ends, logarithms, step_ends, visible
from vramscope_app.rows.series import CAPACITY, FIRST_ROOM, Series, peaks
from vramscope_app.rows.tables import level_rows

if TYPE_CHECKING:
    from types import ModuleType

    from tests.app.conftest import Script


def test_a_series_grows_as_it_fills_and_keeps_the_newest() -> None:
    series = Series(1, capacity=3 * FIRST_ROOM)
    for place in range(10 * FIRST_ROOM):
        series.append(place)
    assert series.column(0).tolist() == list(range(7 * FIRST_ROOM, 10 * FIRST_ROOM))
    series.clear()
    assert len(series) == 0


@pytest.mark.parametrize("count", [10, 400, 401, 12_345])
def test_no_peak_is_lost_and_little_is_drawn(count: int) -> None:
    x = np.arange(count, dtype=np.float64)
    y = np.sin(x)
    y[count // 2], y[count // 3] = 99.0, -99.0
    places, values = peaks(x, y, 0, count, 100)
    assert len(places) == len(values) <= 204
    assert (values.max(), values.min()) == (99.0, -99.0)
    assert (np.diff(places) >= 0).all()
    assert values[-1] == y[-1]


def test_only_what_is_in_view_is_looked_at_with_a_point_at_either_side() -> None:
    x = np.arange(100, dtype=np.float64)
    places, _ = peaks(x, x, 10.5, 19.5, 50)
    assert places.tolist() == list(range(10, 21))
    assert len(peaks(np.zeros(0), np.zeros(0), 0, 1, 50)[0]) == 0


def test_a_column_with_nothing_stays_nothing() -> None:
    x = np.arange(1000, dtype=np.float64)
    y = np.where(x < 500, np.nan, x)
    _, values = peaks(x, y, 0, 1000, 10)
    assert np.isnan(values[:8]).all()
    assert values[-1] == 999


def run(live: LiveSeries, messages: ModuleType) -> None:
    """A prefill, two eager steps, a capture, two replays."""
    live.add_token(messages.token(0))
    live.add_snapshot(messages.snapshot(30))
    for step in (1, 2):
        live.add_token(messages.token(step))
    live.add_events(
        [messages.event(1, "decline"), messages.event(2, "decline"), messages.event(3, "capture")]
    )
    live.add_token(messages.token(3))
    for step in (4, 5):
        live.add_token(messages.token(step, replayed=True))
    live.add_snapshot(messages.snapshot(60))


def test_phases_follow_each_other_and_a_captured_step_is_one_of_its_own(messages: ModuleType) -> None:
    live = LiveSeries()
    run(live, messages)
    assert [(phase.kind, phase.first, phase.last) for phase in live.phases] == [
        ("prefill", 0, 0), ("eager", 1, 2), ("capture", 3, 3), ("replay", 4, 5),
    ]  # fmt: skip
    assert live.phases[-1].span(by_time=False) == (4, 6)
    begun, ended = live.phases[-1].span(by_time=True)
    assert (begun, ended) == pytest.approx((0.99, 1.0))
    assert live.begun == pytest.approx(-0.005)


def test_events_of_one_moment_are_one_mark_and_allocations_are_none(messages: ModuleType) -> None:
    live = LiveSeries()
    run(live, messages)
    live.add_events([messages.event(9, "allocate"), messages.event(10, "grow")])
    assert [(mark.kind, mark.step) for mark in live.marks] == [("decline", 3), ("capture", 3), ("grow", 6)]
    assert "buffer 10" in live.marks[-1].text
    live.clear()
    assert not live.marks
    assert not live.phases


def test_fill_is_unknown_without_a_cache_and_latency_leaves_the_prefill_out(messages: ModuleType) -> None:
    live = LiveSeries()
    run(live, messages)
    (fill,) = live.lower("fill", by_time=True)
    assert fill[1].tolist() == [100 * 12 / 256] * 2
    eager, replayed = live.lower("latency", by_time=False)
    assert np.isnan(eager[1]).tolist() == [True, False, False, False, True, True]
    assert np.isnan(replayed[1]).tolist() == [True] * 4 + [False] * 2
    up, down = live.lower("transfers", by_time=True)
    assert (up[1][-1], down[1][-1]) == (64, 128)
    empty = msgspec.structs.replace(messages.snapshot(90), capacity=0)
    live.add_snapshot(empty)
    assert np.isnan(live.lower("fill", by_time=True)[0][1][-1])


def test_steps_between_two_snapshots_ended_one_after_the_other() -> None:
    assert step_ends(2.0, [100.0, 200.0, 50.0]) == pytest.approx([1.75, 1.95, 2.0])
    assert step_ends(2.0, []) == []


def test_what_follows_shows_the_newest_span() -> None:
    assert visible(0, 50, 10) == (40, 50)
    low, high = visible(0, 50, None)
    assert (low, high > 50) == (0, True)
    assert visible(1001, 251_000, None) == visible(1002, 251_001, None)


def test_decades_and_ends_leave_unknown_out() -> None:
    assert np.isnan(logarithms(np.array([0.0, -1.0]))).all()
    assert ends(np.array([np.nan, 3.0]), np.array([1.0])) == (1.0, 3.0)
    assert ends(np.array([np.nan])) == (0.0, 0.0)
    assert log_ticks([-1, 0, 2], 1, 1) == ["0.1", "1", "100"]
    assert log_spacing(0, 3, 100) == [(1.0, 0.0)]


def test_what_nobody_measures_is_unknown(messages: ModuleType) -> None:
    now = msgspec.structs.replace(
        messages.snapshot(),
        leases=[LeaseInfo(purpose="weights", bytes=64)],
        phase_peaks=[PhasePeak(phase="prefill", bytes=128)],
    )
    told = {row.key: [cell.text for cell in row.cells[1:3]] for row in level_rows(now)}
    assert told["claimed: weights"] == ["64 B", "–"]
    assert told["left to claim"] == ["unknown", "–"]
    assert told["card, used by everybody"] == told["pool, driver, others"] == ["unknown", "–"]
    assert told["peak in prefill"] == ["–", "128 B"]
    assert level_rows(msgspec.structs.replace(now, sequence=0)) == []
    full = msgspec.structs.replace(now, card_used=now.allocated_bytes + 2**20, card_total=2**34)
    beside = next(row for row in level_rows(full) if row.key == "pool, driver, others")
    assert beside.cells[1].text == "1.00 MiB"


def feed(script: Script, messages: ModuleType, first: int, count: int) -> None:
    for step in range(first, first + count):
        script.client.token.emit(messages.token(step, replayed=step > 10))
        script.client.snapshot.emit(messages.snapshot(30 * (step + 1)))


def test_the_charts_follow_pause_and_come_back(script: Script, messages: ModuleType) -> None:
    script.open()
    live = script.window.live
    live.by_step.setChecked(True)
    feed(script, messages, 0, 20)
    live.refresh()
    assert live.shown_points() == (20, 20)
    live.pause.setChecked(True)
    feed(script, messages, 20, 5)
    live.refresh()
    assert live.shown_points() == (20, 20)
    live.pause.setChecked(False)
    assert live.shown_points() == (25, 25)
    live.bytes_plot.setXRange(5, 9, padding=0)
    live.bytes_plot.box.sigRangeChangedManually.emit([True, False])
    assert not live.follow.isChecked()
    feed(script, messages, 25, 5)
    live.refresh()
    assert live.bytes_plot.box.viewRange()[0] == [5, 9]
    live.follow.setChecked(True)
    assert live.bytes_plot.box.viewRange()[0] == [25, 29]
    live.whole.click()
    low, high = live.bytes_plot.box.viewRange()[0]
    assert (low, high > 29) == (0, True)


def test_every_chart_draws_and_marks_are_told(script: Script, messages: ModuleType) -> None:
    script.open()
    live = script.window.live
    feed(script, messages, 0, 20)
    script.events(messages.event(1, "invalidate"), messages.event(2, "grow"))
    for button in (live.by_time, live.by_step):
        button.setChecked(True)
        for place in range(live.chart.count()):
            live.chart.setCurrentIndex(place)
            live.refresh()
            assert live.count_plot.points() == 20
            assert not live.count_plot.grab().isNull()
    assert live.count_plot.accessibleName() == "Transfers"
    live.bytes_plot.scene().sigMouseMoved.emit(QPointF(5, 5))
    assert len(live.bytes_plot.backdrop._marks) == 2


def test_a_quarter_of_a_million_steps_are_kept(messages: ModuleType) -> None:
    live = LiveSeries()
    for step in range(1000):
        live.add_token(messages.token(step, replayed=True))
    live.add_snapshot(messages.snapshot(1))
    assert len(live.steps) == 1000
    assert CAPACITY >= 250_000

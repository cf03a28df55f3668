"""Events, tokens and snapshots between the engine and the panels: taken at once, shown 30 times a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer

if TYPE_CHECKING:
    from vramscope.messages.live import Events, SnapshotInfo, TokenInfo
    from vramscope_app.controller import Controller
    from vramscope_app.window import MainWindow

BEAT_MILLISECONDS = 11
"""Words and the two live charts take turns, each 30 times a second: together they would make a frame late."""
FRESH_BEATS = 3
"""Beats in which all three have shown the newest."""
TABLE_BEATS = 20
"""Tables of live numbers, costly to draw and slow to read, take one beat in so many: five a second."""
IDLE_BEATS = 90
"""Beats without news before the timer rests."""


class Streams(QObject):
    """Feeds the panels of a window; its timer rests when nothing comes."""

    def __init__(self, controller: Controller, window: MainWindow) -> None:
        super().__init__(window)
        self._control, self._window = controller, window
        self._quiet = self._beat = self._turn = 0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(BEAT_MILLISECONDS)
        self._timer.timeout.connect(self.refresh)
        controller.events.connect(self._take_events)
        controller.token.connect(self._take_token)
        controller.snapshot.connect(self._take_snapshot)
        controller.cleared.connect(self._clear)

    @property
    def refreshing(self) -> bool:
        """Whether the timer runs."""
        return self._timer.isActive()

    def news(self) -> None:
        """Something is to be shown."""
        self._quiet = 0
        if not self._timer.isActive():
            self._timer.start()

    def rest(self) -> None:
        """Nothing is shown any more until there are news."""
        self._timer.stop()

    def refresh(self) -> None:
        """One beat: the words, a live chart, or the tables."""
        self._beat += 1
        if self._beat % TABLE_BEATS == 1:
            self._refresh_tables()
            return
        live = self._window.live
        if self._quiet < FRESH_BEATS:
            turns = (self._refresh_words, live.refresh_bytes, live.refresh_counts)
            turns[self._turn % len(turns)]()
            self._turn += 1
        self._quiet += 1
        if self._quiet > IDLE_BEATS:
            self._timer.stop()

    def _refresh_words(self) -> None:
        self._window.run_panel.refresh()
        self._window.events.refresh()
        self._window.run_panel.set_state(self._control.state)

    def _refresh_tables(self) -> None:
        state = self._control.state
        self._window.axes.set_position(max(state.run.position, state.live.position))
        self._window.counters.set_snapshot(state.live)
        self._window.capture_panel.set_slots(state.live.slots)

    def _take_events(self, events: Events) -> None:
        self._window.events.add_events(events)
        self._window.live.add_events(events)
        self.news()

    def _take_token(self, token: TokenInfo) -> None:
        self._window.run_panel.add_token(token)
        self._window.live.add_token(token)
        self.news()

    def _take_snapshot(self, snapshot: SnapshotInfo) -> None:
        self._window.live.add_snapshot(snapshot)
        self.news()

    def _clear(self) -> None:
        self._window.run_panel.clear()
        self._window.live.clear()
        self.news()

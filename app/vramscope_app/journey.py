"""The main job without a display: plan, prefill, step, capture, replay, and a picture of the window."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, QTimer

from vramscope_app.state import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QApplication

    from vramscope_app.state import AppState
    from vramscope_app.window import MainWindow

PATIENCE_SECONDS = 300.0
EAGER_STEPS = 4
REPLAYS = 16
SETTLE_MILLISECONDS = 250


class JourneyError(Exception):
    """The journey could not go on; the text says where and why."""


class Journey:
    """Drives the window as a user would and waits for each answer."""

    def __init__(self, window: MainWindow) -> None:
        self.window = window
        self._loop = QEventLoop()
        self._timer = QTimer()
        self._timer.setInterval(20)
        self._timer.timeout.connect(self._loop.quit)

    @property
    def state(self) -> AppState:
        """The state now."""
        return self.window.controller.state

    def wait(self, what: str, done: Callable[[AppState], bool]) -> None:
        """Lets the window work until ``done``.

        Raises:
            JourneyError: a request failed, the engine died, or it took too long.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        self._timer.start()
        try:
            while not done(self.state):
                self._check(what, end)
                self._loop.exec()
        finally:
            self._timer.stop()

    def _check(self, what: str, end: float) -> None:
        state = self.state
        if state.engine is Engine.DEAD and state.death is not None:
            raise JourneyError(f"{what}: the engine stopped ({state.death.reason})")
        if state.notice is not None and state.busy is None:
            error = state.notice.error
            raise JourneyError(f"{what}: {error.what}: {error.why}. {error.remedy}")
        if time.monotonic() > end:
            raise JourneyError(f"{what}: no answer within {PATIENCE_SECONDS:.0f} s")

    def settle(self) -> None:
        """Lets the streams be drawn."""
        QTimer.singleShot(SETTLE_MILLISECONDS, self._loop.quit)
        self._loop.exec()

    def plan(self) -> None:
        """Waits for the model, its plan and its nodes."""
        self.wait("opening and planning", planned)

    def decode(self) -> None:
        """Prefill, eager steps, capture, replays."""
        self.window.prefill()
        self.wait("prefill", _at_rest)
        self.window.run_panel.count.setValue(EAGER_STEPS)
        self._run("eager steps", self.window.steps, may=self.state.steppable)
        self._run("capture", self.window.capture, may=self.state.steppable)
        self.window.run_panel.count.setValue(REPLAYS)
        self._run("replay", self.window.replay, may=self.state.replayable)

    def _run(self, what: str, command: Callable[[], None], *, may: bool) -> None:
        if may:
            command()
            self.wait(what, _at_rest)


def planned(state: AppState) -> bool:
    """Whether model, plan and nodes are all there."""
    return state.plan is not None and bool(state.nodes) and state.busy is None


def runs(state: AppState) -> bool:
    """Whether there is a decoder that can run, whose plan fits what it is judged against, if anything."""
    short = state.plan is not None and state.plan.verdict.kind == "does not fit"
    return state.planned and state.decoder and not short and not state.obstacle


def _at_rest(state: AppState) -> bool:
    return state.busy is None and state.notice is None


def make_journey(application: QApplication, window: MainWindow, picture: str) -> int:
    """Makes the journey and saves the picture, whatever happened; returns the exit code."""
    window.show()
    journey, code = Journey(window), 0
    try:
        journey.plan()
        if runs(journey.state):
            journey.decode()
        journey.settle()
    except JourneyError as failure:
        print(f"vramscope: {failure}", file=sys.stderr)
        code = 1
    application.processEvents()
    if not window.grab().save(picture):
        print(f"vramscope: {picture} could not be written", file=sys.stderr)
        code = 1
    window.close()
    return code

"""Asks for plans while the scenario is edited: one at a time, the newest wish, every row once it rests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer

from vramscope.messages.planning import PlanParams

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.messages.planning import ScenarioInfo
    from vramscope_app.client import EngineClient

REPLAN_MILLISECONDS = 25
"""Edits within this time become one plan."""
REST_MILLISECONDS = 180
"""Edits that follow each other faster are one movement: its plans come without suggestions and rows."""


class Replanner(QObject):
    """Sends the plan requests; whatever is answered for another than the newest one is stale."""

    def __init__(
        self,
        client: EngineClient,
        scenario: Callable[[], ScenarioInfo | None],
        parent: QObject,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``scenario``: what to plan now, None while nothing can be planned; ``clock`` tells seconds."""
        super().__init__(parent)
        self._client = client
        self._scenario = scenario
        self._clock = clock
        self._call = 0
        self._again = self._bare = self._moving = False
        self._edited = -float(REST_MILLISECONDS)
        self._soon, self._rest = QTimer(self), QTimer(self)
        for timer, wait, target in (
            (self._soon, REPLAN_MILLISECONDS, self.send),
            (self._rest, REST_MILLISECONDS, self._complete),
        ):
            timer.setSingleShot(True)
            timer.setTimerType(Qt.TimerType.PreciseTimer)
            timer.setInterval(wait)
            timer.timeout.connect(target)

    def edited(self) -> None:
        """The scenario is another one: plans it after a moment, so that a dragged slider is few plans."""
        now = self._clock()
        self._moving, self._edited = (now - self._edited) * 1000 < REST_MILLISECONDS, now
        if self._moving:
            self._rest.start()
        if not self._soon.isActive() and self._scenario() is not None:
            self._soon.start()

    def send(self) -> None:
        """Plans now, or as soon as the plan that runs is there."""
        scenario = self._scenario()
        if scenario is None:
            return
        self._again = self._call in {call.id for call in self._client.calls}
        if not self._again:
            self._bare = self._moving
            self._call = self._client.call("plan", PlanParams(scenario=scenario, brief=self._moving))

    def _complete(self) -> None:
        """The movement is over: what its plans left out is wanted now."""
        self._moving = False
        if self._bare:
            self.send()

    def newest(self, call: int) -> bool:
        """Whether an answer is the one that is waited for."""
        return call == self._call

    def settled(self) -> None:
        """A plan was answered or refused; the scenario may have changed since it was asked."""
        if self._again:
            self.send()

    def forget(self) -> None:
        """No plan runs any more, and none is wanted."""
        self._soon.stop()
        self._rest.stop()
        self._call, self._again, self._bare, self._moving = 0, False, False, False

"""Between the engine and the compare panel: a baseline, and a comparison that follows every newer plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from vramscope.messages.reporting import BaselineParams, CompareParams
from vramscope_app.rows.compare import Compared
from vramscope_app.rows.nodes import join_chunks
from vramscope_app.state import Engine

if TYPE_CHECKING:
    from vramscope.messages.columns import TableChunk
    from vramscope.messages.reporting import CompareInfo
    from vramscope_app.client import Refusal, Reply
    from vramscope_app.controller import Controller
    from vramscope_app.state import AppState

TABLE = "compare:nodes"
WAIT_MILLISECONDS = 60
NOTHING = (0, 0, 0)


class Comparing(QObject):
    """Asks for a comparison when something else is shown than was compared last, and somebody looks."""

    changed = Signal(object)
    """Newer :class:`Compared`."""

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._control = controller
        self.state = Compared()
        self._baselines = 0
        self._asked = NOTHING
        self._seen = False
        self._pending: CompareInfo | None = None
        self._chunks: list[TableChunk] = []
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(WAIT_MILLISECONDS)
        self._timer.timeout.connect(self._ask)
        controller.changed.connect(self._look)
        controller.client.answered.connect(self._take)
        controller.client.failed.connect(self._fail)
        controller.client.table.connect(self._take_table)

    def keep(self) -> None:
        """What is shown now becomes the baseline."""
        self._control.client.call("baseline", BaselineParams())

    def keep_as_it_is(self) -> None:
        """The plan of the file as it is becomes the baseline."""
        self._control.client.call("baseline", BaselineParams(as_it_is=True))

    def keep_path(self, path: str) -> None:
        """A model, planned in the scenario of now, or a saved report becomes the baseline."""
        if path:
            self._control.client.call("baseline", BaselineParams(path=path))

    def with_run(self) -> None:
        """Compares the plan of the run with what the run took."""
        self._set(replace(self.state, run=True, found=None))

    def clear(self) -> None:
        """Forgets the baseline."""
        self._set(Compared())

    def set_seen(self, seen: bool) -> None:
        """Whether the panel is in front; nothing is compared for nobody."""
        self._seen = seen
        self._timer.start()

    def _set(self, state: Compared) -> None:
        self.state, self._asked = state, NOTHING
        self.changed.emit(state)
        self._timer.start()

    def _look(self, old: AppState, new: AppState) -> None:
        if new.engine is not old.engine and new.engine is not Engine.READY:
            self.clear()
        elif new.plan is not old.plan or (old.busy is not None and new.busy is None):
            self._timer.start()

    def _wish(self) -> tuple[int, int, int]:
        """What a comparison would be of: the plan, the baseline, the snapshot; nothing when there is none.

        A plan on the way of a dragged slider is passed over: the next one is there before it is compared.
        """
        state, compared = self._control.state, self.state
        if state.plan is None or state.plan.brief or not (compared.run or compared.baseline is not None):
            return NOTHING
        if compared.run and not state.live.measured:
            return NOTHING
        return state.plan.ticket, self._baselines, state.live.sequence if compared.run else 0

    def _ask(self) -> None:
        state, wish = self._control.state, self._wish()
        if not self._seen or not state.ready or state.busy is not None or wish in (NOTHING, self._asked):
            return
        self._asked = wish
        self._control.client.call("compare", CompareParams(run=self.state.run))

    def _take(self, reply: Reply) -> None:
        if reply.call.method == "baseline":
            self._baselines += 1
            self._set(Compared(baseline=reply.result))
        elif reply.call.method == "compare":
            self._pending, self._chunks = reply.result, []

    def _take_table(self, chunk: TableChunk) -> None:
        pending = self._pending
        if chunk.table != TABLE or pending is None or chunk.ticket != pending.ticket:
            return
        self._chunks.append(chunk)
        if chunk.last:
            self.state = replace(self.state, found=pending, nodes=join_chunks(self._chunks))
            self._pending, self._chunks = None, []
            self.changed.emit(self.state)

    def _fail(self, refusal: Refusal) -> None:
        if refusal.call.method == "compare" and refusal.error.code == "Cancelled":
            self._asked = NOTHING
            self._timer.start()

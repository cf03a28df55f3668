"""Between the engine and the window: holds the frozen state, sends requests, tells what changed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from PySide6.QtCore import QObject, Signal

from vramscope.messages.headroom import HeadroomParams
from vramscope.messages.neighbours import NeighboursParams
from vramscope.messages.node import NodeParams
from vramscope.messages.planning import ExportParams
from vramscope.messages.reporting import ReportParams
from vramscope.messages.running import CountParams, PrefillParams, RunModelParams, TraceParams
from vramscope_app import answers
from vramscope_app.client import IMMEDIATE, QUIET, Call, Death, EngineClient, Refusal, Reply
from vramscope_app.incoming_tables import IncomingTables
from vramscope_app.place import HERE, Place
from vramscope_app.replanning import Replanner
from vramscope_app.rows.devices import device_of
from vramscope_app.rows.history import record, redo, undo
from vramscope_app.rows.report import is_report
from vramscope_app.rows.scenario import declared, other_batches
from vramscope_app.state import AppState, Busy, Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.messages.columns import TableChunk
    from vramscope.messages.live import Progress, SnapshotInfo
    from vramscope.messages.model import Hello, OpenParams
    from vramscope.messages.planning import ScenarioInfo
    from vramscope.messages.running import SamplingInfo
    from vramscope_app.rows.history import History


LONGEST_ID = 18
"""Digits of a token id that a message can carry; no vocabulary has so many tokens."""


class Controller(QObject):
    """Owns the client and the state. Everything happens in the GUI thread."""

    changed = Signal(object, object)
    """Old and new :class:`AppState`."""
    events = Signal(object)
    token = Signal(object)
    snapshot = Signal(object)
    logged = Signal(str)
    written = Signal(str)
    """The path of a file, on the engine's machine, that the engine has written."""
    cleared = Signal()
    """A generation begins or a model was opened: streams start anew."""

    def __init__(self, client: EngineClient, place: Place = HERE, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.client = client
        self.state = AppState(place=place)
        self._tables = IncomingTables()
        self._curves_of: tuple[int | str, ...] = ()
        """Plan and cards of the newest curves that were asked for."""
        self._wishes: dict[str, Any] = {}
        self._replanner = Replanner(client, self._plannable, self)
        client.ready.connect(self._on_ready)
        client.answered.connect(self._on_answer)
        client.failed.connect(self._on_failure)
        client.sent.connect(self._on_sent)
        client.progress.connect(self._on_progress)
        client.snapshot.connect(self._on_snapshot)
        client.table.connect(self._on_table)
        client.died.connect(self._on_death)
        client.events.connect(self.events)
        client.token.connect(self.token)
        client.logged.connect(self.logged)

    # Requests

    def start(self) -> None:
        """Starts the engine."""
        self._set(engine=Engine.STARTING, death=None, busy=None, trace=None)
        self.client.start()

    def move(self, place: Place) -> None:
        """Ends the engine and starts one in another place, where nothing is open yet."""
        self.client.stop(0)
        self.client.command = place.command
        self._forget_plan()
        self._set(**answers.fresh(None), place=place, hello=None, model=None, notice=None)
        self.start()

    def restart(self) -> None:
        """Starts a dead engine again; the model is opened again once it answers."""
        self.client.stop(0)
        self._replanner.forget()
        self._curves_of = ()
        self.start()

    def open(self, source: OpenParams) -> None:
        """Opens a model, or shows a saved report; before the engine answers it is only remembered."""
        if self.state.ready:
            self._send_open(source)
        else:
            self._set(source=source)

    def _send_open(self, source: OpenParams) -> None:
        if is_report(source.path):
            self.client.call("report", ReportParams(path=source.path))
        else:
            self.client.call("open", source)

    def wish(self, **changes: Any) -> None:  # noqa: ANN401 - fields of ScenarioInfo
        """What the scenario of the next opened model shall be, beside what the model proposes."""
        self._wishes = changes

    def edit(self, scenario: Any) -> None:  # noqa: ANN401 - a ScenarioInfo, as a signal hands it over
        """Takes another scenario and plans it soon."""
        if scenario != self.state.scenario and not self.state.report:
            history = record(self.state.history, self.state.scenario, scenario, time.monotonic())
            self._set(scenario=scenario, history=history)
            self._replanner.edited()

    def undo(self) -> None:
        """Takes the last edit of the scenario back."""
        self._travel(undo)

    def redo(self) -> None:
        """Makes the edit again that was taken back."""
        self._travel(redo)

    def _travel(self, way: Callable[[History, ScenarioInfo], tuple[History, ScenarioInfo]]) -> None:
        history, scenario = way(self.state.history, self.state.scenario)
        self._set(history=history, scenario=scenario)
        self._replanner.edited()

    def _plannable(self) -> ScenarioInfo | None:
        """What to plan; None without an engine or a model, and from a report."""
        state = self.state
        return state.scenario if state.ready and state.model is not None and not state.report else None

    def declare(self, symbol: str, text: str) -> None:
        """Sets the maximum of a symbol from what was typed; empty takes it back."""
        self.edit(declared(self.state.scenario, symbol, text))

    def want_headroom(self, cards: list[str]) -> None:
        """Asks for the curves around the newest plan, unless they are here, on their way, or in the way."""
        state = self.state
        if not (state.ready and state.planned and state.decoder) or state.busy is not None:
            return
        if state.plan is not None and self._curves_of != (state.plan.ticket, *cards):
            self._curves_of = (state.plan.ticket, *cards)
            batches = other_batches(state.plan.scenario.batch)
            wanted = HeadroomParams(scenario=state.plan.scenario, batches=batches, cards=cards)
            self.client.call("headroom", wanted)

    def inspect(self, phase: str, step: int) -> None:
        """Asks for everything about a node of the newest plan."""
        if self.state.askable:
            self.client.call("node", NodeParams(phase=phase, step=step))

    def look_around(self, phase: str, step: int, hops: int) -> None:
        """Asks for the nodes around one of the newest plan."""
        if self.state.askable:
            self.client.call("neighbours", NeighboursParams(phase=phase, step=step, hops=hops))

    def choose_point(self, context: int, batch: int) -> None:
        """Plans another context and batch."""
        self.edit(msgspec.structs.replace(self.state.scenario, context=context, batch=batch))

    def _stop_quiet(self) -> None:
        """Whatever is computed for a chart makes room for what the user waits for."""
        for call in self.client.calls:
            if call.method in QUIET:
                self._curves_of = () if call.method == "headroom" else self._curves_of
                self.client.cancel(call.id)

    def prefill(self, prompt: str, *, chat: bool, sampling: SamplingInfo) -> None:
        """Starts a generation with a prompt, or with token ids where the model has no tokenizer.

        What is no list of ids then goes to the engine as a text, which says why it cannot be used.
        """
        model = self.state.model
        if model is None:
            return
        words = prompt.replace(",", " ").split()
        as_ids = not model.has_tokenizer and all(
            word.isdecimal() and len(word) <= LONGEST_ID for word in words
        )
        self.client.call(
            "prefill",
            PrefillParams(
                scenario=self.state.scenario,
                prompt="" if as_ids else prompt,
                tokens=[int(word) for word in words] if as_ids else [],
                chat=chat,
                sampling=sampling,
                device=device_of(self.state.scenario.runtime),
            ),
        )

    def run(self, method: str, count: int = 0) -> None:
        """Sends a request that takes a count, or nothing for a count of 0."""
        self.client.call(method, CountParams(count=count) if count else None)

    def run_model(self) -> None:
        """Runs a model that is no decoder."""
        scenario = self.state.scenario
        self.client.call("run_model", RunModelParams(scenario=scenario, device=device_of(scenario.runtime)))

    def export(self, path: str) -> None:
        """Writes what is shown; the ending of the path says the format."""
        self.client.call("export", ExportParams(path=path))

    def record(self, *, on: bool) -> None:
        """Keeps what runs from now on for a trace, or no more."""
        self.client.call("trace", TraceParams(record=on))

    def save_trace(self, path: str) -> None:
        """Writes what was recorded; recording goes on where it is on."""
        on = self.state.trace is not None and self.state.trace.recording
        self.client.call("trace", TraceParams(record=on, path=path))

    def cancel(self) -> None:
        """Stops what runs."""
        if self.state.busy is not None:
            self.client.cancel(self.state.busy.call.id)

    def dismiss(self) -> None:
        """Closes the failure banner."""
        self._set(notice=None)

    # What the engine says

    def _set(self, **changes: Any) -> None:  # noqa: ANN401 - fields of AppState
        old, self.state = self.state, replace(self.state, **changes)
        self.changed.emit(old, self.state)

    def _busy_now(self) -> Busy | None:
        calls = [call for call in self.client.calls if call.method not in IMMEDIATE | QUIET]
        if not calls:
            return None
        busy = self.state.busy
        return busy if busy is not None and busy.call.id == calls[0].id else Busy(calls[0])

    def _on_ready(self, hello: Hello) -> None:
        self._set(engine=Engine.READY, hello=hello, busy=self._busy_now())
        if self.state.source is not None:
            self._send_open(self.state.source)

    def _on_sent(self, call: Call) -> None:
        if call.method not in IMMEDIATE | QUIET:
            self._stop_quiet()
        if call.method in answers.RESTARTING:
            self.cleared.emit()
        self._set(busy=self._busy_now(), **answers.begun(call))

    def _on_progress(self, progress: Progress) -> None:
        busy = self.state.busy
        if busy is not None and busy.call.id == progress.request:
            self._set(busy=replace(busy, stage=progress.stage, done=progress.done, total=progress.total))

    def _on_snapshot(self, snapshot: SnapshotInfo) -> None:
        self._set(live=snapshot)
        self.snapshot.emit(snapshot)

    def _on_answer(self, reply: Reply) -> None:
        changes = self._changes_of(reply)
        if reply.call.method not in IMMEDIATE | QUIET:
            changes["notice"] = None
        self._set(busy=self._busy_now(), **changes)
        if answers.written(reply):
            self.written.emit(answers.written(reply))
        if reply.call.method in answers.RUNNING:
            self.client.call("slots")
        opened = reply.call.method == "prefill" and answers.tells_context(self.state)
        if opened or reply.call.method == "open":
            self._replanner.send()
        elif reply.call.method == "plan":
            self._replanner.settled()

    def _changes_of(self, reply: Reply) -> dict[str, Any]:
        if reply.call.method == "plan":
            if not self._replanner.newest(reply.call.id):
                return {}
            self._tables.forget()
        if reply.call.method not in ("open", "report"):
            return answers.changes(self.state, reply)
        self._forget_plan()
        self.cleared.emit()
        wishes = self._wishes
        if reply.call.method == "open":
            self._wishes = {}
        return answers.changes(self.state, reply, wishes)

    def _forget_plan(self) -> None:
        """Nothing that was asked about what was open before is waited for."""
        self._curves_of = ()
        self._tables.forget()
        self._replanner.forget()

    def _on_table(self, chunk: TableChunk) -> None:
        plan = self.state.plan
        if plan is not None and plan.ticket == chunk.ticket:
            complete = self._tables.take(chunk, len(plan.phases))
            if complete:
                self._set(**complete)

    def _on_failure(self, refusal: Refusal) -> None:
        call = refusal.call
        if call.method == "hello":
            self.client.stop(0)
            self._on_death(Death(refusal.error.why, (call,)))
            return
        stale = call.method == "plan" and not self._replanner.newest(call.id)
        if stale or refusal.error.code == "Cancelled":
            self._set(busy=self._busy_now())
        else:
            failures = answers.with_failure(self.state.failures, refusal)
            self._set(busy=self._busy_now(), notice=refusal, failures=failures)
        if call.method == "plan":
            self._replanner.settled()

    def _on_death(self, death: Death) -> None:
        self._replanner.forget()
        self._set(engine=Engine.DEAD, death=death, busy=None, notice=None)

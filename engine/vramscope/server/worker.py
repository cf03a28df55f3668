"""The device thread: takes one request after another, runs it on the engine, answers it."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from contextlib import suppress
from importlib import import_module
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from vramscope.errors import ProtocolError
from vramscope.messages.live import EMPTY_SNAPSHOT, Progress, SnapshotInfo
from vramscope.messages.planning import PlanInfo
from vramscope.messages.reporting import CompareInfo, ReportInfo
from vramscope.protocol import METHODS, Answer, Failure, raw
from vramscope.server import looking, plain, profiling, reporting, tracing
from vramscope.server.engine import Engine
from vramscope.server.failures import error_info
from vramscope.server.listener import Listener
from vramscope.server.live import event_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vramscope.messages.columns import TableChunk
    from vramscope.messages.model import ModelInfo, OpenParams
    from vramscope.protocol import Request
    from vramscope.run.events import Event
    from vramscope.server.jobs import Job, JobQueue
    from vramscope.server.outbox import Outbox

SNAPSHOT_INTERVAL = 1 / 30
"""Seconds between two snapshots while a request runs."""


def open_model(engine: Engine, params: OpenParams, listener: Listener) -> ModelInfo:
    """Opens a model; what it and the libraries keep is left out of garbage collections until the next one.

    A collection that walks all of it stops whatever runs for 50 ms: longer than planning anew takes.
    """
    gc.unfreeze()
    try:
        return engine.open(params, listener)
    finally:
        gc.freeze()


HANDLERS: Mapping[str, Callable[[Engine, Any, Listener], msgspec.Struct]] = MappingProxyType(
    {
        "open": open_model,
        "plan": Engine.plan,
        "headroom": looking.headroom,
        "node": looking.node,
        "neighbours": looking.neighbours,
        "prefill": Engine.prefill,
        "step": Engine.step,
        "capture": Engine.capture,
        "replay": Engine.replay,
        "verify": Engine.verify,
        "profile": profiling.profile,
        "trace": tracing.trace,
        "reset": Engine.reset,
        "slots": Engine.slots,
        "run_model": plain.run_model,
        "export": reporting.export,
        "report": reporting.report,
        "baseline": reporting.baseline,
        "compare": reporting.compare,
    }
)
"""The methods that the device thread runs; the reader answers the others itself."""

TABLES: Mapping[type[msgspec.Struct], Callable[[Engine], Iterable[TableChunk]]] = MappingProxyType(
    {PlanInfo: Engine.node_tables, ReportInfo: Engine.node_tables, CompareInfo: reporting.compare_tables}
)
"""The tables that follow a result."""


def parameters(request: Request) -> Any:  # noqa: ANN401  # the method decides the type
    """The typed parameters of a request; none at all stands for all defaults.

    Raises:
        ProtocolError: the method does not exist, or these are not its parameters.
    """
    if request.method not in METHODS:
        raise ProtocolError(
            f"method {request.method!r}", "this engine does not know it", f"It knows: {', '.join(METHODS)}"
        )
    body = bytes(request.params)
    kind = METHODS[request.method][0]
    try:
        return msgspec.msgpack.decode(b"\x80" if body == b"\xc0" else body, type=kind)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"parameters of {request.method}", str(error)) from error


def import_engine() -> None:
    """Imports what opening and planning need while the client still starts, so the first model opens sooner.

    What is missing or broken is told by the request that needs it.
    """
    with suppress(Exception):
        import_module("vramscope.api")


class Worker:
    """Runs requests in its own thread; nobody else touches the engine."""

    def __init__(self, jobs: JobQueue, outbox: Outbox) -> None:
        """Starts the thread."""
        self._jobs = jobs
        self._outbox = outbox
        self._events = 0
        self._snapshots = 0
        self._published = 0.0
        self._started = monotonic()
        self.snapshot = EMPTY_SNAPSHOT
        """The newest snapshot; read by the reader's thread, replaced as a whole."""
        self._imported = threading.Event()
        self._thread = threading.Thread(target=self._work, name="device", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Waits for the thread to end, which holds nothing while it still imports; whether it did.

        The queue must be closed before.
        """
        self._thread.join(timeout if self._imported.is_set() else 0)
        return not self._thread.is_alive()

    def _work(self) -> None:
        engine = Engine()
        import_engine()
        self._imported.set()
        while (job := self._jobs.take()) is not None:
            try:
                self._answer(engine, job)
            except Exception:  # The thread must outlive a defect in answering itself.
                traceback.print_exc(file=sys.stderr)
        engine.close()

    def _answer(self, engine: Engine, job: Job) -> None:
        request = job.request
        try:
            job.check()
            result = HANDLERS[request.method](engine, parameters(request), self._listener(job))
            self._outbox.send(Answer(id=request.id, result=raw(result)))
        except Exception as error:
            self._outbox.send(Failure(id=request.id, error=error_info(error, request.method)))
            return
        tables = TABLES.get(type(result))
        if tables is None or (isinstance(result, PlanInfo) and result.brief):
            return
        for chunk in tables(engine):
            self._outbox.notify("table", chunk)

    def _listener(self, job: Job) -> Listener:
        def progress(stage: str, done: int, total: int) -> None:
            self._outbox.progress(Progress(request=job.request.id, stage=stage, done=done, total=total))

        return Listener(
            progress=progress,
            cancel=job.check,
            event=self._tell_event,
            token=lambda token: self._outbox.notify("token", token),
            snapshot=self._offer_snapshot,
        )

    def _tell_event(self, event: Event) -> None:
        self._events += 1
        self._outbox.event(event_info(event, self._events, monotonic() - self._started))

    def _offer_snapshot(self, build: Callable[[], SnapshotInfo], *, final: bool) -> None:
        now = monotonic()
        if not final and now - self._published < SNAPSHOT_INTERVAL:
            return
        self._published = now
        self._snapshots += 1
        self.snapshot = msgspec.structs.replace(
            build(), sequence=self._snapshots, seconds=now - self._started
        )
        self._outbox.snapshot(self.snapshot)

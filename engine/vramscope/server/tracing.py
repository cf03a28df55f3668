"""The ``trace`` request: what runs is recorded from now on, or no more; what was recorded becomes a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope.messages.running import TraceInfo

if TYPE_CHECKING:
    from vramscope.messages.running import TraceParams
    from vramscope.run.trace import Tracer
    from vramscope.server.engine import Engine
    from vramscope.server.listener import Listener


class Recording:
    """Whether an engine records what it runs, and the record: of the newest session that was recorded."""

    def __init__(self) -> None:
        """Records nothing."""
        self.on = False
        self.tracer: Tracer | None = None

    def begin(self) -> Tracer | None:
        """A new record for a session that begins; None while nothing is recorded."""
        from vramscope.run.trace import Tracer

        if self.on:
            self.tracer = Tracer()
        return self.tracer if self.on else None


def trace(engine: Engine, params: TraceParams, _listener: Listener) -> TraceInfo:
    """Writes the record where a path is given, then goes on recording or stops; a record starts empty.

    Raises:
        InputError: nothing was recorded, or the file cannot be written.
    """
    recording = engine.recording
    path = Path(params.path).expanduser() if params.path else None
    if path is not None:
        _write(path, recording)
    if params.record is not recording.on:
        recording.on = params.record
        engine.trace_generation(recording.begin())
    tracer = recording.tracer
    return TraceInfo(
        recording=recording.on,
        records=0 if tracer is None else tracer.kept,
        dropped=0 if tracer is None else tracer.dropped,
        path="" if path is None else str(path),
    )


def _write(path: Path, recording: Recording) -> None:
    from vramscope.report.trace import check_trace_path, write_trace

    check_trace_path(path)
    if recording.tracer is None or not recording.tracer.kept:
        raise InputError(f"the trace {path}", "nothing was recorded", "Record a trace, then run something")
    write_trace(path, recording.tracer.trace())

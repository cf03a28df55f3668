"""A trace as a file of the Trace Event Format, which Perfetto and chrome://tracing open.

Its document is "Trace Event Format" (The Chromium Authors): an object with ``traceEvents``; complete events
(``X``) with start and duration in microseconds, instants (``i``), counters (``C``), and metadata (``M``)
that name the tracks.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from vramscope import __version__
from vramscope.errors import InputError
from vramscope.report.write import write_text
from vramscope.run.trace import CaptureStatus, Mark, Sample, Span, SpanKind, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TraceEvent: TypeAlias = "dict[str, object]"

PROCESS = 1
STEPS, EVENTS, DEVICE = 1, 2, 3
"""Tracks: what ran, what happened, what the device timed."""

ENDING = ".json"

WAITS = "a call returns when its work is done: spans are true durations"
RETURNS = "the host's times: a launch returns before its work is done on the device"
TIMED = "times that the device took itself in profiled steps, laid end to end from the step's beginning"


def check_trace_path(path: Path) -> None:
    """Refuses a file that no viewer would take for a trace.

    Raises:
        InputError: its name does not end in ``.json``, or is one of a report.
    """
    name = path.name.lower()
    if not name.endswith(ENDING) or name.endswith(".vramscope.json"):
        raise InputError(f"the trace {path}", "a viewer knows a trace by its ending", "End it in .json")


def write_trace(path: Path, trace: Trace) -> None:
    """Writes ``path`` as a whole, or leaves what was there.

    Raises:
        InputError: as :func:`check_trace_path` says, or it cannot be written.
    """
    check_trace_path(path)
    write_text(path, trace_text(trace))


def trace_text(trace: Trace) -> str:
    """The file's text, an event a line."""
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in trace_events(trace))
    other = json.dumps(_about(trace))
    return f'{{"displayTimeUnit":"ns","otherData":{other},"traceEvents":[\n{events}\n]}}\n'


def _about(trace: Trace) -> dict[str, str]:
    return {
        "producer": f"VRAMScope {__version__}",
        "model": trace.model,
        "device": trace.device,
        "times": WAITS if trace.waits else RETURNS,
        "records kept": str(len(trace.records)),
        "records dropped": str(trace.dropped),
    }


def trace_events(trace: Trace) -> Iterator[TraceEvent]:
    """Every event: first the names of the tracks, then what was recorded.

    In the order of their beginnings, and of two that begin together the longer one first: that is how viewers
    tell which lies inside the other.
    """
    yield from chain(_tracks(trace), _lost(trace))
    for record in sorted(trace.records, key=_order):
        match record:
            case Span():
                yield _span(record, trace.started)
            case Mark():
                yield _mark(record, trace.started)
            case Sample():
                yield from _samples(record, trace.started)


def _tracks(trace: Trace) -> Iterator[TraceEvent]:
    yield _metadata("process_name", 0, name=f"{trace.model} on {trace.device}")
    clock = "" if trace.waits else f" ({RETURNS})"
    titles = {STEPS: f"steps, segments, nodes{clock}", EVENTS: "events", DEVICE: TIMED}
    used = {STEPS, EVENTS, *(_track(item) for item in trace.records if isinstance(item, Span))}
    for track in sorted(used):
        yield _metadata("thread_name", track, name=titles[track])
        yield _metadata("thread_sort_index", track, sort_index=track)


def _metadata(what: str, track: int, **arguments: object) -> TraceEvent:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": track, "args": arguments}


def _lost(trace: Trace) -> Iterator[TraceEvent]:
    """Where older records had to go, at the oldest one that is left: nothing before it is whole."""
    if trace.dropped and trace.records:
        at = min(_begin(item) for item in trace.records)
        text = f"{trace.dropped:,} older records were dropped"
        yield _instant(text, "trace", at, trace.started, {"dropped": trace.dropped})


def _begin(record: Span | Mark | Sample) -> float:
    return record.start if isinstance(record, Span) else record.at


def _order(record: Span | Mark | Sample) -> tuple[float, float]:
    length = record.end - record.start if isinstance(record, Span) else 0.0
    return _begin(record), -length


def _track(span: Span) -> int:
    return DEVICE if span.kind is SpanKind.DEVICE else STEPS


def _span(span: Span, origin: float) -> TraceEvent:
    start, end = _nanoseconds(span.start, origin), _nanoseconds(span.end, origin)
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind.value,
        "pid": PROCESS,
        "tid": _track(span),
        "ts": start / 1000,
        "dur": (end - start) / 1000,
        "args": _arguments(span),
    }


def _arguments(span: Span) -> dict[str, object]:
    """What is known of a span; a plain eager node says nothing of captures."""
    verdict = span.verdict
    known: dict[str, object] = {
        "operator": span.operator,
        "bytes": span.bytes,
        _NUMBERS[span.kind]: span.number if span.number >= 0 else None,
        "nodes": span.nodes or None,
        "launched_with": span.inside,
        "path": verdict.path,
        "capture_status": "" if verdict.status is CaptureStatus.NONE else verdict.status.value,
        "capture_reason": verdict.reason,
    }
    return {name: value for name, value in known.items() if value not in ("", None)}


_NUMBERS = {
    SpanKind.STEP: "position",
    SpanKind.SEGMENT: "graph",
    SpanKind.SEAM: "graph",
    SpanKind.NODE: "step",
    SpanKind.WORK: "step",
    SpanKind.DEVICE: "step",
}
"""What the number of a span counts."""


def _mark(mark: Mark, origin: float) -> TraceEvent:
    event = mark.event
    arguments = {"subject": event.subject, "what": event.text, "step": event.step, "bytes": event.bytes}
    return _instant(f"{event.kind.value}: {event.subject}", event.kind.value, mark.at, origin, arguments)


def _instant(name: str, kind: str, at: float, origin: float, arguments: dict[str, object]) -> TraceEvent:
    return {
        "ph": "i",
        "s": "t",
        "name": name,
        "cat": kind,
        "pid": PROCESS,
        "tid": EVENTS,
        "ts": _nanoseconds(at, origin) / 1000,
        "args": arguments,
    }


def _samples(sample: Sample, origin: float) -> Iterator[TraceEvent]:
    """What the ledger held: bytes by component, and how many allocations were made so far."""
    at = _nanoseconds(sample.at, origin) / 1000
    counters: dict[str, dict[str, int]] = {
        "device memory, bytes": dict(sample.components) or {"total": 0},
        "allocations": {"so far": sample.allocations},
    }
    for name, series in counters.items():
        yield {"ph": "C", "name": name, "pid": PROCESS, "tid": 0, "ts": at, "args": series}


def _nanoseconds(at: float, origin: float) -> int:
    """Whole ones, so that what lies inside something still does when it is written."""
    return round((at - origin) * 1e9)

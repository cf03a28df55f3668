"""``vramscope run --trace``: what ran, as a file for a viewer of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.messages.running import TraceParams
from vramscope.report.trace import check_trace_path
from vramscope.server.listener import Listener
from vramscope.server.tracing import trace

if TYPE_CHECKING:
    import argparse

    from vramscope.server.engine import Engine


def start_trace(engine: Engine, arguments: argparse.Namespace) -> None:
    """Records from here on where a trace is asked for.

    Raises:
        InputError: no viewer would take the file for a trace.
    """
    if arguments.trace is not None:
        check_trace_path(arguments.trace)
        trace(engine, TraceParams(record=True), Listener())


def write_trace(engine: Engine, arguments: argparse.Namespace) -> list[str]:
    """Writes the trace where one is asked for; what is to be said of it."""
    if arguments.trace is None:
        return []
    told = trace(engine, TraceParams(record=False, path=str(arguments.trace)), Listener())
    lost = f"; {told.dropped:,} older records were dropped" if told.dropped else ""
    return [
        f"wrote {told.path}: {told.records:,} records{lost}; open it in ui.perfetto.dev or chrome://tracing"
    ]

"""The status bar and the title in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope_app.state import Engine
from vramscope_app.text import short_bytes
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import PlanInfo
    from vramscope_app.state import AppState


def engine_text(state: AppState) -> str:
    """Where the engine stands."""
    where = tr(" on {machine}", machine=str(state.place)) if state.place.remote else ""
    if state.engine is Engine.DEAD:
        return tr("engine{where} stopped", where=where)
    if state.engine is Engine.STARTING or state.hello is None:
        return tr("engine{where} starting…", where=where)
    devices = ", ".join(item.name for item in state.hello.devices if item.available)
    recording = f"● {tr('records a trace')} · " if state.trace is not None and state.trace.recording else ""
    return recording + tr(
        "engine {engine_version}{where} · {devices} · process {process}",
        engine_version=state.hello.engine_version,
        where=where,
        devices=devices,
        process=state.hello.process,
    )


def model_text(model: ModelInfo | None, plan: PlanInfo | None = None) -> str:
    """The open model in a few words, and how long its plan took."""
    if model is None:
        return ""
    parts = [
        model.name,
        tr("{n:,} node(s)", n=model.nodes),
        tr("{weights_bytes} weights", weights_bytes=short_bytes(model.weights_bytes)),
    ]
    if model.contract is not None:
        parts += [model.contract.dialect, tr("{n:,} layer(s)", n=model.contract.layers)]
    if plan is not None and plan.milliseconds:
        parts.append(tr("planned in {milliseconds:.0f} ms", milliseconds=plan.milliseconds))
    return " · ".join(parts)


def window_title(state: AppState) -> str:
    """The window's title."""
    if state.model is None:
        return "VRAMScope"
    return f"{state.model.name}{tr(' (report)') if state.report else ''} — VRAMScope"

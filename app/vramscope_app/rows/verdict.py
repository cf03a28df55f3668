"""The verdict in words: tone, icon, sentence, the line below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.model import OpenParams
from vramscope_app.text import figure_text, short_bytes

if TYPE_CHECKING:
    from vramscope.messages.planning import PlanInfo
    from vramscope_app.client import Refusal
    from vramscope_app.state import AppState

TONES = {
    "fits": ("good", "fits"),
    "does not fit": ("bad", "short"),
    "cannot be planned": ("warning", "refused"),
    "no card or budget given": ("info", "unjudged"),
}


@dataclass(frozen=True, slots=True)
class Message:
    """What a banner shows."""

    tone: str = "info"
    icon: str = "note"
    title: str = ""
    body: str = ""


def verdict_message(state: AppState) -> Message:
    """The verdict, or what stands in its way."""
    if state.plan is not None:
        tone, icon = TONES.get(state.plan.verdict.kind, ("info", "unjudged"))
        return Message(tone, icon, _title(state.plan), _body(state.plan))
    if state.model is not None:
        return Message("info", "unjudged", f"{state.model.name} is open; its plan is not there yet", "")
    opened = "Open a .onnx file or a model folder, drop one here, or choose a sample"
    return Message("info", "open", "No model is open", opened)


def _title(plan: PlanInfo) -> str:
    sentence = plan.verdict.sentence.strip() or plan.verdict.kind
    return sentence[:1].upper() + sentence[1:]


def _body(plan: PlanInfo) -> str:
    verdict = plan.verdict
    parts = []
    if verdict.available is not None:
        parts.append(f"{figure_text(verdict.needed)} of {short_bytes(verdict.available)}")
    if verdict.largest_context is not None:
        parts.append(f"largest context {verdict.largest_context:,}")
    if verdict.largest_batch is not None:
        parts.append(f"largest batch {verdict.largest_batch:,}")
    if verdict.blame:
        parts.append(f"largest part: {verdict.blame}")
    return " · ".join(parts)


def death_message(state: AppState) -> Message:
    """What was running when the engine ended, and what is still here."""
    death = state.death
    if death is None:
        return Message()
    running = ", ".join(call_text(call.method, call.params) for call in death.calls)
    what = f"while running: {running}" if running else "while nothing was running"
    body = "What you see is the last state before that. Restart opens the model again."
    return Message("bad", "engine", f"The engine stopped ({death.reason}) {what}", body)


def call_text(method: str, params: object) -> str:
    """A call in a few words: ``replay × 32``."""
    count = getattr(params, "count", 0)
    return f"{method} × {count}" if count else method


def failure_message(state: AppState) -> Message:
    """The newest failure: what, why, and what to do."""
    if state.notice is None:
        return Message()
    error = state.notice.error
    where = f" (at node {error.node})" if error.node else ""
    return Message("bad", "error", f"{error.what}: {error.why}{where}", error.remedy)


def lighter_source(notice: Refusal | None) -> OpenParams | None:
    """What to open instead where data files are missing: the same model, to be planned alone."""
    if notice is None or notice.error.code != "MissingWeights":
        return None
    source = notice.call.params
    return msgspec.structs.replace(source, without_weights=True) if isinstance(source, OpenParams) else None

"""The verdict in words: tone, icon, sentence, the line below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.model import OpenParams
from vramscope.messages.planning import DEVICE_CONTEXT
from vramscope_app.text import figure_text, short_bytes
from vramscope_app.translation import marked, tr

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
        return Message(
            "info", "unjudged", tr("{name} is open; its plan is not there yet", name=state.model.name), ""
        )
    opened = tr("Open a .onnx file or a model folder, drop one here, or choose a sample")
    return Message("info", "open", tr("No model is open"), opened)


def _title(plan: PlanInfo) -> str:
    sentence = verdict_sentence(plan) or plan.verdict.kind
    if plan.assumes:
        return tr("If exported so: {sentence}", sentence=sentence)
    return sentence[:1].upper() + sentence[1:]


def verdict_sentence(plan: PlanInfo) -> str:
    """The verdict as a sentence; why nothing can be planned the engine says itself."""
    verdict = plan.verdict
    where = _where(plan)
    if verdict.kind == "no card or budget given":
        return tr("needs {size}{where}; choose a card to judge it", size=_known(plan), where=where)
    if verdict.headroom is None or verdict.kind not in ("fits", "does not fit"):
        return verdict.sentence.strip()
    size = short_bytes(abs(verdict.headroom))
    if verdict.kind == "fits":
        return tr("fits with {size} to spare{where}", size=size, where=where)
    largest = _largest(plan)
    blame = blame_clause(verdict.blame)
    return tr(
        "short by {size}{where}{largest}; {blame}", size=size, where=where, largest=largest, blame=blame
    )


def _known(plan: PlanInfo) -> str:
    """What is known of the total, to which the device context does not belong."""
    parts = (item.figure.bytes or 0 for item in plan.components if item.name != DEVICE_CONTEXT)
    return short_bytes(sum(parts))


def _where(plan: PlanInfo) -> str:
    scenario = plan.scenario
    if scenario.budget is not None:
        target = tr(" in {budget}", budget=short_bytes(scenario.budget))
    else:
        target = tr(" on {card}", card=scenario.card) if scenario.card else ""
    length = tr(", context {context:,}", context=plan.context) if plan.context else ""
    return tr("{target} at batch {batch}{length}", target=target, batch=scenario.batch, length=length)


def _largest(plan: PlanInfo) -> str:
    """What would fit instead; the engine says when nothing does."""
    context, batch = plan.verdict.largest_context, plan.verdict.largest_batch
    if context:
        return tr("; the largest context that fits is {context:,}", context=context)
    if batch and not plan.context:
        return tr("; the largest batch that fits is {batch:,}", batch=batch)
    if batch:
        return tr("; no context fits at this batch, the largest batch that fits is {batch:,}", batch=batch)
    if not plan.context:
        return ""
    return tr("; no context fits at this batch") if plan.scenario.batch > 1 else tr("; no context fits")


BLAMED = {
    "weights": marked("the weights are to blame"),
    "KV cache": marked("the KV cache is to blame"),
    "activations": marked("the activations are to blame"),
    "workspace": marked("the workspace is to blame"),
    "inputs and outputs": marked("the inputs and outputs are to blame"),
    "device context": marked("the device context is to blame"),
}


def blame_clause(blame: str) -> str:
    """That a component or a node is to blame."""
    part = blame.removeprefix("the ")
    if part in BLAMED:
        return tr(BLAMED[part])
    return tr("node {name} is to blame", name=blame.removeprefix("node "))


def blame_text(blame: str) -> str:
    """The largest part: a component or a node."""
    part = blame.removeprefix("the ")
    return tr(part) if part in BLAMED else tr("node {name}", name=blame.removeprefix("node "))


def _body(plan: PlanInfo) -> str:
    """What the title leaves out; where it is short the title names the culprit and what would fit."""
    verdict = plan.verdict
    short = verdict.kind == "does not fit"
    parts = []
    if verdict.available is not None:
        needed, available = figure_text(verdict.needed), short_bytes(verdict.available)
        whole = marked("{needed} of {available}")
        words = marked("{needed} needed, {available} available") if short else whole
        parts.append(tr(words, needed=needed, available=available))
    if verdict.largest_context is not None and not short:
        parts.append(tr("largest context {largest_context:,}", largest_context=verdict.largest_context))
    if verdict.largest_batch is not None and not (short and not verdict.largest_context):
        parts.append(tr("largest batch {largest_batch:,}", largest_batch=verdict.largest_batch))
    if verdict.blame and not short:
        parts.append(tr("largest part: {blame}", blame=blame_text(verdict.blame)))
    return " · ".join(parts)


def death_message(state: AppState) -> Message:
    """What was running when the engine ended, and what is still here."""
    death = state.death
    if death is None:
        return Message()
    running = ", ".join(call_text(call.method, call.params) for call in death.calls)
    what = tr("while running: {running}", running=running) if running else tr("while nothing was running")
    body = tr("What you see is the last state before that. Restart opens the model again.")
    return Message(
        "bad", "engine", tr("The engine stopped ({reason}) {what}", reason=death.reason, what=what), body
    )


def call_text(method: str, params: object) -> str:
    """A call in a few words: ``replay × 32``."""
    count = getattr(params, "count", 0)
    name = tr(method)
    return f"{name} × {count}" if count else name


def failure_message(state: AppState) -> Message:
    """The newest failure: what, why, and what to do."""
    if state.notice is None:
        return Message()
    error = state.notice.error
    where = tr(" (at node {node})", node=error.node) if error.node else ""
    return Message("bad", "error", f"{error.what}: {error.why}{where}", error.remedy)


def lighter_source(notice: Refusal | None) -> OpenParams | None:
    """What to open instead where data files are missing: the same model, to be planned alone."""
    if notice is None or notice.error.code != "MissingWeights":
        return None
    source = notice.call.params
    return msgspec.structs.replace(source, without_weights=True) if isinstance(source, OpenParams) else None

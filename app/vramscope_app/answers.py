"""What an answer of the engine changes in the window's state: functions of the state and the answer alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vramscope.messages.live import EMPTY_SNAPSHOT
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import DEVICE_CONTEXT, ExportParams
from vramscope.messages.running import PrefillParams, RunModelParams, TraceParams
from vramscope_app.rows.history import History
from vramscope_app.rows.report import read_only, run_of
from vramscope_app.rows.scenario import wished
from vramscope_app.state import EMPTY_RUN, NO_SLOTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from vramscope_app.client import Call, Refusal, Reply
    from vramscope_app.state import AppState

KEPT_FAILURES = 20
FIELDS = {
    "headroom": "headroom",
    "node": "node",
    "neighbours": "neighbours",
    "step": "run",
    "replay": "run",
    "slots": "slots",
    "run_model": "outputs",
    "trace": "trace",
    "snapshot": "live",
}
"""Requests whose result is a field of the state, as it is."""
WITH_RUN = {"capture": "capture", "verify": "verify", "profile": "profile"}
"""Requests whose result is a field of the state and says how the run stands."""
RUNNING = frozenset({"prefill", "step", "capture", "replay", "verify", "profile", "reset"})
"""Requests after which the slots are asked for."""
RESTARTING = frozenset({"prefill", "run_model", "reset"})
"""Requests that start a new run."""


def changes(state: AppState, reply: Reply, wishes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Fields of the state that become others with an answer; none for a result that nobody keeps.

    Args:
        state: before the answer.
        reply: the answer; a plan is the newest that was asked for.
        wishes: what the scenario of a model that was opened shall be, beside what the model proposes.
    """
    method, result = reply.call.method, reply.result
    if method in FIELDS:
        return {FIELDS[method]: result}
    if method in WITH_RUN:
        return {WITH_RUN[method]: result, "run": result.run}
    if method == "open":
        return _opened(state, reply, wishes or {})
    taking = {"report": _reported, "plan": _planned, "prefill": _prefilled, "reset": _reset}
    return taking[method](state, reply) if method in taking else {}


def begun(call: Call) -> dict[str, Any]:
    """What a request changes before it is answered: a run begins in its scenario."""
    params = call.params
    return {"ran": params.scenario} if isinstance(params, PrefillParams | RunModelParams) else {}


def tells_context(state: AppState) -> bool:
    """Whether a run has opened a card since the plan was made, so that planning again bounds its context."""
    planned = state.plan.components if state.plan is not None else []
    unknown = any(item.name == DEVICE_CONTEXT and item.figure.bytes is None for item in planned)
    return unknown and any(item.name == DEVICE_CONTEXT for item in state.live.measured)


def written(reply: Reply) -> str:
    """The file that the engine wrote for a request; empty for requests that write none."""
    return str(reply.call.params.path) if isinstance(reply.call.params, ExportParams | TraceParams) else ""


def fresh(source: msgspec.Struct | None) -> dict[str, Any]:
    """Nothing of what was open before ``source``."""
    return {
        "source": source,
        "opened": source,
        "report": "",
        "detailed": False,
        "plan": None,
        "headroom": None,
        "nodes": {},
        "arenas": {},
        "node": None,
        "neighbours": None,
        "run": EMPTY_RUN,
        "ran": None,
        "capture": None,
        "verify": None,
        "profile": None,
        "slots": NO_SLOTS,
        "outputs": None,
        "live": EMPTY_SNAPSHOT,
        "failures": (),
    }


def with_failure(failures: tuple[Refusal, ...], refusal: Refusal) -> tuple[Refusal, ...]:
    """The failures with a newer one, newest first."""
    return (refusal, *_without(failures, refusal.call.method))[:KEPT_FAILURES]


def _without(failures: tuple[Refusal, ...], method: str) -> tuple[Refusal, ...]:
    """Failures of other methods: a newer request of the same kind makes the older failure pointless."""
    return tuple(item for item in failures if item.call.method != method)


def _opened(state: AppState, reply: Reply, wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario stays when the same is opened again."""
    model, same = reply.result, reply.call.params == state.opened
    scenario = state.scenario if same else wished(model.scenario, wishes)
    history = state.history if same else History()
    return {**fresh(reply.call.params), "model": model, "scenario": scenario, "history": history}


def _reported(_state: AppState, reply: Reply) -> dict[str, Any]:
    """A report stands in the place of a model: there is a plan, and nothing to plan or run."""
    shown = reply.result
    return {
        **fresh(OpenParams(path=shown.path)),
        "report": shown.path,
        "detailed": shown.detailed,
        "headroom": shown.headroom,
        "model": shown.model,
        "scenario": shown.plan.scenario,
        "history": History(),
        "plan": read_only(shown.plan),
        **run_of(shown),
    }


def _planned(state: AppState, reply: Reply) -> dict[str, Any]:
    """Measured times belong to the scenario that they were measured in."""
    same = state.plan is not None and state.plan.scenario == reply.result.scenario
    measured = {} if same else {"profile": None}
    return {"plan": reply.result, "failures": _without(state.failures, "plan"), **measured}


def _prefilled(_state: AppState, reply: Reply) -> dict[str, Any]:
    return {"run": reply.result, "capture": None, "verify": None, "profile": None}


def _reset(_state: AppState, reply: Reply) -> dict[str, Any]:
    return {"run": reply.result, "verify": None}

"""The ``headroom`` request: plans over contexts and batches, as a message."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope.messages.headroom import HeadroomColumn, HeadroomCurves, HeadroomLine
from vramscope.plan.headroom_curves import Headroom, even_contexts, plan_headroom
from vramscope.plan.planner import Planner, available_bytes
from vramscope.plan.types import ComponentName
from vramscope.server.convert import scenario_of

if TYPE_CHECKING:
    from vramscope.messages.headroom import HeadroomParams
    from vramscope.server.listener import Listener

MOST_POINTS = 200
MOST_BATCHES = 8


def headroom_curves(planner: Planner, params: HeadroomParams, listener: Listener) -> HeadroomCurves:
    """Answers one request.

    Raises:
        InputError: no decoder, no context, or more contexts or batches than a chart can show.
    """
    started = perf_counter()
    scenario = scenario_of(params.scenario)
    _check(params)
    contexts = tuple(sorted(set(params.contexts))) or even_contexts(planner, scenario, params.points)
    batches = tuple(dict.fromkeys((scenario.batch, *params.batches)))
    found = plan_headroom(planner, scenario, contexts, batches, listener.cancel)
    return HeadroomCurves(
        scenario=params.scenario,
        contexts=list(found.contexts),
        components=_columns(found),
        lines=[
            HeadroomLine(
                batch=line.batch,
                totals=[-1 if size is None else size for size in line.totals],
                largest_context=line.largest_context,
            )
            for line in found.lines
        ],
        available=available_bytes(scenario),
        milliseconds=(perf_counter() - started) * 1000,
    )


def _check(params: HeadroomParams) -> None:
    points = len(params.contexts) or params.points
    if not 1 <= points <= MOST_POINTS or any(tokens < 1 for tokens in params.contexts):
        raise InputError("the contexts", f"1 to {MOST_POINTS} of at least 1 token can be planned at once")
    if len(params.batches) > MOST_BATCHES or any(batch < 1 for batch in params.batches):
        raise InputError("the batches", f"up to {MOST_BATCHES} of at least 1 can be planned at once")


def _columns(found: Headroom) -> list[HeadroomColumn]:
    sizes = [{item.name: item.figure.bytes for item in items} for items in found.components]
    return [
        HeadroomColumn(name=name.value, bytes=[_known(size.get(name)) for size in sizes])
        for name in ComponentName
        if any(size.get(name) is not None for size in sizes)
    ]


def _known(size: int | None) -> int:
    return -1 if size is None else size

"""Headroom as messages: the curves of the ``headroom`` request, and the grid of a report."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from vramscope.errors import InputError
from vramscope.messages.headroom import (
    HeadroomColumn,
    HeadroomCurves,
    HeadroomLimit,
    HeadroomLine,
    HeadroomParams,
)
from vramscope.messages.planning import HeadroomInfo
from vramscope.plan.cards import find_card
from vramscope.plan.headroom import Headroom, even_contexts, grid, plan_headroom
from vramscope.plan.planner import Planner, available_bytes
from vramscope.plan.types import ComponentName
from vramscope.server.convert import scenario_info, scenario_of
from vramscope.server.listener import Listener

if TYPE_CHECKING:
    from vramscope.plan.types import Plan, Scenario

MOST_POINTS = 200
MOST_BATCHES = 8
MOST_CARDS = 16


def headroom_grid(planner: Planner, plan: Plan) -> list[HeadroomInfo]:
    """Totals around a plan: every context of its grid at every batch."""
    contexts, batches = grid(planner, plan)
    found = plan_headroom(planner, plan.scenario, contexts, batches, parts=False)
    available = plan.verdict.available
    cells = []
    for place, context in enumerate(found.contexts):
        for line in found.lines:
            size = line.totals[place]
            fits = None if size is None or available is None else size <= available
            cells.append(HeadroomInfo(context=context, batch=line.batch, bytes=size, fits=fits))
    return cells


def usual_curves(planner: Planner, plan: Plan) -> HeadroomCurves | None:
    """The curves that a report keeps: a decoder's own batch, one, half, twice and four times as many."""
    if planner.model.contract is None or plan.refusals:
        return None
    batch = plan.scenario.batch
    others = [item for item in dict.fromkeys((1, batch // 2, batch * 2, batch * 4)) if 1 <= item != batch]
    params = HeadroomParams(scenario=scenario_info(plan.scenario), batches=others)
    found = headroom_curves(planner, params, Listener())
    return msgspec.structs.replace(found, milliseconds=0.0)


def headroom_curves(planner: Planner, params: HeadroomParams, listener: Listener) -> HeadroomCurves:
    """Answers one request.

    Raises:
        InputError: no decoder, no context, or more contexts, batches or cards than a chart can show.
        ScenarioError: a card that the catalogue does not have.
    """
    started = perf_counter()
    scenario = scenario_of(params.scenario)
    _check(params)
    contexts = tuple(sorted(set(params.contexts))) or even_contexts(planner, scenario, params.points)
    batches = tuple(dict.fromkeys((scenario.batch, *params.batches)))
    limits = _limits(scenario, params)
    amounts = [item.available for item in limits]
    found = plan_headroom(planner, scenario, contexts, batches, amounts=amounts, cancel=listener.cancel)
    return HeadroomCurves(
        scenario=params.scenario,
        contexts=list(found.contexts),
        components=_columns(found),
        lines=[
            HeadroomLine(
                batch=line.batch,
                totals=[_known(size) for size in line.totals],
                largest_contexts=list(line.largest),
            )
            for line in found.lines
        ],
        limits=limits,
        milliseconds=(perf_counter() - started) * 1000,
    )


def _limits(scenario: Scenario, params: HeadroomParams) -> list[HeadroomLimit]:
    """What the scenario is judged against first, then the other cards, each once."""
    own = available_bytes(scenario)
    name = "budget" if scenario.budget is not None else find_card(scenario.card).name if scenario.card else ""
    found = [] if own is None else [HeadroomLimit(name=name, available=own, own=True)]
    cards = [find_card(item) for item in params.cards]
    found += [HeadroomLimit(name=card.name, available=card.memory_bytes) for card in cards]
    kept: dict[str, HeadroomLimit] = {}
    for item in found:
        kept.setdefault(item.name, item)
    return list(kept.values())


def _check(params: HeadroomParams) -> None:
    points = len(params.contexts) or params.points
    if not 1 <= points <= MOST_POINTS or any(tokens < 1 for tokens in params.contexts):
        raise InputError("the contexts", f"1 to {MOST_POINTS} of at least 1 token can be planned at once")
    if len(params.batches) > MOST_BATCHES or any(batch < 1 for batch in params.batches):
        raise InputError("the batches", f"up to {MOST_BATCHES} of at least 1 can be planned at once")
    if len(params.cards) > MOST_CARDS:
        raise InputError("the cards", f"up to {MOST_CARDS} can be compared at once")


def _columns(found: Headroom) -> list[HeadroomColumn]:
    sizes = [{item.name: item.figure.bytes for item in items} for items in found.components]
    return [
        HeadroomColumn(name=name.value, bytes=[_known(size.get(name)) for size in sizes])
        for name in ComponentName
        if any(size.get(name) is not None for size in sizes)
    ]


def _known(size: int | None) -> int:
    return -1 if size is None else size

"""Headroom: every point is what planning that point says, and the crossing is where it stops fitting."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from planned_models import chain, planner_of

from vramscope.api import Planner, Scenario, open_path
from vramscope.errors import CancelledError, InputError, ScenarioError
from vramscope.messages.headroom import HeadroomParams
from vramscope.messages.planning import ScenarioInfo
from vramscope.plan.headroom import even_contexts, plan_headroom
from vramscope.plan.types import ComponentName
from vramscope.server.headroom import headroom_curves, headroom_grid
from vramscope.server.listener import Listener

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = Scenario(prompt=16, context=100, budget=1_500_000)


@pytest.fixture(scope="module")
def llama(shared_models: Path) -> Planner:
    return Planner(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))


def test_contexts_are_spread_from_the_prompt_to_the_limit_with_the_scenario_s_own(llama: Planner) -> None:
    found = even_contexts(llama, SCENARIO, 5)
    assert found == (16, 76, 100, 136, 196, 256)
    assert even_contexts(llama, replace(SCENARIO, context=0), 1) == (16,)


def test_every_point_is_what_a_plan_of_it_says(llama: Planner) -> None:
    contexts = even_contexts(llama, SCENARIO, 4)
    found = plan_headroom(llama, SCENARIO, contexts, (1, 3))
    for place, tokens in enumerate(contexts):
        for line in found.lines:
            plan = llama.plan(replace(SCENARIO, context=tokens, batch=line.batch))
            assert line.totals[place] == plan.total.bytes
            if line.batch == SCENARIO.batch:
                assert found.components[place] == plan.components
                assert sum(item.figure.known for item in found.components[place]) == line.totals[place]


def test_the_largest_context_is_the_last_that_fits(llama: Planner) -> None:
    totals = [llama.total_bytes(replace(SCENARIO, context=tokens)) for tokens in (16, 256)]
    assert None not in totals
    budget = sum(size for size in totals if size is not None) // 2
    (line,) = plan_headroom(llama, SCENARIO, (16, 256), (1,), amounts=(budget, 1, 2**60)).lines
    edge, none, everything = line.largest
    assert (none, everything) == (None, 256)
    assert edge is not None
    below, above = (llama.total_bytes(replace(SCENARIO, context=tokens)) for tokens in (edge, edge + 1))
    assert below is not None
    assert above is not None
    assert below <= budget < above


def test_what_cannot_be_planned_is_unknown(llama: Planner) -> None:
    params = HeadroomParams(scenario=ScenarioInfo(prompt=16), contexts=[8, 16, 10_000])
    info = headroom_curves(llama, params, Listener())
    assert [size > 0 for size in info.lines[0].totals] == [True, True, False], (
        "a prompt is cut to its context"
    )
    assert all(column.bytes[2] == -1 < column.bytes[1] for column in info.components)
    assert ComponentName.CONTEXT.value not in [column.name for column in info.components]
    assert (info.limits, info.lines[0].largest_contexts) == ([], [])


def test_every_card_asked_for_is_a_limit_with_its_own_crossing(llama: Planner) -> None:
    scenario = ScenarioInfo(prompt=16, context=100, card="RTX 4090")
    params = HeadroomParams(scenario=scenario, contexts=[16, 256], cards=["L4", "RTX 4090"])
    info = headroom_curves(llama, params, Listener())
    assert [(limit.name, limit.own) for limit in info.limits] == [("GeForce RTX 4090", True), ("L4", False)]
    assert info.lines[0].largest_contexts == [256, 256]
    with pytest.raises(ScenarioError, match="Riva"):
        headroom_curves(llama, HeadroomParams(scenario=scenario, cards=["Riva TNT"]), Listener())


def test_the_grid_of_a_report_is_the_same_planner_at_its_own_points(llama: Planner) -> None:
    plan = llama.plan(SCENARIO)
    cells = headroom_grid(llama, plan)
    assert {cell.batch for cell in cells} == {1, 2, 4, 8}
    assert {cell.context for cell in cells} == {100, 256}
    for cell in cells:
        again = llama.plan(replace(SCENARIO, context=cell.context, batch=cell.batch))
        assert cell.bytes == again.total.bytes
        assert cell.fits == ((again.verdict.headroom or 0) >= 0)


def test_it_can_be_stopped_and_refuses_what_is_no_chart(llama: Planner) -> None:
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise CancelledError("headroom", "stopped")

    with pytest.raises(CancelledError):
        plan_headroom(llama, SCENARIO, (16, 32, 64, 128), (1,), cancel=stop)
    for wrong in (
        {"points": 0},
        {"contexts": [0]},
        {"batches": [0]},
        {"points": 1000},
        {"cards": ["L4"] * 99},
    ):
        with pytest.raises(InputError, match="at once"):
            headroom_curves(llama, HeadroomParams(scenario=ScenarioInfo(), **wrong), Listener())


def test_a_model_that_is_no_decoder_has_none(tmp_path: Path) -> None:
    plain = planner_of(tmp_path, chain(2))
    with pytest.raises(InputError, match="no decoder"):
        plan_headroom(plain, Scenario(), (16,), (1,))

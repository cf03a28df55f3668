"""The headroom chart as numbers: stacks, far cards, unknown stretches, crossings, clicks, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from vramscope.messages.headroom import HeadroomColumn, HeadroomCurves, HeadroomLine, HeadroomParams
from vramscope.messages.planning import ScenarioInfo
from vramscope_app.rows.headroom import chart, context_at, other_batches, spoken

if TYPE_CHECKING:
    from tests.app.conftest import Script

CURVES = HeadroomCurves(
    scenario=ScenarioInfo(context=200, card="Some card"),
    contexts=[100, 200, 300],
    components=[
        HeadroomColumn(name="weights", bytes=[50, 50, 50]),
        HeadroomColumn(name="KV cache", bytes=[10, 20, 30]),
    ],
    lines=[
        HeadroomLine(batch=1, totals=[60, 70, 80], largest_context=250),
        HeadroomLine(batch=2, totals=[70, 90, -1], largest_context=None),
    ],
    available=75,
    milliseconds=1.0,
)


def test_layers_stand_on_each_other() -> None:
    made = chart(CURVES)
    assert [(stack.name, stack.top.tolist()) for stack in made.stacks] == [
        ("weights", [50, 50, 50]),
        ("KV cache", [60, 70, 80]),
    ]
    assert made.card == 75
    assert made.top > 80
    assert np.isnan(made.lines[1][1][2])


def test_the_crossing_is_the_engine_s_own_number() -> None:
    (crossing,) = chart(CURVES).crossings
    assert (crossing.batch, crossing.context, crossing.bytes) == (1, 250, 75)
    assert spoken(chart(CURVES)) == "Some card 75 B; batch 1 fits up to a context of 250"
    fits = msgspec.structs.replace(CURVES.lines[0], largest_context=300)
    assert chart(msgspec.structs.replace(CURVES, lines=[fits])).crossings == ()


def test_a_card_far_above_or_none_at_all_is_told_in_words() -> None:
    far = chart(msgspec.structs.replace(CURVES, available=10_000))
    assert far.card is None
    assert "far above this chart" in far.card_text
    assert far.top < 100
    assert "Choose a card" in chart(msgspec.structs.replace(CURVES, available=None)).card_text


@pytest.mark.parametrize(("batch", "others"), [(1, [2, 4]), (2, [1, 4, 8]), (8, [1, 4, 16])])
def test_other_batches_surround_the_chosen_one(batch: int, others: list[int]) -> None:
    assert other_batches(batch) == others


def test_a_click_is_a_round_context_inside_the_chart() -> None:
    contexts = np.array([16.0, 131_072.0])
    assert context_at(70_123.4, contexts) % 512 == 0
    assert abs(context_at(70_123.4, contexts) - 70_123) <= 256
    assert (context_at(-5, contexts), context_at(1e9, contexts)) == (16, 131_072)


def test_curves_are_asked_once_a_plan_while_they_can_be_seen(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[HeadroomParams] = []
    script.open()
    script.plan()
    monkeypatch.setattr(script.client, "call", lambda _method, params: sent.append(params))
    script.controller.want_headroom()
    script.controller.want_headroom()
    assert [params.batches for params in sent] == [[2, 4]]
    script.answer("headroom", sent[0], CURVES)
    assert script.window.headroom.drawn is not None
    assert script.window.headroom.plot.accessibleDescription().startswith("Some card 75 B")
    script.plan(ticket=2)
    script.controller.want_headroom()
    assert len(sent) == 2

"""The headroom chart as numbers: stacks, far cards, unknown stretches, crossings, clicks, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import Qt

from vramscope.messages.headroom import (
    HeadroomColumn,
    HeadroomCurves,
    HeadroomLimit,
    HeadroomLine,
    HeadroomParams,
)
from vramscope.messages.planning import ScenarioInfo
from vramscope_app.panels.headroom import NAME_ROOM
from vramscope_app.rows.headroom import chart, context_at, spoken
from vramscope_app.rows.scenario import other_batches

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
        HeadroomLine(batch=1, totals=[60, 70, 80], largest_contexts=[250]),
        HeadroomLine(batch=2, totals=[70, 90, -1], largest_contexts=[None]),
    ],
    limits=[HeadroomLimit(name="Some card", available=75, own=True)],
    milliseconds=1.0,
)


def test_layers_stand_on_each_other() -> None:
    made = chart(CURVES)
    assert [(stack.name, stack.top.tolist()) for stack in made.stacks] == [
        ("weights", [50, 50, 50]),
        ("KV cache", [60, 70, 80]),
    ]
    assert [card.bytes for card in made.cards] == [75]
    assert made.top > 80
    assert np.isnan(made.lines[1][1][2])


def test_the_crossing_is_the_engine_s_own_number() -> None:
    ((crossing,),) = [card.crossings for card in chart(CURVES).cards]
    assert (crossing.batch, crossing.context, crossing.bytes) == (1, 250, 75)
    assert spoken(chart(CURVES)) == "Some card 75 B; in Some card 75 B batch 1 fits up to a context of 250"
    fits = msgspec.structs.replace(CURVES.lines[0], largest_contexts=[300])
    assert chart(msgspec.structs.replace(CURVES, lines=[fits])).cards[0].crossings == ()


def test_cards_far_above_or_none_at_all_are_told_in_words() -> None:
    limits = [*CURVES.limits, HeadroomLimit(name="GeForce Huge", available=10_000)]
    lines = [
        msgspec.structs.replace(line, largest_contexts=[*line.largest_contexts, 300]) for line in CURVES.lines
    ]
    made = chart(msgspec.structs.replace(CURVES, limits=limits, lines=lines))
    assert [card.text for card in made.cards] == ["Some card 75 B"]
    assert made.words == "Huge 9.77 KiB: far above this chart, every context fits"
    assert made.top < 100
    assert "Choose a card" in chart(msgspec.structs.replace(CURVES, limits=[])).words


def test_every_near_card_is_a_line_with_its_own_crossings() -> None:
    limits = [*CURVES.limits, HeadroomLimit(name="Other", available=90)]
    lines = [
        msgspec.structs.replace(line, largest_contexts=[*line.largest_contexts, 200]) for line in CURVES.lines
    ]
    made = chart(msgspec.structs.replace(CURVES, limits=limits, lines=lines))
    found = [(card.own, [item.context for item in card.crossings]) for card in made.cards]
    assert found == [(True, [250]), (False, [200, 200])]
    assert made.top > 90


def test_a_click_near_a_batch_means_that_batch() -> None:
    made = chart(CURVES)
    assert made.batch_at(200, 71) == 1
    assert made.batch_at(200, 89) == 2
    assert made.batch_at(200, 20) == 1
    assert made.batch_at(300, 200) == 1, "where a line is unknown nothing passes by"


def test_the_name_of_a_batch_keeps_clear_of_a_card_s_name(script: Script) -> None:
    """A steep line crosses the card's near the left, where the card's name stands."""
    steep = [round(10 + 70 * place / 9) for place in range(10)]
    contexts = [100 * (place + 1) for place in range(10)]
    curves = msgspec.structs.replace(
        CURVES,
        contexts=contexts,
        components=[HeadroomColumn(name="weights", bytes=[50] * 10)],
        lines=[
            HeadroomLine(batch=1, totals=[50] * 10, largest_contexts=[1000]),
            HeadroomLine(batch=4, totals=steep, largest_contexts=[500]),
        ],
        limits=[HeadroomLimit(name="Some card", available=45, own=True)],
    )
    panel = script.window.headroom
    panel.set_curves(curves)
    names = [item for item in panel.plot.getPlotItem().items if isinstance(item, pg.TextItem)]
    (batch,) = [item for item in names if item.toPlainText() == "batch 4"]
    (card,) = [item for item in names if item.toPlainText().startswith("Some card")]
    top = panel.plot.getViewBox().viewRange()[1][1]
    assert abs(batch.pos().y() - card.pos().y()) >= NAME_ROOM * top


def test_cards_are_ticked_found_and_remembered(script: Script) -> None:
    script.open()
    script.plan()
    panel = script.window.headroom
    cards = panel.cards
    cards.search.setText("4090")
    shown = [
        cards.list.item(row).text()
        for row in range(cards.list.count())
        if not cards.list.item(row).isHidden()
    ]
    assert shown == ["GeForce RTX 4090 · 24.0 GiB"]
    cards.list.item(1).setCheckState(Qt.CheckState.Checked)
    assert cards.chosen == ["GeForce RTX 4090"]
    assert cards.text() == "Compare cards (1)"
    script.client.ready.emit(hello := script.controller.state.hello)
    assert hello is not None
    cards.set_cards(hello.cards, script.window._settings.compared)
    assert cards.chosen == ["GeForce RTX 4090"]


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
    script.controller.want_headroom([])
    script.controller.want_headroom([])
    assert [params.batches for params in sent] == [[2, 4]]
    script.answer("headroom", sent[0], CURVES)
    assert script.window.headroom.drawn is not None
    assert script.window.headroom.plot.accessibleDescription().startswith("Some card 75 B")
    script.plan(ticket=2)
    script.controller.want_headroom([])
    assert len(sent) == 2
    script.controller.want_headroom(["H100 SXM"])
    assert sent[2].cards == ["H100 SXM"]
    script.window.headroom.choose_at(200, 89)
    scenario = script.controller.state.scenario
    assert (scenario.context, scenario.batch) == (200, 2)

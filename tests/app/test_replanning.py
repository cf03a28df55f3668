"""Re-planning while the scenario is edited: few plans, brief ones while it moves, a whole one at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from vramscope.messages.planning import DEVICE_CONTEXT, ComponentInfo, PlanParams, ScenarioInfo
from vramscope.messages.running import PrefillParams
from vramscope_app.client import Call
from vramscope_app.replanning import Replanner
from vramscope_app.state import EMPTY_RUN

if TYPE_CHECKING:
    from types import ModuleType

    from pytestqt.qtbot import QtBot
    from tests.app.conftest import Script


class FakeWire:
    """Remembers what was asked; the newest call stays without an answer until ``calls`` is emptied."""

    def __init__(self) -> None:
        self.sent: list[PlanParams] = []
        self.calls: tuple[Call, ...] = ()

    def call(self, method: str, params: PlanParams) -> int:
        self.sent.append(params)
        self.calls = (Call(len(self.sent), method, params, 0.0),)
        return len(self.sent)


@pytest.fixture
def wire() -> FakeWire:
    return FakeWire()


@pytest.fixture
def replanner(script: Script, wire: FakeWire) -> Replanner:
    return Replanner(wire, lambda: ScenarioInfo(context=64), script.window)  # type: ignore[arg-type]  # a stand-in


def test_one_edit_is_one_whole_plan(qtbot: QtBot, replanner: Replanner, wire: FakeWire) -> None:
    replanner.edited()
    qtbot.waitUntil(lambda: bool(wire.sent))
    assert not wire.sent[0].brief
    wire.calls = ()
    replanner.settled()
    qtbot.wait(250)
    assert len(wire.sent) == 1


def test_a_movement_is_brief_plans_and_a_whole_one_at_its_end(
    qtbot: QtBot, script: Script, wire: FakeWire
) -> None:
    now = [10.0]
    replanner = Replanner(
        wire,  # type: ignore[arg-type]  # a stand-in
        lambda: ScenarioInfo(context=64),
        script.window,
        lambda: now[0],
    )
    for move in range(4):
        now[0] = 10.0 + move * 0.05
        replanner.edited()
        replanner.send()
        wire.calls = ()
        replanner.settled()
    assert [params.brief for params in wire.sent] == [False, True, True, True]

    def whole() -> bool:
        wire.calls = ()
        replanner.settled()
        return not wire.sent[-1].brief

    qtbot.waitUntil(whole)
    now[0] = 20.0
    wire.calls = ()
    replanner.edited()
    replanner.send()
    assert not wire.sent[-1].brief


def test_while_a_plan_runs_no_other_is_asked_and_the_last_wish_follows(
    qtbot: QtBot, replanner: Replanner, wire: FakeWire
) -> None:
    replanner.send()
    replanner.send()
    assert len(wire.sent) == 1
    assert replanner.newest(1)
    wire.calls = ()
    replanner.settled()
    assert len(wire.sent) == 2
    assert not replanner.newest(1)
    replanner.forget()
    wire.calls = ()
    replanner.settled()
    qtbot.wait(50)
    assert len(wire.sent) == 2


def test_a_brief_plan_keeps_the_suggestions_in_their_places_but_grey(
    script: Script, messages: ModuleType
) -> None:
    script.open()
    made = messages.plan()
    short = msgspec.structs.replace(made, verdict=msgspec.structs.replace(made.verdict, kind="does not fit"))
    script.answer("plan", PlanParams(scenario=made.scenario), short)
    row = script.window.overview.remedies
    assert row.isVisible()
    assert row.isEnabled()
    brief = msgspec.structs.replace(short, suggestions=[], brief=True, ticket=2)
    script.answer("plan", PlanParams(scenario=made.scenario), brief)
    assert row.isVisible()
    assert not row.isEnabled()
    script.answer("plan", PlanParams(scenario=made.scenario), msgspec.structs.replace(short, ticket=3))
    assert row.isEnabled()


def test_a_run_that_opened_a_card_plans_again_for_its_context(
    script: Script, messages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.open()
    script.plan()
    asked: list[str] = []

    def call(method: str, *_: object) -> int:
        asked.append(method)
        return 0

    monkeypatch.setattr(script.client, "call", call)
    prefill = PrefillParams(scenario=ScenarioInfo(), tokens=[1])
    script.answer("prefill", prefill, EMPTY_RUN)
    assert asked == ["slots"]
    on_card = messages.snapshot()
    context = ComponentInfo(name=DEVICE_CONTEXT, figure=messages.exact(500 * messages.MIB), detail="in use")
    script.client.snapshot.emit(msgspec.structs.replace(on_card, measured=[*on_card.measured, context]))
    script.answer("prefill", prefill, EMPTY_RUN)
    assert asked == ["slots", "slots", "plan"]

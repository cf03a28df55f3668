"""Another export in the window: its buttons, the line that says what is assumed, the way back, no run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QWidget

from vramscope.messages.planning import AssumptionInfo, PlanInfo, PlanParams, ScenarioInfo, SuggestionInfo
from vramscope.messages.reporting import BaselineParams
from vramscope.plan.rewrites.table import REWRITES
from vramscope_app.panels.suggestions import (
    BUTTONS,
    EXPORTS,
    advice,
    first_choices,
    first_exports,
    suggestion_tip,
)
from vramscope_app.rows.exports import ACTIONS, TITLES, Assumptions, assumptions, export_title
from vramscope_app.rows.history import History, record
from vramscope_app.rows.scenario import apply_change, without
from vramscope_app.state import AppState

if TYPE_CHECKING:
    from types import ModuleType

    from tests.app.conftest import Script

MIB = 2**20
LOGITS = SuggestionInfo(
    title="Keep only the last position's logits", saves=300 * MIB, change={"as_if": "last-logits"},
    headroom=9, how="mobius build … --features prune-prefill-prefix",
)  # fmt: skip
HALVE = SuggestionInfo(title="Halve the context", saves=MIB, change={"context": 9}, headroom=-5)


@pytest.fixture
def opened(script: Script) -> Script:
    """A model open and planned."""
    script.open()
    script.plan()
    return script


def short(messages: ModuleType, *suggestions: SuggestionInfo) -> PlanInfo:
    """A plan that does not fit."""
    made: PlanInfo = messages.plan(ticket=2)
    verdict = msgspec.structs.replace(made.verdict, kind="does not fit", headroom=-1)
    return msgspec.structs.replace(made, verdict=verdict, suggestions=list(suggestions))


def assumed(messages: ModuleType, *ids: str, as_it_is: int | None = 4096 * MIB) -> PlanInfo:
    """A plan of another export."""
    made: PlanInfo = messages.plan(ticket=3)
    return msgspec.structs.replace(
        made,
        scenario=msgspec.structs.replace(made.scenario, as_if=list(ids)),
        assumes=[AssumptionInfo(id=name, title=name, how=f"make {name}") for name in ids],
        as_it_is=as_it_is,
    )


def test_the_window_has_words_for_every_rewrite_of_the_engine() -> None:
    assert {rewrite.id: rewrite.title for rewrite in REWRITES} == TITLES
    assert set(ACTIONS) == {rewrite.action for rewrite in REWRITES}
    assert export_title("newer-than-this-window") == "newer-than-this-window"


def test_exports_stand_apart_from_what_changes_the_scenario(opened: Script, messages: ModuleType) -> None:
    made = short(messages, LOGITS, HALVE)
    opened.answer("plan", PlanParams(scenario=made.scenario), made)
    row = opened.window.overview.remedies
    assert row.buttons[0].text().startswith("Lower the context to 9 · saves 1.00 MiB")
    assert [button.isVisible() for button in row.buttons] == [True, False, False]
    assert row.advice.text() == "It fits when exported anew:"
    assert row.exports[0].text() == "Keep only the last position's logits · saves 300 MiB"
    assert "prune-prefill-prefix" in row.exports[0].toolTip()
    row.exports[0].click()
    assert opened.controller.state.scenario.as_if == ["last-logits"]
    assert opened.window.overview.remedies.exports[1].isHidden()


def test_the_advice_says_whether_an_export_is_enough() -> None:
    rest = msgspec.structs.replace(LOGITS, headroom=-1)
    assert (advice([LOGITS]), advice([rest, LOGITS]), advice([])) == (
        "It fits when exported anew:", "Exported anew:", "Exported anew:",
    )  # fmt: skip
    assert first_exports([HALVE, rest, LOGITS, LOGITS]) == [LOGITS, LOGITS], "those that are enough"
    assert first_exports([rest, HALVE, rest, rest]) == [rest, rest]
    assert first_choices([rest, HALVE]) == [HALVE]
    assert suggestion_tip(LOGITS).startswith("Plan as if it were exported so")
    assert suggestion_tip(HALVE).startswith("Apply this and plan again")


def test_what_makes_it_fit_stands_first(opened: Script, messages: ModuleType) -> None:
    row = opened.window.overview.remedies
    enough = msgspec.structs.replace(HALVE, headroom=0)
    still = msgspec.structs.replace(LOGITS, headroom=-1)
    for ticket, items, first, second in (
        (2, (LOGITS, HALVE), row.exports[0], row.buttons[0]),
        (3, (enough, LOGITS), row.buttons[0], row.exports[0]),
        (4, (still, HALVE), row.buttons[0], row.exports[0]),
    ):
        made = msgspec.structs.replace(short(messages, *items), ticket=ticket)
        opened.answer("plan", PlanParams(scenario=made.scenario), made)
        QApplication.processEvents()
        assert first.mapTo(row, QPoint()).y() < second.mapTo(row, QPoint()).y()
        reached: list[QWidget | None] = [first]
        while reached[-1] is not second and len(reached) < BUTTONS + EXPORTS:
            last = reached[-1]
            reached.append(last.nextInFocusChain() if last is not None else None)
        assert reached[-1] is second, "the Tab key goes the same way"


def test_every_suggestion_of_the_menu_can_be_chosen(opened: Script, messages: ModuleType) -> None:
    made = short(messages, LOGITS, HALVE)
    opened.answer("plan", PlanParams(scenario=made.scenario), made)
    actions = opened.window.overview.suggestions.menu().actions()
    assert all(action.isEnabled() for action in actions)
    actions[0].trigger()
    assert opened.controller.state.scenario.as_if == ["last-logits"]


def test_what_is_assumed_is_said_with_what_it_saves_and_a_way_out_of_each(
    opened: Script, messages: ModuleType
) -> None:
    line = opened.window.overview.assumed
    assert not line.isVisible()
    control = opened.controller
    control.edit(apply_change(control.state.scenario, {"as_if": "last-logits"}))
    assert line.isVisible(), "the wish alone is told, before its plan is there"
    control.edit(apply_change(control.state.scenario, {"as_if": "kv8"}))
    made = assumed(messages, "last-logits", "kv8")
    opened.answer("plan", PlanParams(scenario=made.scenario), made)
    assert [chip.text() for chip in line.chips] == [
        "logits of the last position alone  ×", "KV cache in 8 bits  ×",
    ]  # fmt: skip
    assert "How to export it so: make kv8" in line.chips[1].toolTip()
    assert line.chips[1].accessibleName() == "Do not assume: KV cache in 8 bits"
    assert line.saved.text().endswith("less than the file as it is")
    assert "bytes" in line.saved.toolTip() or " B" in line.saved.toolTip()
    title = opened.window.overview.verdict.accessibleName()
    assert title.startswith("If exported so: ")
    line.chips[0].click()
    assert control.state.scenario.as_if == ["kv8"]
    control.undo()
    assert control.state.scenario.as_if == ["last-logits", "kv8"]
    line.leave_button.click()
    assert control.state.scenario.as_if == []
    assert not line.isVisible()
    control.undo()
    assert control.state.scenario.as_if == ["last-logits", "kv8"]


def test_nothing_runs_while_another_export_is_planned(opened: Script, messages: ModuleType) -> None:
    assert opened.window.actions_by_id["prefill"].isEnabled()
    opened.controller.edit(apply_change(opened.controller.state.scenario, {"as_if": "kv8"}))
    made = assumed(messages, "kv8")
    opened.answer("plan", PlanParams(scenario=made.scenario), made)
    assert not opened.window.actions_by_id["prefill"].isEnabled()
    assert opened.controller.state.obstacle.startswith("The file is not exported as it is planned")
    opened.window.plan_as_it_is()
    assert opened.controller.state.obstacle == ""


def test_one_click_compares_with_the_file_as_it_is(
    opened: Script, messages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, line = opened.controller, opened.window.overview.assumed
    control.edit(apply_change(control.state.scenario, {"as_if": "kv8"}))
    assert not line.compare_button.isEnabled(), "there is no plan of it yet"
    made = assumed(messages, "kv8")
    opened.answer("plan", PlanParams(scenario=made.scenario), made)
    sent: list[tuple[str, object]] = []
    monkeypatch.setattr(opened.client, "call", lambda method, params: sent.append((method, params)))
    line.compare_button.click()
    assert sent[0] == ("baseline", BaselineParams(as_it_is=True))
    assert opened.window.docks["compare"].isVisible()


def test_a_larger_export_says_so_and_an_unknown_total_says_nothing(
    opened: Script, messages: ModuleType
) -> None:
    line = opened.window.overview.assumed
    for as_it_is, words in ((0, "more than the file as it is"), (None, "")):
        made = assumed(messages, "kv8", as_it_is=as_it_is)
        opened.controller.edit(made.scenario)
        opened.answer("plan", PlanParams(scenario=made.scenario), made)
        assert line.saved.text().endswith(words)
        assert line.saved.isVisible() is bool(words)


def test_a_saved_report_tells_what_was_assumed_and_offers_no_way_out(messages: ModuleType) -> None:
    made = assumed(messages, "kv8", "newer-than-this-window")
    found = assumptions(AppState(report="/tmp/a.vramscope.json", plan=made))
    assert [item.title for item in found.items] == ["KV cache in 8 bits", "newer-than-this-window"]
    assert not found.editable
    assert not found.comparable
    assert assumptions(AppState(plan=made)) == Assumptions(), "of an open model the scenario counts"


def test_each_click_on_an_assumption_is_an_edit_of_its_own() -> None:
    first = ScenarioInfo()
    second, third = (apply_change(first, {"as_if": name}) for name in ("kv8", "int4"))
    history = record(record(History(), first, second, 1.0), second, third, 1.1)
    assert history.past == (first, second)


def test_a_suggested_export_joins_the_others_once() -> None:
    one = apply_change(ScenarioInfo(), {"as_if": "kv8"})
    assert apply_change(one, {"as_if": "int4"}).as_if == ["kv8", "int4"]
    assert apply_change(one, {"as_if": "kv8"}) == one
    assert without(one, "kv8") == ScenarioInfo()
    assert without(one, "int4") == one

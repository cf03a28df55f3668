"""The scenario in the window: remedies, growth, chat, sampling, and what the command line wished for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from PySide6.QtWidgets import QLineEdit

from vramscope.messages.model import OpenParams
from vramscope.messages.planning import PlanParams, SuggestionInfo
from vramscope.messages.running import PrefillParams, SamplingInfo
from vramscope_app.client import Call

if TYPE_CHECKING:
    from types import ModuleType

    from tests.app.conftest import Script


@pytest.fixture
def opened(script: Script) -> Script:
    script.open()
    script.plan()
    return script


def test_where_it_does_not_fit_suggestions_are_buttons_with_what_they_save(
    opened: Script, messages: ModuleType
) -> None:
    row = opened.window.overview.remedies
    assert not row.isVisible()
    made = messages.plan(ticket=2)
    short = msgspec.structs.replace(
        made, verdict=msgspec.structs.replace(made.verdict, kind="does not fit", headroom=-1)
    )
    opened.answer("plan", PlanParams(scenario=made.scenario), short)
    assert [button.isVisible() for button in row.buttons] == [True, False, False]
    assert row.buttons[0].text() == "Lower the context to 1,024 · saves 320 MiB"
    row.buttons[0].click()
    assert opened.controller.state.scenario.context == 1024


def test_a_suggested_maximum_opens_the_editor_of_its_symbol(script: Script, messages: ModuleType) -> None:
    script.open()
    suggestion = SuggestionInfo(title="Declare a maximum for boxes", saves=0, change={"maxima": "boxes"})
    made = msgspec.structs.replace(messages.plan(refused=True), suggestions=[suggestion])
    script.answer("plan", PlanParams(scenario=made.scenario), made)
    before = script.controller.state.scenario
    button = script.window.overview.remedies.buttons[0]
    assert button.text() == "Declare a maximum for boxes"
    button.click()
    editor = script.window.axes.table.view.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    assert script.window.axes.table.view.currentIndex() == script.window.axes.table.model.index(0, 2)
    assert script.controller.state.scenario == before


def test_a_growing_cache_is_part_of_the_scenario(opened: Script) -> None:
    bar = opened.window.scenario
    assert not bar.bucket.isEnabled()
    bar.growing.click()
    bar.bucket.setValue(16)
    scenario = opened.controller.state.scenario
    assert (scenario.bucket_growing, scenario.bucket_minimum) == (True, 16)


def test_a_cache_that_is_not_paged_offers_growth_and_no_blocks(opened: Script) -> None:
    bar = opened.window.scenario
    assert bar.growing.isVisibleTo(bar)
    assert not bar.block_size.isVisibleTo(bar)
    assert not bar.kv_blocks.isVisibleTo(bar)


def test_the_passes_over_the_prompt_are_planned_run_and_undone(
    opened: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = opened.window.scenario
    assert bar.chunk.text() == "in one pass"
    bar.chunk.setValue(256)
    assert opened.controller.state.scenario.prefill_chunk == 256
    assert bar.chunk.text() == "in passes of 256"
    sent: list[PrefillParams] = []
    with monkeypatch.context() as patch:
        patch.setattr(opened.client, "call", lambda _method, params: sent.append(params))
        opened.window.prefill()
    assert sent[0].scenario.prefill_chunk == 256
    opened.window.undo()
    assert (opened.controller.state.scenario.prefill_chunk, bar.chunk.text()) == (0, "in one pass")


def test_chat_can_be_asked_for_only_where_the_model_has_a_template(
    script: Script, messages: ModuleType
) -> None:
    script.open()
    chat = script.window.run_panel.chat
    assert not chat.isEnabled()
    assert "no chat template" in chat.toolTip()
    script.answer("open", OpenParams(sample="talks"), messages.model(chat=True))
    assert chat.isEnabled()


def test_sampling_is_greedy_until_a_temperature_is_chosen(
    opened: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[PrefillParams] = []
    monkeypatch.setattr(opened.client, "call", lambda _method, params: sent.append(params))
    row = opened.window.run_panel.sampling
    row.seed.setValue(7)
    assert not row.seed.isEnabled()
    opened.window.prefill()
    row.temperature.setValue(0.7)
    row.top_k.setValue(40)
    row.top_p.setValue(0.9)
    assert row.seed.isEnabled()
    opened.window.prefill()
    assert sent[0].sampling == SamplingInfo()
    assert sent[1].sampling == SamplingInfo(temperature=0.7, top_k=40, top_p=0.9, seed=7)


def test_a_wished_scenario_is_planned_once_and_then_forgotten(script: Script, messages: ModuleType) -> None:
    script.controller.wish(card="H100 SXM", batch=4)
    script.open()
    assert (script.controller.state.scenario.card, script.controller.state.scenario.batch) == ("H100 SXM", 4)
    script.answer("open", OpenParams(sample="other"), messages.model())
    assert script.controller.state.scenario == messages.model().scenario


def test_what_a_run_took_stands_beside_the_plan_of_its_own_scenario_alone(
    opened: Script, messages: ModuleType
) -> None:
    legend = opened.window.overview.legend
    scenario = messages.plan().scenario

    def told() -> str:
        return legend._cells[0]._measured.text()

    params = PrefillParams(scenario=scenario)
    opened.client.sent.emit(Call(1, "prefill", params, 0.0))
    opened.answer("prefill", params, messages.run())
    opened.client.snapshot.emit(messages.snapshot())
    assert told() == "· 3.00 GiB measured"
    opened.plan(ticket=2, context=1024)
    assert told() == "", "measured with another context"
    other = msgspec.structs.replace(
        messages.plan(ticket=3), scenario=msgspec.structs.replace(scenario, card="L4")
    )
    opened.answer("plan", PlanParams(scenario=other.scenario), other)
    assert told() == "· 3.00 GiB measured", "the card does not change what a run takes"
    opened.open()
    assert opened.controller.state.ran is None


@pytest.mark.parametrize(
    ("typed", "tokens", "prompt"),
    [
        ("1, 2 3", [1, 2, 3], ""),
        ("1 2 x", [], "1 2 x"),
        ("1 -2", [], "1 -2"),
        ("9" * 30, [], "9" * 30),
        ("", [], ""),
    ],
)
def test_what_is_no_list_of_token_ids_is_left_to_the_engine_to_refuse(
    script: Script, messages: ModuleType, monkeypatch: pytest.MonkeyPatch,
    typed: str, tokens: list[int], prompt: str,
) -> None:  # fmt: skip
    bare = msgspec.structs.replace(messages.model(), has_tokenizer=False)
    script.answer("open", OpenParams(sample="bare"), bare)
    script.plan()
    sent: list[PrefillParams] = []
    monkeypatch.setattr(script.client, "call", lambda _method, params: sent.append(params))
    script.window.run_panel.prompt.setPlainText(typed)
    script.window.prefill()
    assert (sent[0].tokens, sent[0].prompt) == (tokens, prompt)

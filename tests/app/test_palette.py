"""The command palette, undo and redo, and every command run once from the palette by keyboard alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog

from vramscope.messages.model import OpenParams
from vramscope.messages.planning import AssumptionInfo, PlanParams, ScenarioInfo
from vramscope.messages.running import TraceInfo
from vramscope.protocol import ErrorInfo
from vramscope_app import command_window, export_commands
from vramscope_app.client import Call, Refusal
from vramscope_app.commands import COMMANDS
from vramscope_app.dialogs import shortcut_rows
from vramscope_app.place import Place
from vramscope_app.rows.compare import Compared
from vramscope_app.rows.history import KEPT, ONE_EDIT_SECONDS, History, record, redo, undo
from vramscope_app.rows.palette import choices, fuzzy_score, plain_title
from vramscope_app.state import AppState, Busy

if TYPE_CHECKING:
    from types import ModuleType

    from tests.app.conftest import Script


def ids(typed: str, state: AppState | None = None) -> list[str]:
    return [choice.id for choice in choices(COMMANDS, state or AppState(), typed)]


def test_a_few_letters_find_a_command() -> None:
    assert ids("fs")[0] == "fullscreen"
    assert ids("find")[0] == "find"
    assert ids("light")[0] == "theme"
    assert ids("keyb")[0] == "shortcuts"
    assert ids("zzzz") == []


def test_without_a_word_every_command_is_listed_those_of_now_first() -> None:
    state = AppState()
    found = choices(COMMANDS, state, "")
    assert len(found) == len(COMMANDS)
    assert [choice.enabled for choice in found] == sorted((c.enabled for c in found), reverse=True)


def test_letters_at_the_begin_of_words_count_more() -> None:
    begins, inside = fuzzy_score("Full screen", "fs"), fuzzy_score("Offset", "fs")
    assert begins is not None
    assert inside is not None
    assert begins > inside
    assert fuzzy_score("Open", "po") is None


@given(st.text("abc d", max_size=12), st.lists(st.booleans(), max_size=12))
def test_letters_taken_out_of_a_text_are_found_in_it(text: str, kept: list[bool]) -> None:
    letters = "".join(letter for letter, keep in zip(text, kept, strict=False) if keep)
    assert fuzzy_score(text, letters) is not None
    assert fuzzy_score(text, letters + "z") is None


def scenario(context: int, batch: int = 1) -> ScenarioInfo:
    return ScenarioInfo(context=context, batch=batch)


def test_a_dragged_slider_is_one_edit_and_another_field_another() -> None:
    history = record(History(), scenario(100), scenario(200), 10.0)
    history = record(history, scenario(200), scenario(300), 10.2)
    assert history.past == (scenario(100),)
    history = record(history, scenario(300), scenario(300, 2), 10.3)
    history = record(history, scenario(300, 2), scenario(400, 2), 10.4)
    later = record(history, scenario(400, 2), scenario(500, 2), 10.4 + 2 * ONE_EDIT_SECONDS)
    assert later.past == (scenario(100), scenario(300), scenario(300, 2), scenario(400, 2))


def test_there_and_back_again() -> None:
    history, now = History(), scenario(1)
    for step in range(2, KEPT + 20):
        history = record(history, now, scenario(step), 10.0 * step)
        now = scenario(step)
    assert len(history.past) == KEPT
    last = now
    for _ in range(KEPT + 5):
        history, now = undo(history, now)
    assert now == scenario(KEPT + 19 - KEPT)
    for _ in range(KEPT + 5):
        history, now = redo(history, now)
    assert now == last
    history, now = undo(history, now)
    assert record(history, now, scenario(7, 7), 0.0).future == ()


@pytest.fixture
def opened(script: Script) -> Script:
    script.open()
    script.plan()
    return script


def test_undo_and_redo_plan_again_and_are_shown(opened: Script, messages: ModuleType) -> None:
    window, actions = opened.window, opened.window.actions_by_id
    assert not actions["undo"].isEnabled()
    window.scenario.batch.setValue(4)
    window.scenario.context.setValue(512)
    actions["undo"].trigger()
    assert (window.scenario.batch.value(), window.scenario.context.value()) == (4, 2048)
    actions["undo"].trigger()
    assert window.scenario.batch.value() == 1
    assert not actions["undo"].isEnabled()
    actions["redo"].trigger()
    assert opened.controller.state.scenario.batch == 4
    opened.answer("open", OpenParams(sample="other"), messages.model())
    assert not actions["undo"].isEnabled()
    assert not actions["redo"].isEnabled()


def press(script: Script, *keys: Qt.Key) -> None:
    for key in keys:
        QTest.keyClick(script.window.palette_box.line, key)


def test_the_palette_is_used_by_keyboard_alone(opened: Script) -> None:
    window, box = opened.window, opened.window.palette_box
    dark = window.look.theme.dark
    window.activateWindow()
    QTest.keyClick(
        window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    )
    assert box.isVisible()
    QTest.keyClicks(box.line, "light")
    press(opened, Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Return)
    assert not box.isVisible()
    assert window.look.theme.dark is not dark
    window.show_palette()
    press(opened, Qt.Key.Key_Escape)
    assert not box.isVisible()


def test_what_cannot_be_done_now_does_not_run(opened: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(opened.client, "call", lambda method, *_: sent.append(method))
    opened.window.show_palette()
    QTest.keyClicks(opened.window.palette_box.line, "Capture")
    press(opened, Qt.Key.Key_Return)
    assert sent == []
    assert opened.window.palette_box.isVisible()


SENDS = {
    "open": "open",
    "open_folder": "open",
    "export": "export",
    "save": "export",
    "keep_baseline": "baseline",
    "compare_with": "baseline",
    "compare_as_it_is": "baseline",
    "prefill": "prefill",
    "step": "step",
    "steps": "step",
    "capture": "capture",
    "replay": "replay",
    "verify": "verify",
    "profile": "profile",
    "reset": "reset",
    "run_model": "run_model",
    "record_trace": "trace",
    "save_trace": "trace",
    "cancel": "cancel",
}
"""Commands that ask the engine for something, and for what."""
SHOWS = {
    "undo",
    "redo",
    "restart",
    "find",
    "palette",
    "theme",
    "panels",
    "fullscreen",
    "dismiss",
    "shortcuts",
}
SHOWS |= {"plan_as_it_is", "about", "move_engine", "quit", "compare_run", "clear_baseline", "neighbours"}
TAKES_OUT = {"save_picture", "save_table", "save_graph", "copy_table", "copy_summary", "copy_graph"}
SHOWS |= TAKES_OUT


@pytest.mark.parametrize("name", [command.id for command in COMMANDS])
def test_every_command_runs_from_the_palette(
    name: str, opened: Script, messages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(opened.client, "call", lambda method, *_: sent.append(method))
    monkeypatch.setattr(opened.client, "start", lambda: sent.append("start"))
    for ask in ("ask_file", "ask_folder", "ask_export", "ask_save", "ask_other", "ask_trace"):
        monkeypatch.setattr(command_window, ask, lambda *_: "/models/some.html")
    for ask in ("ask_picture", "ask_table", "ask_drawing"):
        monkeypatch.setattr(export_commands, ask, lambda *_: "/nowhere/at.all")
    monkeypatch.setattr(command_window, "ask_place", lambda *_: Place("gpu-box"))
    monkeypatch.setattr(command_window, "show_about", lambda *_: sent.append("about"))
    window, control = opened.window, opened.controller
    call = Call(5, "step", PlanParams(scenario=ScenarioInfo()), 0.0)
    control.state = replace(
        control.state,
        run=messages.run(),
        live=messages.snapshot(),
        capture=messages.capture(dots=["digraph dot {}"]),
        trace=TraceInfo(recording=True, records=0, dropped=0),
        model=messages.model(decoder=name != "run_model"),
        busy=Busy(call) if name == "cancel" else None,
        notice=Refusal(call, ErrorInfo(code="Input", what="a", why="b")) if name == "dismiss" else None,
        history=History((scenario(9),), (scenario(8),)),
    )
    if "as_it_is" in name:
        assumes = [AssumptionInfo(id="kv8", title="KV cache in 8 bits")]
        assert control.state.plan is not None
        assumed = msgspec.structs.replace(control.state.plan, assumes=assumes)
        control.state = replace(control.state, plan=assumed, scenario=ScenarioInfo(as_if=["kv8"]))
    control.changed.emit(control.state, control.state)
    window.comparing.state = Compared(run=name == "clear_baseline")
    before = (control.state, window.look.theme.name, window.windowState())
    window.show_palette()
    QTest.keyClicks(window.palette_box.line, plain_title(window.actions_by_id[name].command))
    assert ids(window.palette_box.line.text(), control.state)[0] == name
    press(opened, Qt.Key.Key_Return)
    if name in SENDS:
        assert sent == [SENDS[name]]
        return
    assert name in SHOWS
    dialog = window.findChild(QDialog, "shortcuts_dialog")
    after = (control.state, window.look.theme.name, window.windowState())
    done = {
        "find": window.nodes.search.hasFocus(),
        "neighbours": window.graph.view.hasFocus(),
        "palette": window.palette_box.isVisible(),
        "panels": all(dock.isVisibleTo(window) for dock in window.docks.values()),
        "shortcuts": dialog is not None and dialog.isVisible(),
        "about": sent == ["about"],
        "restart": sent == ["start"],
        "move_engine": sent == ["start"] and control.state.place == Place("gpu-box"),
        "compare_run": window.comparing.state.run,
        "clear_baseline": not window.comparing.state.run,
        **{name: bool(window.statusBar().currentMessage()) for name in TAKES_OUT},
        "quit": not window.isVisible(),
    }
    assert done.get(name, after != before)


def test_the_list_of_shortcuts_has_every_command() -> None:
    rows = shortcut_rows()
    assert [row.key for row in rows] == [command.id for command in COMMANDS]
    assert next(row for row in rows if row.key == "redo").cells[1].text == "Ctrl+Shift+Z  or  Ctrl+Y"

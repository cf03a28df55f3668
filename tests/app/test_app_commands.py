"""The table of commands: complete, unique, and what each one does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QMenu, QToolBar

from vramscope.messages.running import CountParams
from vramscope_app.client import Call
from vramscope_app.commands import COMMANDS
from vramscope_app.state import AppState, Busy, Engine
from vramscope_app.window import MainWindow

if TYPE_CHECKING:
    from types import ModuleType


def enabled(state: AppState) -> set[str]:
    return {command.id for command in COMMANDS if command.enabled(state)}


@pytest.fixture
def planned(messages: ModuleType) -> AppState:
    return AppState(engine=Engine.READY, model=messages.model(), plan=messages.plan())


ALWAYS = {
    "clear_baseline",
    "copy_table",
    "save_picture",
    "save_table",
    "move_engine",
    "quit",
    "restart",
    "palette",
    "find",
    "neighbours",
    "theme",
    "panels",
    "fullscreen",
    "shortcuts",
    "about",
}
PLANNED = ALWAYS | {"open", "open_folder", "export", "save", "keep_baseline", "compare_with", "copy_summary"}


def test_ids_and_shortcuts_are_unique_and_shortcuts_are_real() -> None:
    assert max(Counter(command.id for command in COMMANDS).values()) == 1
    keys = [QKeySequence(text).toString() for command in COMMANDS for text in command.shortcuts]
    assert all(keys)
    assert max(Counter(keys).values()) == 1


def test_every_command_calls_a_method_of_the_window_and_says_what_it_does() -> None:
    for command in COMMANDS:
        assert callable(getattr(MainWindow, command.action))
        assert command.title
        assert command.tip
        assert command.menu in {"&File", "&Edit", "&Run", "&Compare", "&View", "&Help"}


def test_without_an_engine_only_what_needs_none(messages: ModuleType) -> None:
    assert enabled(AppState()) == ALWAYS
    dead = AppState(engine=Engine.DEAD, model=messages.model(), plan=messages.plan(), run=messages.run())
    assert enabled(dead) == ALWAYS


def test_a_planned_decoder_can_prefill_and_nothing_later(planned: AppState) -> None:
    assert enabled(planned) == PLANNED | {"prefill", "record_trace"}


def test_what_a_run_allows_follows_its_state(planned: AppState, messages: ModuleType) -> None:
    armed = replace(planned, run=messages.run(state="armed"))
    assert {"step", "steps", "capture", "reset"} <= enabled(armed)
    assert "replay" not in enabled(armed)
    assert {"replay", "verify"} <= enabled(replace(planned, run=messages.run()))
    ended = replace(planned, run=messages.run(finished="context full"))
    assert not {"step", "replay"} & enabled(ended)
    assert "reset" in enabled(ended)


def test_while_a_step_runs_only_cancel_is_added(planned: AppState, messages: ModuleType) -> None:
    busy = Busy(Call(1, "replay", CountParams(count=3), 0.0))
    state = replace(planned, run=messages.run(), busy=busy)
    assert enabled(state) == PLANNED | {"cancel"}


def test_a_report_can_be_written_and_compared_and_nothing_run(
    planned: AppState, messages: ModuleType
) -> None:
    shown = replace(planned, report="/r.vramscope.json", live=messages.snapshot())
    assert enabled(shown) == PLANNED | {"compare_run"}


def test_a_model_that_is_no_decoder_runs_once(planned: AppState, messages: ModuleType) -> None:
    plain = replace(planned, model=messages.model(decoder=False))
    assert "run_model" in enabled(plain)
    assert "prefill" not in enabled(plain)


def test_a_refused_plan_runs_nothing(planned: AppState, messages: ModuleType) -> None:
    refused = replace(planned, plan=messages.plan(refused=True))
    assert not {"prefill", "run_model"} & enabled(refused)


def test_menus_and_toolbar_hold_every_command(window: MainWindow) -> None:
    menus = window.menuBar().findChildren(QMenu)
    shown = {action.text() for menu in menus for action in menu.actions()}
    assert {command.title for command in COMMANDS} <= shown
    bar = window.findChild(QToolBar, "toolbar")
    assert isinstance(bar, QToolBar)
    wanted = {command.id for command in COMMANDS if command.toolbar}
    assert wanted <= {action.objectName() for action in bar.actions()}

"""A window of 900×600 points: every panel can be brought to the front and nothing makes the window grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QCoreApplication, QSize, Qt
from PySide6.QtWidgets import QScrollArea, QWidget

if TYPE_CHECKING:
    from types import ModuleType

    from tests.app.conftest import Script

    from vramscope_app.state import AppState

SMALL = QSize(900, 600)


def settle() -> None:
    for _ in range(4):
        QCoreApplication.processEvents()


@pytest.fixture
def running(script: Script, messages: ModuleType) -> Script:
    """A captured and verified run, with suggestions, a decline and two phases."""
    script.open()
    script.plan()
    script.answer("capture", messages.OpenParams(), messages.capture(declined=True))
    script.answer("verify", messages.OpenParams(), messages.verify())
    script.client.snapshot.emit(messages.snapshot())
    settle()
    return script


def test_every_panel_has_room_in_a_small_window(running: Script) -> None:
    window = running.window
    window.resize(SMALL)
    settle()
    for name, dock in window.docks.items():
        dock.raise_()
        settle()
        assert window.size() == SMALL, f"{name} makes the window {window.size()}"
        assert window.minimumSizeHint().width() <= SMALL.width()
        assert dock.widget().height() >= dock.widget().minimumSizeHint().height(), name


def test_what_a_small_window_cannot_show_can_be_scrolled_to(running: Script) -> None:
    window = running.window
    window.resize(SMALL)
    settle()
    for part in (window.overview, window.run_panel):
        area = _area_of(part)
        assert area.viewport().height() < part.height()
        assert area.verticalScrollBar().maximum() >= part.height() - area.viewport().height()
    assert window.nodes.view.viewport().height() >= window.nodes.view.sizeHintForRow(0)


def test_the_tree_has_the_room_that_low_docks_leave(running: Script) -> None:
    window = running.window
    before = window.docks["axes"].height()
    window.resize(SMALL)
    settle()
    low = window.docks["axes"].height()
    assert low < before
    window.resizeDocks([window.docks["axes"]], [low + 20], Qt.Orientation.Vertical)
    settle()
    moved = window.docks["axes"].height()
    window.resize(SMALL.width() + 10, SMALL.height() + 10)
    settle()
    assert window.docks["axes"].height() >= moved, "a border that was moved stays"


def test_the_run_panel_of_a_larger_window_needs_no_scrolling(running: Script) -> None:
    window = running.window
    window.resize(1280, 800)
    settle()
    assert _area_of(window.run_panel).verticalScrollBar().maximum() == 0


def _area_of(part: QWidget) -> QScrollArea:
    above = part.parentWidget()
    while not isinstance(above, QScrollArea):
        assert above is not None
        above = above.parentWidget()
    return above


def test_the_run_panel_is_told_once_for_many_snapshots(
    running: Script, messages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = running.window
    told: list[AppState] = []
    monkeypatch.setattr(window.run_panel, "set_state", told.append)
    for sequence in range(2, 9):
        running.client.snapshot.emit(messages.snapshot(sequence))
    assert not told
    for _ in range(8):
        window.streams.refresh()
    assert [state.live.sequence for state in told] == [8], "one words beat showed the newest"

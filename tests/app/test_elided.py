"""Words that are cut where there is no room for them, and words where there are no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtWidgets import QTableView

from vramscope_app.panels.elided import ElidedLabel, EmptyWords
from vramscope_app.panels.palette import ROOM
from vramscope_app.rows.nodes import NodeTable
from vramscope_app.rows.palette import plain_title

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot
    from tests.app.conftest import Script

LONG = "9 bindings of the Primary slot: installed graph · the one before died at step 16"


def test_a_long_text_ends_in_an_ellipsis_and_is_told_whole(qtbot: QtBot) -> None:
    label = ElidedLabel(LONG)
    qtbot.addWidget(label)
    label.setToolTip("a hint")
    label.show()
    label.resize(120, 20)
    shown = super(ElidedLabel, label).text()
    assert shown.endswith("…")
    assert LONG.startswith(shown[:-1])
    assert label.fontMetrics().horizontalAdvance(shown) <= 120
    assert (label.text(), label.toolTip(), label.accessibleName()) == (LONG, LONG, LONG)
    label.resize(2000, 20)
    assert super(ElidedLabel, label).text() == LONG
    assert label.toolTip() == "a hint"


@pytest.fixture
def planned(script: Script) -> Script:
    script.open()
    script.plan()
    return script


def test_a_table_without_rows_says_what_it_is_for(script: Script) -> None:
    window = script.window
    for name in ("problems", "declines", "slots", "lost", "preconditions", "counters", "events"):
        view = window.findChild(QTableView, name)
        assert view is not None, name
        (words,) = view.viewport().findChildren(EmptyWords)
        assert words.text(), name
        assert words.isVisibleTo(view), name


def test_the_words_go_once_there_are_rows(script: Script) -> None:
    words = script.window.nodes._empty
    assert words.isVisibleTo(script.window)
    assert "once it is planned" in words.text()
    script.open()
    script.plan()
    assert not words.isVisibleTo(script.window)
    script.window.nodes.search.setText("nowhere")
    script.window.nodes._filter()
    assert words.isVisibleTo(script.window)
    assert words.text() == "No node is like that"


def test_the_first_problem_is_told_whole(script: Script) -> None:
    script.open()
    script.plan(refused=True)
    problems = script.window.problems
    assert problems.view.currentIndex().row() == 0
    assert problems._detail.text() == problems.model.row(0).detail != ""


def test_a_map_that_is_not_there_says_why(planned: Script) -> None:
    panel = planned.window.arena
    known, unknown = (NodeTable(1, 1, {}, {"live_bytes": np.array([size])}) for size in (0, -1))
    bare = NodeTable(1, 0)
    panel.set_tables({"run": bare}, {"run": known})
    assert panel.words.text() == "No value of this phase needs memory in the arena"
    panel.set_tables({"run": bare}, {"run": unknown})
    assert "once every axis has a maximum" in panel.words.text()
    panel.set_tables({}, {})
    assert "once the model is planned" in panel.words.text()


def test_no_title_of_the_palette_is_cut(planned: Script) -> None:
    window = planned.window
    window.show_palette()
    width = window.palette_box.list.columnWidth(0)
    metrics = window.palette_box.list.fontMetrics()
    longest = max(
        metrics.horizontalAdvance(plain_title(action.command)) for action in window.actions_by_id.values()
    )
    assert longest + ROOM <= width
    window.resize(900, 600)
    window.palette_box.end()
    window.show_palette()
    assert window.palette_box.geometry().right() < window.width()

"""Bytes by scope: every scope as wide as its parts, found by place, widened by a click."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest

from vramscope_app.panels.icicle import IciclePanel, last_number
from vramscope_app.rows.icicle import Icicle, icicle_of
from vramscope_app.rows.nodes import NodeTable

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot
    from tests.app.conftest import Script

    from vramscope_app.look import Look

NODES = (
    ("model/embed", "/model/embed/Gather", 600, 8),
    ("model/layers.0/attn", "/model/layers.0/attn/MatMul", 200, 16),
    ("model/layers.0/attn", "/model/layers.0/attn/Add", 0, 16),
    ("model/layers.0/mlp", "/model/layers.0/mlp/MatMul", 100, -1),
    ("", "/lm_head", 100, 4),
)


def table(rows: tuple[tuple[str, str, int, int], ...] = NODES) -> NodeTable:
    scopes, names, weights, outputs = zip(*rows, strict=True)
    numbers = {"weight_bytes": np.array(weights, np.int64), "output_bytes": np.array(outputs, np.int64)}
    return NodeTable(1, len(rows), {"scope": scopes, "name": names}, numbers)


@pytest.fixture
def weights() -> Icicle:
    return icicle_of(table(), "weight_bytes")


def test_every_bar_is_as_wide_as_the_bars_below_it(weights: Icicle) -> None:
    assert int(weights.sizes[0]) == 1000
    for bar in range(len(weights.names)):
        below = np.flatnonzero(weights.parents == bar)
        if len(below):
            assert int(weights.sizes[below].sum()) == int(weights.sizes[bar]), weights.path(bar)
            assert int(weights.begins[below].min()) == int(weights.begins[bar])
            assert set(weights.depths[below].tolist()) == {int(weights.depths[bar]) + 1}


def test_scopes_stand_in_the_order_of_the_program_and_nothing_empty_is_drawn(weights: Icicle) -> None:
    found = {
        weights.path(bar): (int(weights.begins[bar]), int(weights.sizes[bar]))
        for bar in range(len(weights.names))
    }
    assert found["model/embed"] == (0, 600)
    assert found["model/layers.0"] == (600, 300)
    assert found["model/layers.0/mlp"] == (800, 100)
    assert found["/lm_head"] == (900, 100)
    assert "/model/layers.0/attn/Add" not in found


def test_unknown_bytes_are_said_and_not_drawn_as_nothing() -> None:
    outputs = icicle_of(table(), "output_bytes")
    assert int(outputs.sizes[0]) == 44
    assert "1 node of unknown bytes not drawn" in outputs.summary
    assert "unknown" not in icicle_of(table(), "weight_bytes").summary


def test_a_place_finds_its_bar_in_words(weights: Icicle) -> None:
    assert weights.text(weights.at(650, 2)) == "model/layers.0 · 300 bytes · 30.0%"
    assert weights.at(650, 9) == -1
    assert weights.at(1000, 0) == -1


def test_an_empty_plan_has_no_bars(light: Look, qtbot: QtBot) -> None:
    panel = IciclePanel(light)
    qtbot.addWidget(panel)
    panel.show()
    panel.set_tables({})
    assert panel.view.bar_at(QPointF(1, 1)) == -1
    assert panel.words.text().startswith("The bytes of scopes appear here")


def test_a_click_widens_a_scope_and_shows_a_node(light: Look, qtbot: QtBot) -> None:
    panel = IciclePanel(light)
    qtbot.addWidget(panel)
    panel.resize(1000, 200)
    panel.set_tables({"prefill": table(), "decode": table()})
    assert panel.view.icicle is None, "nothing is built before somebody looks"
    panel.show()
    view = panel.view
    assert view.icicle is not None
    scope = next(bar for bar in range(len(view.icicle.names)) if view.icicle.path(bar) == "model/layers.0")
    asked: list[str] = []
    panel.jump.connect(asked.append)
    view.choose(scope)
    assert view.top == scope
    middle = QPointF(view.width() / 2, 2.5 * view._height())
    assert view.bar_at(middle) == scope, "it fills the width"
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPointF(10, 4.5 * view._height()).toPoint())
    assert asked == ["/model/layers.0/attn/MatMul"]
    QTest.keyClick(view, Qt.Key.Key_Backspace)
    assert view.icicle.path(view.top) == "model"
    panel.measure.setCurrentIndex(1)
    assert view.icicle.measure == "output_bytes"


def test_a_bar_clicked_in_the_window_is_found_in_the_tree(script: Script) -> None:
    script.open()
    script.plan()
    window = script.window
    window.show()
    window.docks["icicle"].show()
    window.docks["icicle"].raise_()
    panel = window.icicle
    panel._show()
    assert panel.view.icicle is not None
    name = next(name for name in panel.view.icicle.nodes if name)
    panel.jump.emit(name)
    assert window.nodes.table_name(window.nodes.view.currentIndex()) == name


def test_the_name_of_a_layer_may_shrink_to_its_number() -> None:
    names = {"layers.31": "31", "h.0": "0", "mlp": "", "4": "", ".5": "", "conv2": ""}
    assert {name: last_number(name) for name in names} == names

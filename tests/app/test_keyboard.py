"""The window by keyboard alone: Tab reaches every part and is caught by none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTableView

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget
    from tests.app.conftest import Script

MOST = 80


def focused_by_tab(first: QWidget, key: Qt.Key = Qt.Key.Key_Tab) -> list[str]:
    """Names of what gets the focus one after the other, until it is the first again."""
    first.setFocus(Qt.FocusReason.TabFocusReason)
    found: list[str] = []
    for _ in range(MOST):
        widget = QApplication.focusWidget()
        assert widget is not None
        if found and widget is first:
            return found
        found.append(widget.objectName())
        QTest.keyClick(widget, key)
    raise AssertionError(f"never back at the start: {found[-5:]}")


@pytest.mark.parametrize("dock", ["axes", "inspector", "graph", "problems", "capture", "events"])
def test_tab_goes_once_around_the_window(script: Script, dock: str) -> None:
    script.open()
    script.plan()
    window = script.window
    window.activateWindow()
    window.docks[dock].raise_()
    found = focused_by_tab(window.scenario.card)
    assert {"device", "batch", "batch_slider", "context_slider", "node_search", "node_tree"} <= set(found)
    assert {"node_columns", "prompt_text"} <= set(found)
    shown = window.docks[dock].widget()
    assert shown is not None
    inside = {child.objectName() for child in shown.findChildren(QTableView) if child.isVisible()}
    assert inside <= set(found)


def test_the_scenario_comes_in_the_order_in_which_it_stands(script: Script) -> None:
    script.open()
    script.plan()
    script.window.activateWindow()
    found = focused_by_tab(script.window.scenario.card)
    order = ["device", "batch", "batch_slider", "context", "context_slider", "prompt"]
    assert [name for name in found if name in order] == order

"""Pictures, tables and texts taken out of the window: what is written, of which panel, what is refused."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QImage
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication, QMenu

from vramscope.messages.live import Empty
from vramscope.messages.planning import ExportParams
from vramscope.messages.running import TraceInfo, TraceParams
from vramscope_app import command_window, export_commands
from vramscope_app.exporting import headings, table_rows
from vramscope_app.rows.export import csv_table, csv_value

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from PySide6.QtWidgets import QWidget
    from pytestqt.qtbot import QtBot
    from tests.app.conftest import Script


@pytest.fixture
def planned(script: Script) -> Script:
    script.open()
    script.plan()
    return script


def test_cells_as_values() -> None:
    assert csv_value("1.50 KiB", "1,536 bytes") == 1536
    assert csv_value("≤ 1.50 KiB", "≤ 1,536 bytes (bound)") == 1536
    assert csv_value("−1.50 KiB", "−1,536 bytes") == -1536
    assert csv_value("24 B", "") == 24
    assert csv_value("1,234", "a tip with 5 bytes") == 1234
    assert csv_value("–", "0 bytes") == 0
    assert csv_value("unknown", "unknown") is None
    assert csv_value("–", "") is None
    assert csv_value("—", "—") is None
    assert csv_value("<0.1%", "3 bytes of 9,000 bytes alive at the peak: 0.0333%") == "0.0333%"
    assert csv_value("1×≤64", "") == "1×≤64"
    assert csv_table(("a", "b"), [[("=x", ""), ("2", "")]]) == "a,b\r\n'=x,2\r\n"


def test_the_node_tree_is_written_with_full_paths_and_every_byte(planned: Script) -> None:
    view = planned.window.nodes.view
    rows = list(csv.DictReader(io.StringIO(csv_table(headings(view), table_rows(view)))))
    found = {row["Node"]: row for row in rows}
    leaf = found["model/layers.0/attn/MatMul"]
    assert (leaf["Weights"], leaf["Output"], leaf["Workspace"]) == (str(512 * 2**20), str(8 * 2**20), "0")
    assert found["model/layers.0"]["Weights"] == str(1024 * 2**20)
    assert found["model/layers.1/mlp/MatMul"]["Output"] == ""  # unknown
    assert found["model/layers.0/attn"]["Share of peak"] == "75.0000%"
    assert len(rows) == 6 + 7


@pytest.fixture
def menus(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of every menu that would have opened: the off-screen platform cannot grab the mouse."""
    found: list[list[str]] = []
    monkeypatch.setattr(
        QMenu, "popup", lambda menu, _spot: found.append([a.objectName() for a in menu.actions()])
    )
    return found


def right_click(widget: QWidget) -> None:
    spot = widget.rect().center()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, spot, widget.mapToGlobal(spot))
    QApplication.sendEvent(widget, event)


def test_a_right_click_offers_what_the_panel_has(planned: Script, menus: list[list[str]]) -> None:
    window = planned.window
    right_click(window.nodes.view.viewport())
    window.docks["problems"].raise_()
    right_click(window.problems.view.viewport())
    window.docks["log"].raise_()
    right_click(window.docks["log"])
    assert menus == [["save_picture", "save_table", "copy_table"], ["save_table", "copy_table"]]


def test_a_picture_is_of_the_panel_in_use_as_png_and_svg(
    planned: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    window = planned.window
    window.docks["live"].raise_()
    window.exporter.panel = window.docks["live"]
    panel = window.docks["live"].widget()
    for ending in ("png", "svg"):
        path = tmp_path / f"live.{ending}"
        monkeypatch.setattr(export_commands, "ask_picture", lambda _window, _name, path=path: str(path))
        window.actions_by_id["save_picture"].trigger()
        assert path.stat().st_size > 1000
        assert str(path) in window.statusBar().currentMessage()
    assert QImage(str(tmp_path / "live.png")).size() == panel.size() * 2
    drawing = QSvgRenderer(str(tmp_path / "live.svg"))
    assert drawing.isValid()
    assert drawing.viewBox().size() == panel.size()
    assert "<text" in (tmp_path / "live.svg").read_text(encoding="utf-8")
    monkeypatch.setattr(export_commands, "ask_picture", lambda *_: str(tmp_path / "no" / "x.png"))
    window.actions_by_id["save_picture"].trigger()
    assert "cannot be written" in window.statusBar().currentMessage()
    window.docks["problems"].raise_()
    qtbot.waitUntil(lambda: window.exporter.panel is window.docks["problems"])
    window.actions_by_id["save_picture"].trigger()
    assert "no chart" in window.statusBar().currentMessage()


def test_a_table_is_saved_and_copied(
    planned: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = planned.window
    window.docks["axes"].raise_()
    window.exporter.panel = window.docks["axes"]
    path = tmp_path / "axes.csv"
    names: list[str] = []

    def ask(_window: object, name: str) -> str:
        names.append(name)
        return str(path)

    monkeypatch.setattr(export_commands, "ask_table", ask)
    window.actions_by_id["save_table"].trigger()
    assert names == ["tiny-axes"]
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert rows[0]["Symbol"] == "total"
    assert rows[0]["Maximum"] == "2048"
    window.actions_by_id["copy_table"].trigger()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].startswith("| Symbol | Low | Maximum |")
    assert len(lines) == 2 + len(rows)
    path = tmp_path / "no" / "axes.csv"
    window.actions_by_id["save_table"].trigger()
    assert "cannot be written" in window.statusBar().currentMessage()
    window.docks["log"].raise_()
    window.exporter.panel = window.docks["log"]
    for command in ("save_table", "copy_table"):
        window.actions_by_id[command].trigger()
        assert "no table" in window.statusBar().currentMessage()


def test_the_verdict_is_copied_as_markdown(planned: Script) -> None:
    planned.window.actions_by_id["copy_summary"].trigger()
    text = QGuiApplication.clipboard().text()
    assert text.startswith("### tiny: fits")
    assert "| weights | 3.00 GiB | exact |" in text
    assert "| Context 1,024 | 320 MiB |" in text


def test_the_devices_graph_is_saved_and_copied_once_there_is_one(
    planned: Script, messages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, control = planned.window, planned.controller
    commands = [window.actions_by_id[name] for name in ("save_graph", "copy_graph")]
    assert not any(command.isEnabled() for command in commands)
    old = control.state
    control.state = replace(old, capture=messages.capture(dots=["digraph a {}", "digraph b {}"]))
    control.changed.emit(old, control.state)
    path = tmp_path / "graph.dot"
    monkeypatch.setattr(export_commands, "ask_drawing", lambda *_: str(path))
    for command in commands:
        command.trigger()
    assert path.read_text() == QGuiApplication.clipboard().text() == "digraph a {}\ndigraph b {}"


def test_a_device_that_draws_no_graph_is_told_of(planned: Script, messages: ModuleType) -> None:
    window, control = planned.window, planned.controller
    old = control.state
    control.state = replace(old, capture=messages.capture())
    control.changed.emit(old, control.state)
    QGuiApplication.clipboard().setText("before")
    for name in ("save_graph", "copy_graph"):
        window.statusBar().clearMessage()
        window.actions_by_id[name].trigger()
        assert window.statusBar().currentMessage() == "The capture's device draws no graph: CUDA does"
    assert QGuiApplication.clipboard().text() == "before"


def test_what_the_engine_has_written_is_told(planned: Script) -> None:
    planned.answer("export", ExportParams(path="/models/plan.html"), Empty())
    assert planned.window.statusBar().currentMessage() == "Saved /models/plan.html"


def test_a_trace_is_recorded_until_it_is_switched_off(
    planned: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = planned.window
    record, save = (window.actions_by_id[name] for name in ("record_trace", "save_trace"))
    assert (record.isChecked(), save.isEnabled()) == (False, False)
    sent: list[TraceParams] = []
    with monkeypatch.context() as patch:
        patch.setattr(planned.client, "call", lambda _method, params: sent.append(params))
        patch.setattr(command_window, "ask_trace", lambda *_: "/tmp/trace.json")
        record.trigger()
        assert not record.isChecked() or sent, "on once the engine says so"
        planned.answer("trace", sent[0], TraceInfo(recording=True, records=0, dropped=0))
        assert (record.isChecked(), save.isEnabled()) == (True, True)
        assert window._engine_label.text().startswith("● records a trace · engine")
        save.trigger()
        record.trigger()
    assert sent == [
        TraceParams(record=True), TraceParams(record=True, path="/tmp/trace.json"), TraceParams(record=False),
    ]  # fmt: skip
    planned.answer("trace", sent[1], TraceInfo(recording=False, records=7, dropped=0, path="/tmp/trace.json"))
    assert window.statusBar().currentMessage() == "Saved /tmp/trace.json"
    assert (record.isChecked(), save.isEnabled()) == (False, True)


def test_the_panel_in_use_is_the_one_with_the_focus(planned: Script, qtbot: QtBot) -> None:
    window = planned.window
    window.docks["problems"].raise_()
    window.exporter._focus(None, window.problems.view)
    assert window.exporter.panel is window.docks["problems"]
    assert window.exporter.table is not None
    assert window.exporter.table.model() is window.problems.model
    window.exporter._focus(None, window.nodes.search)
    assert window.exporter.panel is window.centralWidget()
    window.exporter._focus(None, None)
    assert window.exporter.panel is window.centralWidget()
    table = window.exporter.table
    assert table is not None
    assert table.model() is window.nodes.model

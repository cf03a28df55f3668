"""J6 of the design: two plans side by side, a plan beside its run, and saved reports in the window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QPushButton

from vramscope.messages.model import OpenParams
from vramscope_app import command_window
from vramscope_app.journey import planned
from vramscope_app.theme import DARK

if TYPE_CHECKING:
    import pytest
    from tests.story.conftest import Story

    from vramscope.messages.reporting import CompareInfo

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"


def compared(story: Story, before: CompareInfo | None = None) -> CompareInfo:
    comparing = story.window.comparing
    story.journey.wait(
        "the comparison",
        lambda state: state.busy is None and comparing.state.found not in (None, before),
    )
    found = comparing.state.found
    assert found is not None
    return found


def kept(story: Story) -> None:
    story.journey.wait("the baseline", lambda _state: story.window.comparing.state.baseline is not None)


def test_j6_a_baseline_follows_every_edit_and_the_run_stands_beside_its_plan(story: Story) -> None:
    story.open("tiny-llama")
    first = story.state.plan
    assert first is not None
    window = story.window
    window.docks["compare"].raise_()
    story.picture("compare-empty")
    story.do("keep_baseline")
    same = compared(story)
    assert same.total.difference == 0
    assert same.changed == 0
    window.scenario.batch.setValue(4)
    wider = compared(story, same)
    plan = story.state.plan
    assert plan is not None
    assert first.total.bytes is not None
    assert plan.total.bytes is not None
    assert wider.total.difference == plan.total.bytes - first.total.bytes > 0
    assert wider.components[0].name == "KV cache"
    story.picture("compare-components")
    window.compare.part.setCurrentText("nodes")
    assert window.compare.table.model.rowCount() == wider.matched
    story.picture("compare-nodes")
    window.actions_by_id["undo"].trigger()
    back = compared(story, wider)
    assert back.total.difference == 0
    story.do("prefill")
    story.do("step")
    assert window.actions_by_id["compare_run"].isEnabled()
    window.actions_by_id["compare_run"].trigger()
    run = compared(story, back)
    assert run.right.kind == "run"
    known = {item.name: item.difference for item in run.components}
    assert known["weights"] == known["KV cache"] == 0
    assert known["device context"] is None
    window.actions_by_id["theme"].trigger()
    assert window.look.theme is DARK
    story.picture("compare-run-dark")


def test_a_saved_report_opens_read_only_and_is_compared_with_a_model(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny.vramscope.json"
    story.open_source(OpenParams(path=str(SAMPLES / "tiny-llama")))
    story.do("prefill")
    story.do("profile", count=2)
    monkeypatch.setattr(command_window, "ask_save", lambda *_: str(path))
    story.do("save")
    saved, measured = story.state.plan, story.state.live.measured
    assert saved is not None
    drop(story, path)
    story.journey.wait("the report", lambda state: state.report != "" and planned(state))
    window, state = story.window, story.state
    assert state.plan is not None
    assert state.plan.total == saved.total
    assert state.live.measured == measured
    assert window.nodes.model.shown == 42
    assert window.arena.arena is not None
    look_into(story)
    assert "(report)" in window.windowTitle()
    assert str(path) in window.overview.report.accessibleName()
    assert not window.scenario.isEnabled()
    for command in ("prefill", "step", "capture", "undo"):
        assert not window.actions_by_id[command].isEnabled(), command
    window.controller.edit(msgspec.structs.replace(state.scenario, batch=7))
    assert story.state.scenario.batch == state.scenario.batch
    assert window._settings.recent[0] == str(path)
    story.picture("report-read-only")
    other = str(SAMPLES / "tiny-llama" / "model.onnx")
    monkeypatch.setattr(command_window, "ask_other", lambda *_: other)
    window.actions_by_id["compare_with"].trigger()
    kept(story)
    found = compared(story)
    assert found.total.difference == 0
    assert found.left.identity == found.right.identity
    window.controller.restart()
    story.journey.wait("the report again", lambda state: state.report == str(path) and planned(state))
    assert window.comparing.state.baseline is None
    button = window.overview.report.findChild(QPushButton, "report_open")
    assert button is not None
    button.click()
    story.journey.wait("its model", lambda state: state.report == "" and planned(state))
    assert window.scenario.isEnabled()
    assert not window.overview.report.isVisible()


def look_into(story: Story) -> None:
    """What is saved is there to look at: curves, any node with its values, its neighbours, measured times."""
    window = story.window
    assert window.headroom.drawn is not None
    assert window.headroom.drawn.own == story.state.scenario.context
    window.headroom.choose_at(float(window.headroom.drawn.contexts[0]), 0.0)
    assert "nanoseconds" in window.nodes.columns.shown
    node = next(name for name in story.state.nodes["decode"].column("name") if "GroupQuery" in name)
    window.docks["inspector"].raise_()
    assert window.nodes.jump(node)
    story.journey.wait("the node", lambda state: state.node is not None and state.node.name == node)
    assert story.state.node is not None
    assert story.state.node.regions, "its scratch, region by region"
    assert any(value.nodes for value in story.state.node.inputs)
    story.picture("report-inspector")
    window.docks["graph"].raise_()
    story.journey.wait("its neighbours", lambda state: state.neighbours is not None)
    assert story.state.neighbours is not None
    assert len(story.state.neighbours.nodes) > 2


def test_a_plain_model_is_compared_with_its_run(story: Story) -> None:
    story.open("unbounded-axis")
    before = story.state.plan
    (refused,) = {axis.symbol for axis in before.axes if axis.refused} if before is not None else {""}
    story.window.controller.declare(refused, "9")
    story.journey.wait("planning", lambda state: state.planned and state.busy is None)
    assert not story.window.actions_by_id["compare_run"].isEnabled()
    story.do("run_model")
    assert story.state.live.measured
    assert story.window.run_panel.outputs.model.rowCount() > 0
    story.do("compare_run")
    found = compared(story)
    assert found.right.asked == ["on host", "one run"]
    assert {item.name for item in found.components} >= {"weights", "activations"}
    story.picture("compare-plain-run")


def test_what_is_no_report_is_refused_and_the_model_stays(story: Story, tmp_path: Path) -> None:
    story.open("tiny-llama")
    path = tmp_path / "other.json"
    path.write_text('{"format": "something"}', encoding="utf-8")
    story.window.controller.open(OpenParams(path=str(path)))
    story.journey._timer.start()
    while story.state.notice is None:
        story.journey._loop.exec()
    assert "no VRAMScope report" in story.state.notice.error.why
    assert story.state.report == ""
    assert story.state.planned


def drop(story: Story, path: Path) -> None:
    """As a file manager would."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    actions, button, keys = (
        Qt.DropAction.CopyAction,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    enter = QDragEnterEvent(QPoint(9, 9), actions, data, button, keys)
    story.window.dragEnterEvent(enter)
    assert enter.isAccepted()
    story.window.dropEvent(QDropEvent(QPointF(9, 9), actions, data, button, keys))

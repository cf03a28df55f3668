"""J1, J3 and J4 of the design, and what happens when the engine dies, through window and engine process."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from vramscope_app.journey import JourneyError
from vramscope_app.state import Engine

if TYPE_CHECKING:
    from tests.story.conftest import Story


def test_j1_first_look_counts_move_then_stand_still(story: Story) -> None:
    story.open("tiny-llama")
    window = story.window
    assert story.state.plan is not None
    assert story.state.plan.total.bytes
    assert window.nodes.model.total == sum(1 for _ in story.state.nodes["decode"].column("name"))
    assert story.allocations() == 0
    story.do("prefill")
    moved = story.allocations()
    assert moved > 0
    story.do("steps", count=4)
    story.do("capture")
    assert story.state.capture is not None
    assert story.state.capture.captured
    warm = story.allocations()
    story.do("replay", count=24)
    assert story.allocations() == warm
    assert story.state.live.allocations_last_step == 0
    assert story.state.live.steps_replayed == 24
    assert story.state.run.tokens_per_second_replay
    story.picture("j1-light")
    arena = window.arena.arena
    assert arena is not None
    window.docks["arena"].raise_()
    window.arena.jump.emit(next(node for node in arena.nodes if node.endswith("GroupQueryAttention")))
    assert "GroupQueryAttention" in window.nodes.table_name(window.nodes.view.currentIndex())
    story.picture("arena-light")
    window.docks["inspector"].raise_()
    story.journey.wait("the node", lambda state: state.node is not None and state.busy is None)
    assert "GroupQueryAttention" in window.inspector.words.text()
    story.picture("inspector-light")
    window.actions_by_id["theme"].trigger()
    window.live.by_step.setChecked(True)
    window.arena.phase.setCurrentText("decode")
    story.picture("j1-dark")


def test_j3_an_unbounded_axis_is_refused_until_it_has_a_maximum(story: Story) -> None:
    story.open("unbounded-axis")
    plan = story.state.plan
    assert plan is not None
    assert plan.verdict.kind == "cannot be planned"
    refused = next(axis for axis in plan.axes if axis.refused)
    (problem, *_) = [item for item in plan.problems if item.severity == "error"]
    assert refused.symbol in problem.text
    assert problem.node
    assert "axis" in problem.text
    assert "input" in problem.text
    assert not window_can_run(story)
    axes = story.window.axes.table
    assert axes.model.index(0, 0).data() == refused.symbol
    story.picture("j3-refused")
    type_maximum(story, "300")
    story.journey.wait("planning again", lambda state: state.plan is not plan and state.busy is None)
    again = story.state.plan
    assert again is not None
    assert again.verdict.kind != "cannot be planned"
    assert again.total.bytes
    assert next(axis for axis in again.axes if axis.symbol == refused.symbol).high == 300
    assert window_can_run(story)
    story.picture("j3-planned")


def window_can_run(story: Story) -> bool:
    return any(story.window.actions_by_id[name].isEnabled() for name in ("prefill", "run_model"))


def type_maximum(story: Story, text: str) -> None:
    """Opens the editor of the first row's maximum and types into it."""
    axes = story.window.axes.table
    cell = axes.model.index(0, 2)
    axes.view.setCurrentIndex(cell)
    axes.view.edit(cell)
    editor = axes.view.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    QTest.keyClicks(editor, text)
    QTest.keyClick(editor, Qt.Key.Key_Return)


def test_j4_decode_replay_says_what_eager_says(story: Story) -> None:
    story.open("tiny-llama")
    panel = story.window.run_panel
    panel.prompt.setPlainText("Hello there")
    story.do("prefill")
    story.do("steps", count=3)
    story.do("capture")
    after_capture = panel_text(story)
    story.do("replay", count=12)
    assert len(panel_text(story)) > len(after_capture)
    assert panel_text(story).startswith(after_capture)
    assert story.state.live.allocations_last_step == 0
    assert set(story.window.live.series.steps.column(1)[1:]) == {0.0}
    assert set(story.window.live.series.steps.column(3)[-12:]) == {1.0}
    story.do("verify", count=8)
    assert story.state.verify is not None
    assert story.state.verify.equal
    assert story.state.verify.steps == 8
    story.picture("j4-verified")
    story.do("profile", count=4)
    assert story.state.profile is not None
    assert story.state.profile.steps == 4
    assert "nanoseconds" in story.window.nodes.columns.shown
    story.window.nodes.search.setText("us>0")
    story.journey.settle()
    assert story.window.nodes.model.shown == len(story.state.profile.nodes)
    story.picture("j4-profiled")
    story.do("reset")
    assert story.state.run.position == 0
    assert not story.window.actions_by_id["step"].isEnabled()


def panel_text(story: Story) -> str:
    story.journey.settle()
    return story.window.run_panel.output.toPlainText()


def test_a_killed_engine_is_told_kept_and_restarted(story: Story) -> None:
    story.open("tiny-llama")
    story.do("prefill")
    story.do("capture")
    window = story.window
    window.run_panel.count.setValue(1500)
    window.actions_by_id["replay"].trigger()
    os.kill(window.controller.client.process_id, signal.SIGKILL)
    with pytest.raises(JourneyError, match="the engine stopped"):
        story.journey.wait("replay", lambda state: state.busy is None and state.ready)
    assert story.state.engine is Engine.DEAD
    assert "replay × 1500" in window.overview.death.accessibleName()
    assert "signal 9" in window.overview.death.accessibleName()
    assert story.state.live.allocated_bytes > 0
    assert window.nodes.model.total > 0
    story.picture("engine-dead")
    window.overview.restart.emit()
    story.journey.wait(
        "restarting", lambda state: state.plan is not None and state.busy is None and state.ready
    )
    assert not window.overview.death.isVisible()
    story.do("prefill")
    assert story.state.run.position > 0


def test_a_capture_that_declines_says_which_node_and_why(story: Story) -> None:
    story.open("declines")
    for axis in [axis for axis in story.state.plan.axes if axis.refused] if story.state.plan else []:
        story.window.controller.declare(axis.symbol, "64")
    story.journey.wait("planning", lambda state: state.planned and state.busy is None)
    story.do("prefill")
    story.do("steps", count=2)
    story.do("capture")
    capture = story.state.capture
    assert capture is not None
    assert capture.declines
    assert all(decline.reason for decline in capture.declines)
    panel = story.window.capture_panel
    assert panel.declines.model.rowCount() == len(capture.declines)
    story.window.docks["capture"].raise_()
    story.picture("capture-declined")

"""A model that does not fit: what another export would take, planned, compared, taken back, and never run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from tests.story.test_triage import judge, planned_again

from vramscope.api import Planner, Scenario, open_path
from vramscope.messages.model import OpenParams

if TYPE_CHECKING:
    from pathlib import Path

    from tests.story.conftest import Story


def test_another_export_is_planned_by_a_click_and_taken_back(story: Story, shared_models: Path) -> None:
    folder = shared_models / "tiny" / "tiny-llama-fp32-cpu"
    story.open_source(OpenParams(path=str(folder)))
    first = story.state.plan
    assert first is not None
    story.window.scenario.prompt.setValue(100)
    planned_again(story, first)
    short = judge(story, "1000 KiB")
    window = story.window
    assert short.verdict.kind == "does not fit"
    row, line = window.overview.remedies, window.overview.assumed
    assert row.advice.text() == "Exported anew:", "no single one is enough"
    shown = [button for button in row.exports if button.isVisible()]
    assert len(shown) == 2
    wanted = [item for item in short.suggestions if "as_if" in item.change][:2]
    story.picture("exported-anew-short")
    QTest.mouseClick(shown[1], Qt.MouseButton.LeftButton)
    once = planned_again(story, short)
    assert (short.total.bytes or 0) - (once.total.bytes or 0) == wanted[1].saves, (
        "a button saves what it says"
    )
    assert once.scenario.as_if == [wanted[1].change["as_if"]]
    better = once
    while better.verdict.kind != "fits":
        QTest.mouseClick(row.exports[0], Qt.MouseButton.LeftButton)
        better = planned_again(story, better)
    assert row.isHidden()
    assert window.overview.verdict.accessibleName().startswith("If exported so: fits with ")
    assert [chip.isVisible() for chip in line.chips] == [True] * len(better.scenario.as_if)
    assert not window.actions_by_id["prefill"].isEnabled()
    story.picture("exported-anew-fits")
    the_same = Planner(open_path(folder)).plan(
        Scenario(prompt=better.scenario.prompt, context=better.context, as_if=tuple(better.scenario.as_if))
    )
    assert the_same.total.bytes == better.total.bytes
    compare_and_go_back(story, better.scenario.as_if)


def compare_and_go_back(story: Story, ids: list[str]) -> None:
    """The file as it is beside it by one click; then undo, an assumption less, and all of them gone."""
    window, line = story.window, story.window.overview.assumed
    QTest.mouseClick(line.compare_button, Qt.MouseButton.LeftButton)
    comparing = window.comparing
    story.journey.wait("the comparison", lambda _: comparing.state.found is not None)
    found = comparing.state.found
    assert found is not None
    assert found.total.left is not None
    plan = story.state.plan
    assert plan is not None
    assert found.total.left.bytes == plan.as_it_is
    assert not [word for word in found.left.asked if "as if" in word]
    assert [word for word in found.right.asked if "as if" in word]
    story.picture("exported-anew-compared")
    QTest.mouseClick(line.chips[0], Qt.MouseButton.LeftButton)
    less = planned_again(story, plan)
    assert less.scenario.as_if == ids[1:]
    story.do("undo")
    back = planned_again(story, less)
    assert back.scenario.as_if == ids
    QTest.mouseClick(line.leave_button, Qt.MouseButton.LeftButton)
    plain = planned_again(story, back)
    assert not plain.assumes
    assert line.isHidden()
    assert window.actions_by_id["prefill"].isEnabled()

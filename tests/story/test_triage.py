"""J2 and J5 of the design: from a verdict to a plan that fits, and a growing cache that ends a graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from vramscope.messages.model import OpenParams
from vramscope_app import command_window
from vramscope_app.theme import DARK

if TYPE_CHECKING:
    import pytest
    from tests.story.conftest import Story

    from vramscope.messages.planning import PlanInfo
    from vramscope_app.state import AppState

FOLDER = Path(__file__).resolve().parents[2] / "resources" / "samples" / "tiny-llama"
MIB = 2**20


def planned_again(story: Story, before: PlanInfo) -> PlanInfo:
    """The whole plan after an edit: a brief one came first where the edit followed another closely."""

    def whole(state: AppState) -> bool:
        found = state.plan
        return found is not None and found.ticket > before.ticket and not found.brief and state.busy is None

    story.journey.wait("planning again", whole)
    made = story.state.plan
    assert made is not None
    return made


def judge(story: Story, text: str) -> PlanInfo:
    """Writes into the card's field and presses Enter; typing key by key would open the list of matches."""
    before = story.state.plan
    assert before is not None
    line = story.window.scenario.card.lineEdit()
    assert line is not None
    line.setText(text)
    QTest.keyClick(line, Qt.Key.Key_Return)
    return planned_again(story, before)


def part(plan: PlanInfo, name: str) -> int:
    found = next(item.figure.bytes for item in plan.components if item.name == name)
    assert found is not None
    return found


def test_j2_triage_from_a_folder_to_a_scenario_that_fits(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.open_source(OpenParams(path=str(FOLDER)))
    window = story.window
    fits = judge(story, "RTX 4090")
    assert fits.verdict.kind == "fits"
    assert "GeForce RTX 4090" in window.overview.verdict.accessibleName()
    window.scenario.batch.setValue(4)
    wide = planned_again(story, fits)
    assert part(wide, "KV cache") == 4 * part(fits, "KV cache")
    window.scenario.slider.setValue(800)
    shorter = planned_again(story, wide)
    assert shorter.context < wide.context
    assert part(shorter, "KV cache") < part(wide, "KV cache")
    assert part(shorter, "weights") == part(wide, "weights")
    short = judge(story, "3 MiB")
    assert short.verdict.kind == "does not fit"
    assert short.verdict.available == 3 * MIB
    assert short.verdict.headroom is not None
    assert short.verdict.headroom == 3 * MIB - (short.total.bytes or 0) < 0
    row = window.overview.remedies
    assert row.isVisible()
    assert all(" · saves " in button.text() for button in row.buttons if button.isVisible())
    story.picture("j2-short")
    better = short
    for _ in range(6):
        if better.verdict.kind == "fits":
            break
        saved = next(item.saves for item in better.suggestions if "as_if" not in item.change)
        before, better = better, planned_after_click(story, better)
        assert (before.total.bytes or 0) - (better.total.bytes or 0) == saved
    assert better.verdict.kind == "fits"
    assert not row.isVisible()
    path = tmp_path / "report.html"
    monkeypatch.setattr(command_window, "ask_export", lambda *_: str(path))
    story.do("export")
    assert better.verdict.sentence in path.read_text(encoding="utf-8")
    path = tmp_path / "report.json"
    story.do("export")
    assert json.loads(path.read_text(encoding="utf-8"))["plan"]["ticket"] == better.ticket
    story.picture("j2-fits")
    window.actions_by_id["theme"].trigger()
    assert window.look.theme is DARK
    judge(story, "1 MiB")
    story.picture("j2-short-dark")


def planned_after_click(story: Story, before: PlanInfo) -> PlanInfo:
    """One click on the first suggestion: one that makes it fit, else the one that saves the most."""
    story.window.overview.remedies.buttons[0].click()
    return planned_again(story, before)


def test_j5_a_cache_that_grows_past_its_bucket_ends_the_graph_and_says_why(story: Story) -> None:
    story.open("tiny-llama")
    first = story.state.plan
    assert first is not None
    window = story.window
    window.scenario.prompt.setValue(8)
    second = planned_again(story, first)
    window.scenario.growing.click()
    third = planned_again(story, second)
    window.scenario.bucket.setValue(16)
    planned_again(story, third)
    assert story.state.scenario.bucket_minimum == 16
    story.do("prefill")
    story.do("steps", count=2)
    story.do("capture")
    assert story.state.run.state == "ready"
    capacity = story.state.run.capacity
    story.do("replay", count=capacity)
    assert story.state.run.capacity == 2 * capacity
    slot = story.state.live.slots[0]
    assert slot.invalidations >= 1
    (told,) = events(story, "invalidate")
    assert (told[0], int(told[1])) == (slot.name, capacity)
    assert f"kernel_input_shape was (1, {capacity}) and is (1, {2 * capacity})" in told[2]
    assert all(reason in told[2] for reason in ("physical_shape", "device_pointer"))
    assert events(story, "grow")[0][2] == f"{capacity:,} → {2 * capacity:,} tokens"
    assert slot.last_cause
    window.docks["events"].raise_()
    story.picture("j5-invalidated")


def test_the_headroom_chart_marks_where_the_card_ends_and_sets_the_context(story: Story) -> None:
    story.open("tiny-llama")
    judge(story, "4 MiB")
    story.window.docks["headroom"].raise_()
    story.journey.wait("the chart", lambda state: state.headroom is not None and state.busy is None)
    plan, curves, drawn = story.state.plan, story.state.headroom, story.window.headroom.drawn
    assert plan is not None
    assert curves is not None
    assert drawn is not None
    place = curves.contexts.index(plan.context)
    assert {item.name: item.bytes[place] for item in curves.components} == {
        item.name: item.figure.bytes for item in plan.components if item.figure.bytes is not None
    }
    assert curves.lines[0].totals[place] == plan.total.bytes == int(drawn.stacks[-1].top[place])
    assert [line.batch for line in curves.lines] == [1, 2, 4]
    edge = next(item.context for item in drawn.cards[0].crossings if item.batch == 1)
    assert edge == plan.verdict.largest_context
    story.picture("headroom-light")
    story.window.actions_by_id["theme"].trigger()
    story.picture("headroom-dark")
    story.window.headroom.choose_at(edge * 0.8, 0.0)
    fits = planned_again(story, plan)
    assert abs(fits.context - edge * 0.8) < 20
    assert fits.verdict.kind == "fits"
    before = curves
    story.journey.wait("the chart again", lambda state: state.headroom is not before)
    assert story.window.headroom.drawn is not None
    assert story.window.headroom.drawn.own == fits.context


def events(story: Story, kind: str) -> list[tuple[str, str, str]]:
    """Subject, step and text of every event of a kind, as the table shows them."""
    story.journey.settle()
    model = story.window.events.model
    rows = [[model.index(row, column).data() for column in range(8)] for row in range(model.rowCount())]
    return [(row[6], row[3], row[7]) for row in rows if row[2] == kind]


def test_a_prompt_in_passes_takes_a_smaller_arena_and_gives_the_same_tokens(story: Story) -> None:
    story.open_source(OpenParams(path=str(FOLDER)))
    whole = story.state.plan
    assert whole is not None
    story.do("prefill")
    story.do("steps", count=6)
    story.journey.settle()
    told = story.window.run_panel.output.toPlainText()
    story.window.scenario.chunk.setValue(4)
    passes = planned_again(story, whole)
    arenas = [{phase.name: phase.arena_bytes for phase in plan.phases} for plan in (whole, passes)]
    assert arenas[1]["prefill"] < arenas[0]["prefill"]
    story.do("prefill")
    story.do("steps", count=6)
    story.journey.settle()
    assert story.window.run_panel.output.toPlainText() == told != ""

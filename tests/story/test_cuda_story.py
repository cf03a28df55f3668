"""The window on a card: prefill, capture, replay, profile and the device's graph, through the real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtWidgets import QApplication

from vramscope.messages.planning import DEVICE_CONTEXT
from vramscope_app import export_commands

if TYPE_CHECKING:
    from pathlib import Path

    from tests.story.conftest import Story

    from vramscope_app.state import AppState

pytestmark = pytest.mark.gpu
PLANNED = ("weights", "KV cache", "activations", "workspace")
"""Components that the plan must meet to the byte."""


@pytest.fixture
def card(story: Story) -> Story:
    """The sample planned for the card's kernels; skipped where no card can run them."""
    story.open("tiny-llama")
    hello = story.state.hello
    assert hello is not None
    cuda = next(item for item in hello.devices if item.name == "cuda")
    if not cuda.available:
        pytest.skip(cuda.detail)
    plan = story.state.plan
    place = story.window.scenario.device.findText("cuda")
    story.window.scenario.device.setCurrentIndex(place)
    story.window.scenario.device.activated.emit(place)
    story.journey.wait("planning", lambda state: state.plan is not plan and state.busy is None)
    assert story.state.scenario.runtime == "cuda"
    assert not story.state.obstacle
    return story


def test_a_generation_on_the_card_is_captured_replayed_and_meets_its_plan(card: Story) -> None:
    card.do("prefill")
    card.do("steps", count=4)
    card.do("capture")
    capture = card.state.capture
    assert capture is not None
    assert capture.captured
    assert capture.device_nodes
    warm, downloads = card.allocations(), card.state.live.downloads
    card.do("replay", count=64)
    live = card.state.live
    assert live.steps_replayed == 64
    assert card.allocations() == warm
    assert live.allocations_last_step == 0
    assert live.downloads - downloads <= 64
    card.picture("cuda-replayed")
    card.do("verify")
    verify = card.state.verify
    assert verify is not None
    assert verify.equal
    assert verify.largest_logit_difference == 0
    card.window.docks["capture"].raise_()
    card.picture("cuda-capture")
    card.do("compare_run")
    card.journey.wait("comparing", lambda _: card.window.comparing.state.found is not None)
    found = card.window.comparing.state.found
    assert found is not None
    differences = {item.name: item.difference for item in found.components}
    assert {name: differences[name] for name in PLANNED} == dict.fromkeys(PLANNED, 0)
    card.picture("cuda-compared")


def test_the_context_is_bounded_as_soon_as_the_card_is_open(card: Story) -> None:
    assert card.state.plan is not None
    before = {item.name: item.figure.bytes for item in card.state.plan.components}
    assert before[DEVICE_CONTEXT] is None
    card.do("prefill")
    card.journey.wait("planning again", lambda state: bool(context_of(state)))
    measured = {item.name: item.figure.bytes for item in card.state.live.measured}
    taken, most = measured[DEVICE_CONTEXT], context_of(card.state)
    assert taken is not None
    assert most is not None
    assert taken <= most
    card.picture("cuda-context")


def context_of(state: AppState) -> int | None:
    parts = state.plan.components if state.plan is not None else []
    return next((item.figure.bytes for item in parts if item.name == DEVICE_CONTEXT), None)


def test_a_profile_gives_times_and_shows_which_nodes_are_one_launch(card: Story) -> None:
    card.do("prefill")
    card.do("steps", count=2)
    card.do("profile", count=8)
    table = card.window.nodes.model.table
    times = table.integers("nanoseconds").tolist()
    assert sum(time > 0 for time in times) > 1
    launches = [launch for launch in table.column("launch") if launch]
    assert len(launches) > len(set(launches)), "no launch does more than one node"
    card.picture("cuda-profiled")


def test_the_graph_that_the_card_drew_is_saved_and_copied(
    card: Story, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    card.do("prefill")
    card.do("capture")
    path = tmp_path / "graph.dot"
    monkeypatch.setattr(export_commands, "ask_drawing", lambda *_: str(path))
    card.do("save_graph")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("digraph")
    card.do("copy_graph")
    assert QApplication.clipboard().text() == text


def test_another_device_ends_the_generation_and_the_next_runs_there(card: Story) -> None:
    card.do("prefill")
    on_card = [card.state.live.position]
    plan = card.state.plan
    card.window.scenario.device.setCurrentIndex(0)
    card.window.scenario.device.activated.emit(0)
    card.journey.wait("planning", lambda state: state.plan is not plan and state.busy is None)
    assert card.state.scenario.runtime == "vramscope"
    card.do("prefill")
    assert [card.state.live.position] == on_card

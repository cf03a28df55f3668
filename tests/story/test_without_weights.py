"""A model whose data is not downloaded yet: its refusal offers to plan it alone; it never runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton

from vramscope.messages.model import OpenParams
from vramscope_app.journey import planned

if TYPE_CHECKING:
    from tests.story.conftest import Story

    from vramscope_app.state import AppState

FOLDER = Path(__file__).resolve().parents[2] / "resources" / "samples" / "tiny-llama"


def button(story: Story, name: str) -> QPushButton:
    found = story.window.overview.findChild(QPushButton, name)
    assert isinstance(found, QPushButton)
    assert found.isVisible()
    return found


def test_a_model_without_its_data_is_one_click_from_its_plan(story: Story, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(FOLDER, bare, ignore=shutil.ignore_patterns("*.data"))
    story.window.controller.open(OpenParams(path=str(bare)))
    story.window.controller.start()
    story.journey.wait("the refusal", _refused)
    QTest.mouseClick(button(story, "failure_copy"), Qt.MouseButton.LeftButton)
    copied = QGuiApplication.clipboard().text()
    assert "there is no such file" in copied
    assert "remedy:" in copied
    story.picture("missing-weights")
    QTest.mouseClick(button(story, "failure_without"), Qt.MouseButton.LeftButton)
    story.journey.wait("planning", planned)
    assert story.state.model is not None
    assert not story.state.model.has_weights
    assert story.state.notice is None
    assert story.state.plan is not None
    assert story.state.plan.total.bytes
    assert not story.window.actions_by_id["prefill"].isEnabled()
    assert not story.window.overview.failure.isVisible()


def _refused(state: AppState) -> bool:
    return state.notice is not None and state.notice.error.code == "MissingWeights"

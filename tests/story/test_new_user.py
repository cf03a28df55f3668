"""Somebody who has read nothing opens an 8B model: verdict, culprit and remedy are there in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QPushButton, QWidget
from tests.story.test_triage import judge, planned_again

from vramscope.messages.model import OpenParams
from vramscope_app.journey import planned

if TYPE_CHECKING:
    from pathlib import Path

    from tests.story.conftest import Story

GIB = 2**30


def seen(widget: QWidget) -> bool:
    """Whether a widget is on the screen, and whole: nothing above it cuts it off."""
    return widget.isVisible() and widget.visibleRegion().boundingRect() == widget.rect()


def words_on_screen(window: QWidget) -> str:
    parts = [part for part in window.findChildren(QWidget) if isinstance(part, QLabel | QAbstractButton)]
    return "\n".join(part.text() for part in parts if not part.visibleRegion().isEmpty())


def open_8b(story: Story, models: Path) -> None:
    """The folder as it is downloaded first: the graph, and none of its 16 GB of weights."""
    window = story.window
    window.resize(1280, 800)
    window.controller.open(OpenParams(path=str(models / "shape" / "mobius-llama3-8b-shape")))
    window.controller.start()
    story.journey._timer.start()
    while story.state.notice is None:
        story.journey._loop.exec()
    button = window.overview.failure.findChild(QPushButton, "failure_without")
    assert button is not None
    assert seen(button), "what to do stands beside what went wrong"
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    story.journey.wait("planning", planned)


def test_verdict_culprit_and_remedy_of_an_8b_model_are_on_the_first_screen(
    story: Story, shared_models: Path
) -> None:
    open_8b(story, shared_models)
    window = story.window
    short = judge(story, "RTX 4070")
    for _ in range(4):
        QCoreApplication.processEvents()
    assert short.verdict.kind == "does not fit"
    banner = window.overview.verdict
    assert seen(banner)
    said = words_on_screen(window)
    missing = -(short.verdict.headroom or 0) / GIB
    assert f"Short by {missing:.2f} GiB on GeForce RTX 4070" in said, "the verdict, with its card"
    assert "the weights are to blame" in said, "the culprit"
    for component in short.components:
        assert component.name in said, "what fills the card, by name"
    remedies = [button for button in window.overview.remedies.buttons if seen(button)]
    assert remedies, "the remedies, as buttons"
    assert all(" · saves " in button.text() for button in remedies)
    advice, export = window.overview.remedies.advice, window.overview.remedies.exports[0]
    assert seen(advice), "what only another export does"
    assert advice.text() == "It fits when exported anew:"
    assert export.text().startswith("Use 4-bit weights in matrix products · saves ")
    story.picture("new-user-8b-short")
    QTest.mouseClick(remedies[0], Qt.MouseButton.LeftButton)
    better = planned_again(story, short)
    saved = next(item.saves for item in short.suggestions if "as_if" not in item.change)
    assert (short.total.bytes or 0) - (better.total.bytes or 0) == saved, "a button saves what it says"
    fits = judge(story, "RTX 4090")
    assert fits.verdict.kind == "fits"
    assert "Fits with " in words_on_screen(window)
    assert not advice.isVisible()
    assert QApplication.activeModalWidget() is None, "no dialog had to be read"
    story.picture("new-user-8b-fits")


def test_the_peak_of_an_8b_model_is_a_click_away(story: Story, shared_models: Path) -> None:
    open_8b(story, shared_models)
    window = story.window
    plan = story.state.plan
    assert plan is not None
    node = next(phase.peak_node for phase in plan.phases if phase.name == "decode")
    assert window.nodes.jump(node)
    window.docks["inspector"].raise_()
    story.journey.wait("the node", lambda state: state.node is not None and state.busy is None)
    assert story.state.node is not None
    assert story.state.node.name == node
    story.picture("new-user-8b-peak")

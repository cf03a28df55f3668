"""Every command of the palette, chosen there by keyboard, with the real engine behind the window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QInputDialog

from vramscope_app import command_window, export_commands
from vramscope_app.commands import COMMANDS
from vramscope_app.journey import planned
from vramscope_app.place import HERE
from vramscope_app.rows.palette import plain_title
from vramscope_app.state import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from tests.story.conftest import Story

    from vramscope_app.state import AppState

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"


class Chooser:
    """Chooses commands from the palette and remembers which."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.chosen: set[str] = set()

    def __call__(
        self, name: str, done: Callable[[AppState], bool] = lambda state: state.busy is None
    ) -> None:
        window = self.story.window
        assert window.actions_by_id[name].isEnabled(), name
        window.show_palette()
        QTest.keyClicks(window.palette_box.line, plain_title(window.actions_by_id[name].command))
        QTest.keyClick(window.palette_box.line, Qt.Key.Key_Return)
        self.story.journey.wait(name, done)
        self.chosen.add(name)


def answer(monkeypatch: pytest.MonkeyPatch, question: str, path: Path) -> None:
    """What the user picks in a file dialog, which belongs to the desktop."""
    for module in (command_window, export_commands):
        if hasattr(module, question):
            monkeypatch.setattr(module, question, lambda *_: str(path))


def run_everything(choose: Chooser) -> None:
    """A generation from prefill to reset, each step with its effect."""
    story = choose.story
    story.window.run_panel.count.setValue(3)
    choose("record_trace", lambda state: state.trace is not None and state.trace.recording)
    choose("prefill", lambda state: state.steppable)
    position = story.state.live.position
    choose("step")
    choose("steps")
    assert story.state.live.position == position + 1 + 3
    choose("capture", lambda state: state.replayable)
    choose("replay")
    assert story.state.live.steps_replayed == 3
    choose("verify", lambda state: state.busy is None and state.verify is not None)
    choose("profile")
    story.window.run_panel.count.setValue(100_000)
    choose("steps", lambda state: state.busy is not None)
    choose("cancel")
    assert story.state.live.position < story.state.live.capacity


def save_everything(choose: Chooser, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Files and the clipboard."""
    made = {
        "save": ("ask_save", folder / "plan.vramscope.json"),
        "export": ("ask_export", folder / "plan.html"),
        "save_picture": ("ask_picture", folder / "panel.png"),
        "save_table": ("ask_table", folder / "table.csv"),
        "save_trace": ("ask_trace", folder / "trace.json"),
    }
    for command, (question, path) in made.items():
        answer(monkeypatch, question, path)
        choose(command)
        assert path.stat().st_size > 100, command
    assert json.loads((folder / "plan.vramscope.json").read_text(encoding="utf-8"))["run"]
    clipboard = QApplication.clipboard()
    for command in ("copy_table", "copy_summary"):
        clipboard.clear()
        choose(command)
        assert "|" in clipboard.text(), command
    assert json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    for command in ("save_graph", "copy_graph"):
        clipboard.setText("as it was")
        answer(monkeypatch, "ask_drawing", folder / "graph.dot")
        choose(command)
        assert "draws no graph" in choose.story.window.statusBar().currentMessage()
        assert clipboard.text() == "as it was"
    assert not (folder / "graph.dot").exists(), "what this machine's device does not draw is not written"


def compare_everything(choose: Chooser, monkeypatch: pytest.MonkeyPatch, report: Path) -> None:
    """A run, a report, a baseline, and nothing."""
    comparing = choose.story.window.comparing
    choose("compare_run", lambda _: comparing.state.found is not None)
    choose("keep_baseline", lambda _: comparing.state.baseline is not None)
    answer(monkeypatch, "ask_other", report)
    choose("compare_with")
    assume_everything(choose)
    choose("clear_baseline", lambda _: comparing.state.baseline is None)


def assume_everything(choose: Chooser) -> None:
    """Another export, beside the file as it is, and back."""
    story = choose.story
    before = story.state.plan
    story.window.overview.suggested.emit({"as_if": "last-logits"})
    story.journey.wait("the plan", lambda state: state.plan is not before and state.busy is None)
    comparing = story.window.comparing
    choose("compare_as_it_is", lambda _: comparing.state.found is not None)
    found = comparing.state.found
    assert found is not None
    assert found.left.asked != found.right.asked
    choose("plan_as_it_is", lambda state: state.plan is not None and not state.plan.assumes)


def look_at_everything(choose: Chooser) -> None:
    """What changes the window alone."""
    story = choose.story
    window, theme = story.window, story.window.look.theme
    choose("find")
    window.nodes.view.setCurrentIndex(window.nodes.view.model().index(0, 0))
    choose("neighbours")
    for _ in range(2):
        choose("theme")
        choose("fullscreen")
    assert window.look.theme is theme
    assert not window.isFullScreen()
    choose("panels")
    choose("palette")
    assert window.palette_box.isVisible()
    window.palette_box.hide()
    choose("shortcuts")
    shortcuts = window.findChild(QDialog, "shortcuts_dialog")
    assert isinstance(shortcuts, QDialog)
    shortcuts.close()
    shown: list[str] = []

    def close_about() -> None:
        box = QApplication.activeModalWidget()
        assert isinstance(box, QDialog)
        shown.append(box.windowTitle())
        box.reject()

    QTimer.singleShot(200, close_about)
    choose("about")
    assert len(shown) == 1


def move(choose: Chooser) -> None:
    """The engine moves to the place that the dialog is left at: this machine, in another process."""
    control = choose.story.window.controller
    before = control.client.process_id

    def stay() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, QInputDialog)
        assert dialog.textValue() == "", "empty is this machine"
        dialog.accept()

    QTimer.singleShot(0, stay)
    choose("move_engine", lambda state: state.ready and state.hello is not None)
    state = choose.story.state
    assert (state.place, state.model, state.plan, state.trace) == (HERE, None, None, None)
    assert control.client.process_id not in (0, before)


def open_everything(choose: Chooser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not there, a folder, and a model that runs once; the engine dies in between."""
    story = choose.story
    answer(monkeypatch, "ask_file", SAMPLES / "nowhere.onnx")
    choose("open", lambda state: state.notice is not None or state.busy is not None)
    while story.state.notice is None:
        QTest.qWait(10)
    choose("dismiss", lambda state: state.notice is None)
    answer(monkeypatch, "ask_folder", SAMPLES / "unbounded-axis")
    choose("open_folder", lambda state: planned(state) and not state.decoder)
    story.window.controller.client.kill()
    while story.state.engine is not Engine.DEAD:
        QTest.qWait(10)
    choose("restart", lambda state: state.engine is not Engine.DEAD and planned(state))
    plan = story.state.plan
    assert plan is not None
    (symbol,) = [axis.symbol for axis in plan.axes if axis.refused]
    story.window.controller.declare(symbol, "4")
    story.journey.wait("a maximum", lambda state: planned(state) and state.planned)
    choose("run_model", lambda state: state.busy is None and state.outputs is not None)


def test_every_command_does_its_work_through_the_real_engine(
    story: Story, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    story.open("tiny-llama")
    choose = Chooser(story)
    run_everything(choose)
    save_everything(choose, monkeypatch, tmp_path)
    compare_everything(choose, monkeypatch, tmp_path / "plan.vramscope.json")
    choose("reset", lambda state: state.busy is None and not state.steppable)
    story.window.scenario.batch.setValue(2)
    story.journey.wait("an edit", lambda state: bool(state.history.past) and planned(state))
    for command, batch in (("undo", 1), ("redo", 2)):
        choose(command, planned)
        assert story.state.scenario.batch == batch
    look_at_everything(choose)
    move(choose)
    open_everything(choose, monkeypatch)
    choose("quit", lambda _: not story.window.isVisible())
    assert choose.chosen == {command.id for command in COMMANDS}

"""A real window with a real engine behind it, driven as a user would, off-screen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QSettings
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from vramscope.messages.model import OpenParams
from vramscope_app.client import EngineClient
from vramscope_app.controller import Controller
from vramscope_app.journey import Journey, planned
from vramscope_app.look import Look
from vramscope_app.settings import Settings
from vramscope_app.theme import LIGHT, apply_theme
from vramscope_app.window import MainWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope_app.state import AppState

OUT = Path(__file__).resolve().parents[1] / "screenshots" / "out"
"""Made anew by every run; the ones beside it are kept to be looked at."""
SMALLEST = 0
"""Qt's quality of a PNG is how little it is compressed."""


@dataclass
class Story:
    """One window and its engine."""

    window: MainWindow
    journey: Journey

    @property
    def state(self) -> AppState:
        return self.window.controller.state

    def open(self, sample: str) -> None:
        self.open_source(OpenParams(sample=sample))

    def open_source(self, source: OpenParams) -> None:
        self.window.controller.open(source)
        self.window.controller.start()
        self.journey.wait("opening and planning", planned)

    def do(self, command: str, *, count: int = 0) -> None:
        """Triggers a command as its button would and waits for its answer."""
        if count:
            self.window.run_panel.count.setValue(count)
        action = self.window.actions_by_id[command]
        assert action.isEnabled(), command
        action.trigger()
        self.journey.wait(command, _at_rest)

    def allocations(self) -> int:
        """Allocations ever made, of every component."""
        return sum(item.total_count for item in self.state.live.counters)

    def picture(self, name: str) -> None:
        self.journey.settle()
        OUT.mkdir(parents=True, exist_ok=True)
        image = self.window.grab().toImage().convertToFormat(QImage.Format.Format_RGB888)
        assert image.save(str(OUT / f"{name}.png"), None, SMALLEST)


def _at_rest(state: AppState) -> bool:
    return state.busy is None and state.notice is None


@pytest.fixture
def story(qapp: object, tmp_path: Path) -> Iterator[Story]:
    assert isinstance(qapp, QApplication)
    apply_theme(qapp, LIGHT)
    settings = Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))
    window = MainWindow(Controller(EngineClient()), settings, Look.of(LIGHT))
    window.show()
    yield Story(window, Journey(window))
    window.close()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)

"""The window as a user starts it, which also tells on its standard output what it shows: a JSON text a line.

python -m watched_window ARGUMENTS OF vramscope-app
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from vramscope_app import main, run

if TYPE_CHECKING:
    from vramscope_app.controller import Controller
    from vramscope_app.settings import Settings
    from vramscope_app.window import MainWindow

TELL_MILLISECONDS = 50


def shown(window: MainWindow) -> dict[str, Any]:
    """What a user could read off the window, as plain values."""
    state, focus = window.controller.state, QApplication.focusWidget()
    return {
        "window": int(window.winId()),
        "exposed": window.windowHandle() is not None and window.windowHandle().isExposed(),
        "title": window.windowTitle(),
        "size": [window.width(), window.height()],
        "focus": focus.objectName() if focus is not None else "",
        "dialog": type(QApplication.activeModalWidget()).__name__,
        "palette": window.palette_box.isVisible(),
        "planned": state.planned,
        "idle": state.ready and state.busy is None,
        "context": state.scenario.context,
        "run": state.run.state,
        "position": state.live.position,
        "captured": state.capture is not None,
        "replayed": state.live.steps_replayed,
    }


def watch(window: MainWindow) -> None:
    """Tells whatever changed, until the window is gone."""
    last: dict[str, Any] = {}
    timer = QTimer(window)

    def tell() -> None:
        nonlocal last
        now = shown(window)
        if now != last:
            last = now
            print(json.dumps(now), flush=True)

    timer.timeout.connect(tell)
    timer.start(TELL_MILLISECONDS)


def start() -> int:
    """Runs the window with a watcher inside."""
    make = run.make_window

    def watched(controller: Controller, settings: Settings, theme: str) -> MainWindow:
        window = make(controller, settings, theme)
        watch(window)
        return window

    run.make_window = watched
    return main.main()


if __name__ == "__main__":
    sys.exit(start())

"""Puts application, client, controller and window together."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, QLocale, QSettings
from PySide6.QtWidgets import QApplication

from vramscope.messages.model import OpenParams
from vramscope_app import DEFAULT_SAMPLE, DESKTOP_ID
from vramscope_app.client import EngineClient
from vramscope_app.controller import Controller
from vramscope_app.rows.scenario import target
from vramscope_app.settings import MemoryStore, Settings
from vramscope_app.translation import choose, install

if TYPE_CHECKING:
    import argparse

    from vramscope_app.settings import Store
    from vramscope_app.window import MainWindow


def make_application(name: str) -> QApplication:
    """The application object with its names."""
    application = QApplication(sys.argv[:1])
    application.setApplicationName(name)
    application.setOrganizationName(name)
    application.setApplicationDisplayName("VRAMScope")
    application.setDesktopFileName(DESKTOP_ID)
    return application


def make_window(controller: Controller, settings: Settings, theme: str) -> MainWindow:
    """The window in its theme. Imports the drawing parts only now: the engine starts meanwhile."""
    from vramscope_app.icons import application_icon
    from vramscope_app.look import Look
    from vramscope_app.theme import apply_theme, resolve
    from vramscope_app.window import MainWindow

    look = Look.of(resolve(theme))
    application = QApplication.instance()
    if isinstance(application, QApplication):
        apply_theme(application, look.theme)
    window = MainWindow(controller, settings, look)
    window.setWindowIcon(application_icon())
    return window


def source_of(options: argparse.Namespace) -> OpenParams:
    """What the command line asks to open."""
    if options.path:
        return OpenParams(path=options.path)
    return OpenParams(sample=options.sample or DEFAULT_SAMPLE)


def wishes_of(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of a scenario that the command line asks for."""
    counts = {"context": options.context, "batch": options.batch}
    return {**target(options.card), **{name: count for name, count in counts.items() if count}}


def run(options: argparse.Namespace, name: str) -> int:
    """Shows the window, or makes the off-screen journey; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    application = make_application(name)
    settings = Settings(_store(name, forgetful=bool(options.picture)))
    install(application, choose(options.language or settings.language, QLocale.system().uiLanguages()))
    controller = Controller(EngineClient(command=options.on.command), options.on)
    controller.wish(**wishes_of(options))
    controller.open(source_of(options))
    controller.start()
    window = make_window(controller, settings, options.theme or settings.theme)
    gc.freeze()  # what stays as long as the window need not be walked by every collection
    if options.picture:
        from vramscope_app.journey import make_journey

        return make_journey(application, window, options.picture)
    _restore(window, settings)
    window.show()
    return application.exec()


def _store(name: str, *, forgetful: bool) -> Store:
    """The user's settings; an off-screen journey neither reads nor changes them."""
    return MemoryStore() if forgetful else QSettings(name, name)


def _restore(window: MainWindow, settings: Settings) -> None:
    geometry, docks = settings.layout()
    if geometry != QByteArray():
        window.restoreGeometry(geometry)
        window.restoreState(docks)

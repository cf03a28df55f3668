"""Menus and toolbars, built from the table of commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolBar, QToolButton, QWidget

from vramscope_app.rows.report import is_report
from vramscope_app.translation import LANGUAGES, SYSTEM, tr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PySide6.QtCore import QMimeData
    from PySide6.QtWidgets import QDockWidget, QMainWindow

    from vramscope.messages.model import SampleInfo
    from vramscope_app.commands import CommandAction

SEPARATED = frozenset({"save", "save_picture", "copy_table", "quit", "cancel", "restart", "theme", "dismiss"})
"""Commands with a line above them in their menu."""
ICON_ONLY = frozenset({"theme"})


def build_menus(
    window: QMainWindow, actions: Mapping[str, CommandAction], docks: Mapping[str, QDockWidget], language: str
) -> tuple[QMenu, QMenu, QMenu]:
    """The menu bar.

    Returns:
        The menus of recent models, of samples, and of languages, in which ``language`` is ticked.
    """
    menus: dict[str, QMenu] = {}
    recent, samples = QMenu(tr("Open &recent"), window), QMenu(tr("&Samples"), window)
    samples.setToolTipsVisible(True)
    languages = _language_menu(window, language)
    for action in actions.values():
        title = action.command.menu
        if title not in menus:
            menus[title] = window.menuBar().addMenu(tr(title))
        if action.command.id in SEPARATED:
            menus[title].addSeparator()
        menus[title].addAction(action)
        if action.command.id == "open_folder":
            menus[title].addMenu(recent)
            menus[title].addMenu(samples)
    menus["&View"].addMenu(languages)
    panels = menus["&View"].addMenu(tr("&Panels"))
    for dock in docks.values():
        panels.addAction(dock.toggleViewAction())
    return recent, samples, languages


def _language_menu(window: QMainWindow, language: str) -> QMenu:
    """The languages by their own names; the choice holds from the next start."""
    menu = QMenu(tr("&Language"), window)
    group = QActionGroup(menu)
    for name, title in {SYSTEM: tr("As the &desktop"), **LANGUAGES}.items():
        action = menu.addAction(title)
        action.setData(name)
        action.setCheckable(True)
        action.setChecked(name == language)
        group.addAction(action)
    return menu


def build_toolbar(
    window: QMainWindow, actions: Mapping[str, CommandAction], samples: QMenu, scenario: QWidget
) -> QToolButton:
    """The toolbar of commands, and below it the one of the scenario.

    Returns:
        The button of the samples.
    """
    bar = QToolBar(tr("Commands"), window)
    bar.setObjectName("toolbar")
    bar.setMovable(False)
    bar.setIconSize(QSize(18, 18))
    bar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    button = QToolButton()
    button.setText(tr("Samples"))
    button.setObjectName("samples")
    button.setMenu(samples)
    button.setToolTip(tr("Open a bundled sample"))
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    _fill_bar(bar, actions, button)
    window.addToolBar(bar)
    window.addToolBarBreak()
    second = QToolBar(tr("Scenario"), window)
    second.setObjectName("scenario_bar")
    second.setMovable(False)
    second.addWidget(scenario)
    window.addToolBar(second)
    return button


def _fill_bar(bar: QToolBar, actions: Mapping[str, CommandAction], samples: QToolButton) -> None:
    bar.addAction(actions["open"])
    bar.addWidget(samples)
    bar.addSeparator()
    shown = [action for action in actions.values() if action.command.toolbar]
    for action in shown:
        if action.command.menu == "&Run":
            bar.addAction(action)
    stretch = QWidget()
    stretch.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    bar.addWidget(stretch)
    for action in shown:
        if action.command.menu != "&Run" and action.command.id != "open":
            bar.addAction(action)
    for name in ICON_ONLY:
        button = bar.widgetForAction(actions[name])
        if isinstance(button, QToolButton):
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
            button.setAccessibleName(tr(actions[name].command.tip))


def fill_recent(menu: QMenu, paths: Sequence[str]) -> None:
    """The recent models, and an entry that empties the list."""
    menu.clear()
    for path in paths:
        action = QAction(path, menu)
        action.setData(path)
        menu.addAction(action)
    if paths:
        menu.addSeparator()
        menu.addAction(QAction(tr("&Clear this list"), menu))
    menu.setEnabled(bool(paths))


def fill_samples(menu: QMenu, samples: Sequence[SampleInfo]) -> None:
    """The bundled samples with what each shows."""
    menu.clear()
    for sample in samples:
        action = QAction(f"{sample.title}", menu)
        action.setData(sample.name)
        action.setToolTip(sample.shows)
        action.setStatusTip(sample.shows)
        menu.addAction(action)
    menu.setEnabled(bool(samples))


def path_of_drop(data: QMimeData) -> str:
    """The one local .onnx file, report or folder of a drop; empty for anything else."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    if len(paths) != 1:
        return ""
    taken = paths[0].is_dir() or paths[0].suffix.lower() == ".onnx" or is_report(str(paths[0]))
    return str(paths[0]) if taken else ""

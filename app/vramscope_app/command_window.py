"""What the window's commands do: each is a method without parameters that the table of commands names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from vramscope.messages.model import OpenParams
from vramscope_app import docks as dock_places
from vramscope_app.dialogs import (
    ask_export,
    ask_file,
    ask_folder,
    ask_other,
    ask_place,
    ask_save,
    ask_trace,
    show_about,
    show_shortcuts,
)
from vramscope_app.export_commands import ExportCommands
from vramscope_app.look import Look
from vramscope_app.menus import fill_recent, path_of_drop
from vramscope_app.rows.scenario import without
from vramscope_app.theme import DARK, LIGHT
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QAction, QDragEnterEvent, QDropEvent
    from PySide6.QtWidgets import QDockWidget, QMenu

    from vramscope_app.commands import CommandAction
    from vramscope_app.comparing import Comparing
    from vramscope_app.controller import Controller
    from vramscope_app.panels.graph import GraphPanel
    from vramscope_app.panels.nodes import NodePanel
    from vramscope_app.panels.palette import Palette
    from vramscope_app.panels.run import RunPanel
    from vramscope_app.settings import Settings


class CommandWindow(ExportCommands):
    """The commands; who builds the window sets these parts."""

    controller: Controller
    comparing: Comparing
    actions_by_id: dict[str, CommandAction]
    docks: dict[str, QDockWidget]
    graph: GraphPanel
    nodes: NodePanel
    palette_box: Palette
    run_panel: RunPanel
    recent_menu: QMenu
    _settings: Settings
    _look: Look

    def set_look(self, look: Look) -> None:
        """Dresses every part in a theme."""
        raise NotImplementedError

    def open_file(self) -> None:
        """Asks for a .onnx file."""
        self._open_path(ask_file(self, self.controller.state.place))

    def open_folder(self) -> None:
        """Asks for a model folder."""
        self._open_path(ask_folder(self, self.controller.state.place))

    def _open_path(self, path: str) -> None:
        if path:
            self.controller.open(OpenParams(path=path))

    def _open_recent(self, action: QAction) -> None:
        if action.data():
            self._open_path(str(action.data()))
        else:
            self._settings.forget_recent()
            fill_recent(self.recent_menu, [])

    def _open_sample(self, action: QAction) -> None:
        self.controller.open(OpenParams(sample=str(action.data())))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 - Qt's name
        """Takes one .onnx file, report or folder, unless the engine is on a machine that does not have it."""
        if path_of_drop(event.mimeData()) and not self.controller.state.place.remote:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 - Qt's name
        """Opens what was dropped."""
        path = path_of_drop(event.mimeData())
        if path:
            event.acceptProposedAction()
            self._open_path(path)

    def move_engine(self) -> None:
        """Asks for a machine that ssh knows and starts the engine there."""
        place = ask_place(self, self.controller.state.place, self._settings.places)
        if place is not None:
            self._settings.keep_place(str(place))
            self.controller.move(place)

    def export_report(self) -> None:
        """Asks where to write the plan."""
        self._export(ask_export(self, self.controller.state.place))

    def save_report(self) -> None:
        """Asks where to save the plan and its run."""
        model = self.controller.state.model
        self._export(ask_save(self, model.name if model is not None else "plan", self.controller.state.place))

    def _export(self, path: str) -> None:
        if path:
            self.controller.export(path)

    def open_reported_model(self) -> None:
        """Opens the model that the shown report was planned from."""
        model = self.controller.state.model
        self._open_path(model.path if model is not None else "")

    def keep_baseline(self) -> None:
        """What is shown becomes what later plans are compared with."""
        self.comparing.keep()
        self._show_dock("compare")

    def compare_with(self) -> None:
        """Asks for a model or a report to compare with."""
        path = ask_other(self, self.controller.state.place)
        if path:
            self.comparing.keep_path(path)
            self._show_dock("compare")

    def compare_run(self) -> None:
        """Compares the plan with what the run took."""
        self.comparing.with_run()
        self._show_dock("compare")

    def compare_as_it_is(self) -> None:
        """Compares what is planned as if exported otherwise with the file as it is."""
        self.comparing.keep_as_it_is()
        self._show_dock("compare")

    def plan_as_it_is(self) -> None:
        """Assumes no other export any more."""
        self._assume_less(self.controller.state.scenario.as_if)

    def _assume_less(self, rewrites: Sequence[str]) -> None:
        """Plans without some assumptions of another export."""
        self.controller.edit(without(self.controller.state.scenario, *rewrites))

    def clear_baseline(self) -> None:
        """Compares with nothing any more."""
        self.comparing.clear()

    def _show_dock(self, name: str) -> None:
        self.docks[name].show()
        self.docks[name].raise_()

    def prefill(self) -> None:
        """Prefills the prompt of the run panel."""
        panel = self.run_panel
        chat = panel.chat.isChecked() and panel.chat.isEnabled()
        self.controller.prefill(panel.prompt.toPlainText(), chat=chat, sampling=panel.sampling.sampling())

    def step(self) -> None:
        """One eager step."""
        self.controller.run("step", 1)

    def steps(self) -> None:
        """N eager steps."""
        self.controller.run("step", self.run_panel.count.value())

    def capture(self) -> None:
        """Captures the decode step."""
        self.controller.run("capture")

    def replay(self) -> None:
        """N replays."""
        self.controller.run("replay", self.run_panel.count.value())

    def verify(self) -> None:
        """Compares N replays with eager steps."""
        self.controller.run("verify", self.run_panel.count.value())

    def profile(self) -> None:
        """N eager steps whose nodes are timed."""
        self.controller.run("profile", self.run_panel.count.value())

    def record_trace(self) -> None:
        """Begins to record what runs, or ends it."""
        trace = self.controller.state.trace
        self.controller.record(on=trace is None or not trace.recording)

    def save_trace(self) -> None:
        """Asks where to save what was recorded."""
        path = ask_trace(self, self._proposed("trace"), self.controller.state.place)
        if path:
            self.controller.save_trace(path)

    def reset(self) -> None:
        """Back to before the prompt."""
        self.controller.run("reset")

    def run_model(self) -> None:
        """Runs a model that is no decoder."""
        self.controller.run_model()

    def cancel(self) -> None:
        """Stops what runs."""
        self.controller.cancel()

    def restart(self) -> None:
        """Starts the engine anew."""
        self.controller.restart()

    def undo(self) -> None:
        """Takes the last edit of the scenario back."""
        self.controller.undo()

    def redo(self) -> None:
        """Makes the edit again that was taken back."""
        self.controller.redo()

    def show_palette(self) -> None:
        """Opens the command palette."""
        self.palette_box.begin(self.controller.state, self._look)

    def run_command(self, name: str) -> None:
        """Runs a command by its id, unless it cannot be used now."""
        self.actions_by_id[name].trigger()

    def show_shortcuts(self) -> None:
        """Lists every command with its keys."""
        show_shortcuts(self, self._look)

    def dismiss(self) -> None:
        """Closes the failure banner."""
        self.controller.dismiss()

    def find_node(self) -> None:
        """Puts the cursor into the search."""
        self.nodes.focus_search()

    def show_neighbours(self) -> None:
        """Brings the chosen node's neighbourhood to the front, ready for the arrow keys."""
        self.docks["graph"].show()
        self.docks["graph"].raise_()
        self.graph.view.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def about(self) -> None:
        """Says what this is."""
        show_about(self, self.controller.state.hello)

    def toggle_theme(self) -> None:
        """Light becomes dark and dark light."""
        theme = LIGHT if self._look.theme.dark else DARK
        self._settings.theme = theme.name
        self.set_look(Look.of(theme))

    def _choose_language(self, action: QAction) -> None:
        self._settings.language = str(action.data())
        self._say(tr("The window speaks another language once it is opened again"))

    def reset_layout(self) -> None:
        """Every panel back to its first place."""
        dock_places.arrange(self, self.docks)

    def toggle_full_screen(self) -> None:
        """Fills the screen, or not."""
        self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen)

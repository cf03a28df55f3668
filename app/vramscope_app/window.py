"""The main window: builds the parts, hands them what changed, turns commands into requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget

from vramscope_app import docks as dock_places
from vramscope_app.command_window import CommandWindow
from vramscope_app.commands import make_actions, update_actions
from vramscope_app.comparing import Comparing
from vramscope_app.exporting import Exporter
from vramscope_app.menus import build_menus, build_toolbar, fill_recent, fill_samples
from vramscope_app.panels.arena import ArenaPanel
from vramscope_app.panels.axes import AxesPanel
from vramscope_app.panels.busy import BusyIndicator
from vramscope_app.panels.capture import CapturePanel
from vramscope_app.panels.compare import ComparePanel
from vramscope_app.panels.counters import CounterPanel
from vramscope_app.panels.events import EventPanel
from vramscope_app.panels.flow import Scrolled
from vramscope_app.panels.graph import GraphPanel
from vramscope_app.panels.headroom import HeadroomPanel
from vramscope_app.panels.icicle import IciclePanel
from vramscope_app.panels.inspector import InspectorPanel
from vramscope_app.panels.live import LivePanel
from vramscope_app.panels.log import LogPanel
from vramscope_app.panels.node_columns import FIRST as FIRST_COLUMNS
from vramscope_app.panels.nodes import NodePanel
from vramscope_app.panels.overview import Overview
from vramscope_app.panels.palette import Palette
from vramscope_app.panels.run import RunPanel
from vramscope_app.panels.scenario import ScenarioBar
from vramscope_app.panels.table import TablePanel
from vramscope_app.rows.devices import device_choices
from vramscope_app.rows.measured import measured_columns, measured_nodes, node_parts
from vramscope_app.rows.scenario import apply_change
from vramscope_app.rows.status import engine_text, model_text, window_title
from vramscope_app.rows.tables import PROBLEM_HEADINGS, problem_rows
from vramscope_app.state import AppState
from vramscope_app.streams import Streams
from vramscope_app.theme import apply_theme
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from PySide6.QtGui import QCloseEvent

    from vramscope_app.controller import Controller
    from vramscope_app.look import Look
    from vramscope_app.settings import Settings


class MainWindow(CommandWindow):
    """The window; its public methods without parameters are the commands of ``commands.COMMANDS``."""

    def __init__(self, controller: Controller, settings: Settings, look: Look) -> None:
        super().__init__()
        self.controller, self.comparing = controller, Comparing(controller)
        self._settings = settings
        self._look = look
        self.actions_by_id = make_actions(self)
        self.overview, self.nodes = Overview(look), NodePanel(look)
        self.scenario = ScenarioBar()
        self.run_panel = RunPanel(self.actions_by_id, look)
        self.live, self.events = LivePanel(look), EventPanel(look)
        self.axes = AxesPanel(look)
        self.problems = TablePanel(
            "problems",
            tr("Problems"),
            PROBLEM_HEADINGS,
            look,
            detail=True,
            empty=tr("No problems, and nothing to note"),
        )
        self.counters = CounterPanel(look)
        self.capture_panel, self.log = CapturePanel(look), LogPanel()
        self.headroom, self.arena, self.icicle = HeadroomPanel(look), ArenaPanel(look), IciclePanel(look)
        self.inspector, self.graph = InspectorPanel(look), GraphPanel(look)
        self.compare = ComparePanel(self.actions_by_id, look)
        self.palette_box = Palette(self)
        self.busy = BusyIndicator(self.actions_by_id["cancel"])
        self._engine_label, self._model_label = QLabel(), QLabel()
        self.streams = Streams(controller, self)
        self._build()
        self._connect()
        self._dress(look)
        self.overview.set_first(controller.state)
        self._show(AppState(), controller.state)

    @property
    def look(self) -> Look:
        """Theme and icons now."""
        return self._look

    # Building

    def _build(self) -> None:
        self.setObjectName("main_window")
        self.setAcceptDrops(True)
        self.setDockNestingEnabled(True)
        self.resize(1600, 960)
        centre = QWidget()
        layout = QVBoxLayout(centre)
        layout.setContentsMargins(8, 7, 3, 3)
        layout.setSpacing(8)
        layout.addWidget(Scrolled(self.overview))
        layout.addWidget(self.nodes, 1)
        self.setCentralWidget(centre)
        self.docks = dock_places.make_docks(self, self._dock_panels())
        self.exporter = Exporter([centre, *self.docks.values()], self.actions_by_id, self)
        self.recent_menu, self.sample_menu, self.language_menu = build_menus(
            self, self.actions_by_id, self.docks, self._settings.language
        )
        self.sample_button = build_toolbar(self, self.actions_by_id, self.sample_menu, self.scenario)
        self._build_status()
        dock_places.arrange(self, self.docks)
        dock_places.Flattener(self, self.docks)
        self.nodes.view.setFocus(Qt.FocusReason.OtherFocusReason)
        fill_recent(self.recent_menu, self._settings.recent)

    def _dock_panels(self) -> dict[str, QWidget]:
        return {
            "run": self.run_panel,
            "live": self.live,
            "axes": self.axes,
            "headroom": self.headroom,
            "arena": self.arena,
            "icicle": self.icicle,
            "inspector": self.inspector,
            "compare": self.compare,
            "graph": self.graph,
            "problems": self.problems,
            "capture": self.capture_panel,
            "counters": self.counters,
            "events": self.events,
            "log": self.log,
        }

    def _build_status(self) -> None:
        status = self.statusBar()
        status.setSizeGripEnabled(False)
        status.addWidget(self.busy)
        for label in (self._model_label, self._engine_label):
            label.setProperty("role", "muted")
            label.setContentsMargins(6, 0, 6, 0)
            status.addPermanentWidget(label)

    def _connect(self) -> None:
        control = self.controller
        control.changed.connect(self._show)
        control.written.connect(self._tell_written)
        control.logged.connect(self.log.add_text)
        self.scenario.wanted.connect(control.edit)
        self.axes.edited.connect(control.declare)
        self.palette_box.chosen.connect(self.run_command)
        self.nodes.chosen.connect(self._inspect)
        self.nodes.set_profiler(self.actions_by_id["profile"])
        self.nodes.columns.show_columns(self._settings.columns or FIRST_COLUMNS)
        self.nodes.columns.changed.connect(self._settings.keep_columns)
        self.docks["headroom"].visibilityChanged.connect(self.headroom.set_seen)
        self.docks["inspector"].visibilityChanged.connect(self.inspector.set_seen)
        self.docks["graph"].visibilityChanged.connect(self.graph.set_seen)
        self.inspector.wanted.connect(self._inspect)
        self.graph.wanted.connect(self._inspect)
        self.headroom.wanted.connect(control.want_headroom)
        self.headroom.chosen.connect(control.choose_point)
        self.headroom.compared.connect(self._settings.compare)
        self.comparing.changed.connect(self.compare.set_compared)
        self.docks["compare"].visibilityChanged.connect(self.comparing.set_seen)
        self.overview.open_model.connect(self.open_reported_model)
        self.overview.restart.connect(control.restart)
        self.overview.dismiss.connect(control.dismiss)
        self.overview.suggested.connect(self._apply)
        self.overview.assumed.dropped.connect(self._assume_less)
        self.overview.assumed.compare.connect(self.compare_as_it_is)
        self.overview.plan_without_weights.connect(control.open)
        for panel in (
            self.axes,
            self.problems,
            self.capture_panel,
            self.overview,
            self.arena,
            self.icicle,
            self.inspector,
            self.compare,
            self.graph,
        ):
            panel.jump.connect(self.jump)
        self.recent_menu.triggered.connect(self._open_recent)
        self.sample_menu.triggered.connect(self._open_sample)
        self.language_menu.triggered.connect(self._choose_language)

    # What changed

    def _show(self, old: AppState, new: AppState) -> None:
        """Touches only what differs between two states."""
        self.overview.set_state(old, new)
        if new.hello is not old.hello:
            self._show_hello(new)
        if new.model is not old.model:
            self._show_model(new)
        if new.scenario != old.scenario:
            self.scenario.set_scenario(new.scenario)
        if new.plan is not old.plan:
            self.axes.set_plan(new.plan)
        if new.plan is not old.plan or new.model is not old.model:
            self._model_label.setText(model_text(new.model, new.plan))
        self._show_charts(old, new)
        if node_parts(new) != node_parts(old):
            self._show_nodes(new)
        if new.profile is not None and new.profile is not old.profile:
            self.nodes.columns.reveal(measured_columns(new))
        if (new.plan, new.model, new.failures) != (old.plan, old.model, old.failures):
            self._show_problems(new)
        self._show_capture(old, new)
        if new.live is not old.live:
            self.streams.news()
        else:
            self.run_panel.set_state(new)
            self.axes.set_position(new.run.position)
        self.busy.set_busy(new.busy)
        self._engine_label.setText(engine_text(new))
        update_actions(self.actions_by_id, new)

    def _show_charts(self, old: AppState, new: AppState) -> None:
        if new.nodes is not old.nodes:
            self.icicle.set_tables(new.nodes)
        if new.arenas is not old.arenas:
            self.arena.set_tables(new.arenas, new.nodes)
            self._inspect()
        if new.node is not old.node:
            self.inspector.set_node(new.node)
        if new.neighbours is not old.neighbours:
            self.graph.set_neighbours(new.neighbours)
        if new.headroom is not old.headroom:
            self.headroom.set_curves(new.headroom)
        if new.plan is not old.plan or (old.busy is not None and new.busy is None):
            self.headroom.ask_soon()

    def _show_capture(self, old: AppState, new: AppState) -> None:
        if new.capture is not old.capture:
            self.capture_panel.set_capture(new.capture)
        if new.verify is not old.verify:
            self.capture_panel.set_verify(new.verify)
        if new.slots is not old.slots:
            self.capture_panel.set_details(new.slots)
            self.counters.set_history(new.slots.memory)

    def _inspect(self) -> None:
        """Asks for the chosen node, unless nobody sees it."""
        phase, step = self.nodes.chosen_step()
        if step >= 0 and self.inspector.seen:
            self.controller.inspect(phase, step)
        if step >= 0 and self.graph.seen:
            self.controller.look_around(phase, step, self.graph.hops.value())

    def _show_hello(self, state: AppState) -> None:
        if state.hello is not None:
            self._settings.machine = state.place.destination
            fill_recent(self.recent_menu, self._settings.recent)
            self.scenario.set_cards(state.hello.cards)
            self.headroom.cards.set_cards(state.hello.cards, self._settings.compared)
            self.scenario.set_devices(device_choices(state.hello.devices))
            fill_samples(self.sample_menu, state.hello.samples)

    def _show_model(self, state: AppState) -> None:
        self.scenario.set_model(state.model)
        self.run_panel.set_model(state.model)
        self.setWindowTitle(window_title(state))
        self.scenario.setEnabled(not state.report)
        if state.model is not None and state.source is not None and state.source.path:
            self._settings.remember(state.report or state.model.path)
            fill_recent(self.recent_menu, self._settings.recent)

    def _show_nodes(self, state: AppState) -> None:
        decode = state.nodes.get("decode")
        known = {} if decode is None else {"decode": measured_nodes(decode, state)}
        self.nodes.set_tables({**state.nodes, **known})

    def _show_problems(self, state: AppState) -> None:
        failures = [(item.call.method, item.error) for item in state.failures]
        rows = problem_rows(state.model, state.plan, failures)
        self.problems.set_rows(rows)
        self.problems.choose_first()
        self.docks["problems"].setWindowTitle(
            tr("Problems ({rows})", rows=len(rows)) if rows else tr("Problems")
        )

    def jump(self, node: str) -> None:
        """Shows a node in the tree."""
        if not self.nodes.jump(node):
            self.statusBar().showMessage(tr("{node} is not in the tree of this phase", node=node), 5000)

    def _apply(self, change: dict[str, int | str]) -> None:
        """A suggestion: a scenario to plan, or a symbol whose maximum only the user knows."""
        if self.controller.state.report:
            self.statusBar().showMessage(tr("A saved report cannot be planned again: open its model"), 5000)
            return
        if "maxima" in change:
            self.docks["axes"].raise_()
            self.axes.edit_maximum(str(change["maxima"]))
        self.controller.edit(apply_change(self.controller.state.scenario, change))

    def set_look(self, look: Look) -> None:
        """Dresses the application and every part in a theme."""
        self._look = look
        application = QApplication.instance()
        if isinstance(application, QApplication):
            apply_theme(application, look.theme)
        self._dress(look)

    def _dress(self, look: Look) -> None:
        self.sample_button.setIcon(look.icons.get("sample"))
        for action in self.actions_by_id.values():
            action.set_look(look)
        for part in (
            *(self.overview, self.nodes, self.run_panel, self.live, self.axes, self.headroom, self.arena),
            *(self.inspector, self.compare, self.graph, self.problems, self.capture_panel, self.icicle),
            *(self.counters, self.events),
        ):
            part.set_look(look)

    # Qt

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 - Qt's name
        """Keeps the layout and ends the engine."""
        self._settings.store_layout(self.saveGeometry(), self.saveState())
        self.streams.rest()
        self.controller.client.stop()
        super().closeEvent(event)

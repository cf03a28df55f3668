"""Every command as data: menus, toolbar and shortcuts are built from this one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence

from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtCore import QObject

    from vramscope_app.look import Look
    from vramscope_app.state import AppState


def always(_state: AppState) -> bool:
    """Enabled whatever happens."""
    return True


def _ready(state: AppState) -> bool:
    return state.ready


def _planned(state: AppState) -> bool:
    return state.ready and state.plan is not None


def _assuming(state: AppState) -> bool:
    return bool(state.scenario.as_if) and not state.report


def _assumed(state: AppState) -> bool:
    return _planned(state) and state.plan is not None and bool(state.plan.assumes) and not state.report


def _prefill(state: AppState) -> bool:
    return state.idle and state.decoder


def _reset(state: AppState) -> bool:
    return state.ready and state.decoder and not state.working and state.started


def _plain(state: AppState) -> bool:
    return state.idle and state.model is not None and not state.decoder


def _steppable(state: AppState) -> bool:
    return state.steppable


def _replayable(state: AppState) -> bool:
    return state.replayable


def _captured(state: AppState) -> bool:
    return state.capture is not None


def _recordable(state: AppState) -> bool:
    return state.ready and not state.report and not state.working


def _recording(state: AppState) -> bool:
    return state.trace is not None and state.trace.recording


def _recorded(state: AppState) -> bool:
    return (
        _recordable(state) and state.trace is not None and (state.trace.recording or state.trace.records > 0)
    )


def _busy(state: AppState) -> bool:
    return state.ready and state.busy is not None


def _undoable(state: AppState) -> bool:
    return bool(state.history.past)


def _redoable(state: AppState) -> bool:
    return bool(state.history.future)


def _measured(state: AppState) -> bool:
    return _planned(state) and bool(state.live.measured)


def _failed(state: AppState) -> bool:
    return state.notice is not None


@dataclass(frozen=True, slots=True)
class Command:
    """One command; ``action`` names a method of the window without parameters."""

    id: str
    title: str
    menu: str
    action: str
    icon: str = ""
    shortcuts: tuple[str, ...] = ()
    enabled: Callable[[AppState], bool] = always
    tip: str = ""
    toolbar: bool = False
    checked: Callable[[AppState], bool] | None = None
    """Whether what a command switches on and off is on; None for one that switches nothing."""


COMMANDS = (
    Command("open", "&Open model…", "&File", "open_file", "open", ("Ctrl+O",), _ready,
            "Open a .onnx file, or a saved report", toolbar=True),
    Command("open_folder", "Open model &folder…", "&File", "open_folder", "file", ("Ctrl+Shift+O",), _ready,
            "Open a model folder with its tokenizer and configuration"),
    Command("save", "&Save report…", "&File", "save_report", "save", ("Ctrl+S",), _planned,
            "Save the plan and what the run took as .vramscope.json, to open and compare later"),
    Command("export", "&Export report…", "&File", "export_report", "export", ("Ctrl+E",), _planned,
            "Write the plan as HTML, CSV, Markdown or JSON, or for Netron and Model Explorer", toolbar=True),
    Command("save_picture", "Save panel as &picture…", "&File", "save_picture", "picture", ("Ctrl+Shift+E",),
            always, "Save the panel in use, with its chart, as PNG or SVG"),
    Command("save_table", "Save &table as CSV…", "&File", "save_table", "table", ("Ctrl+Shift+S",), always,
            "Save the table of the panel in use as it is shown, with every byte"),
    Command("save_graph", "Save captured &graph as dot…", "&File", "save_graph", "capture", (), _captured,
            "Save the captured graphs as the device drew them, for Graphviz"),
    Command("quit", "&Quit", "&File", "close", "quit", ("Ctrl+Q",), always, "Close the window"),
    Command("undo", "&Undo scenario edit", "&Edit", "undo", "undo", ("Ctrl+Z",), _undoable,
            "Take back the last change of the scenario"),
    Command("redo", "&Redo scenario edit", "&Edit", "redo", "redo", ("Ctrl+Shift+Z", "Ctrl+Y"), _redoable,
            "Make the change again that was taken back"),
    Command("plan_as_it_is", "Plan the file &as it is", "&Edit", "plan_as_it_is", "undo", (), _assuming,
            "Assume no other export of the model any more"),
    Command("copy_table", "Copy table as &Markdown", "&Edit", "copy_table", "copy", ("Ctrl+Shift+M",), always,
            "Copy the table of the panel in use for an issue or a pull request"),
    Command("copy_summary", "&Copy verdict as Markdown", "&Edit", "copy_summary", "copy", ("Ctrl+Shift+C",),
            _planned, "Copy the verdict, the components and what would help"),
    Command("copy_graph", "Copy captured &graph as dot", "&Edit", "copy_graph", "copy", (), _captured,
            "Copy the captured graphs as the device drew them, for Graphviz"),
    Command("prefill", "&Prefill", "&Run", "prefill", "prefill", ("Ctrl+Return",), _prefill,
            "Compute the whole prompt", toolbar=True),
    Command("step", "&Step", "&Run", "step", "step", ("F10",), _steppable,
            "Compute one token eagerly", toolbar=True),
    Command("steps", "Steps ×&N", "&Run", "steps", "steps", ("Shift+F10",), _steppable,
            "Compute N tokens eagerly"),
    Command("capture", "&Capture", "&Run", "capture", "capture", ("F9",), _steppable,
            "Capture the decode step as a device graph", toolbar=True),
    Command("replay", "&Replay ×N", "&Run", "replay", "replay", ("F8",), _replayable,
            "Replay the captured step N times", toolbar=True),
    Command("verify", "&Verify ×N", "&Run", "verify", "verify", ("F7",), _replayable,
            "Compare N replayed steps with eager ones", toolbar=True),
    Command("profile", "Pro&file ×N", "&Run", "profile", "profile", ("F6",), _steppable,
            "Compute N tokens eagerly and time every node"),
    Command("record_trace", "Recor&d a trace", "&Run", "record_trace", "record", (), _recordable,
            "Keep what runs from now on, step by step and node by node, to save it as a trace",
            checked=_recording),
    Command("save_trace", "S&ave trace…", "&Run", "save_trace", "save", (), _recorded,
            "Save what was recorded, for ui.perfetto.dev or chrome://tracing"),
    Command("reset", "Rese&t", "&Run", "reset", "reset", ("Ctrl+R",), _reset,
            "Back to before the prompt; weights stay loaded", toolbar=True),
    Command("run_model", "Run &once", "&Run", "run_model", "step", ("Ctrl+Shift+Return",), _plain,
            "Run a model that is no decoder on seeded random inputs"),
    Command("cancel", "&Cancel", "&Run", "cancel", "cancel", ("Esc",), _busy, "Stop what runs"),
    Command("restart", "Restart &engine", "&Run", "restart", "restart", ("Ctrl+Shift+R",), always,
            "End the engine process, start another, and open the model again"),
    Command("move_engine", "Engine on another &machine…", "&Run", "move_engine", "engine", (), always,
            "Run the engine where the GPU is, through ssh"),
    Command("keep_baseline", "&Keep as baseline", "&Compare", "keep_baseline", "baseline", ("Ctrl+B",),
            _planned, "Compare whatever is planned from now on with this plan"),
    Command("compare_with", "Compare &with…", "&Compare", "compare_with", "compare", ("Ctrl+Shift+B",),
            _planned, "Compare with a saved report, or with another model planned in this scenario"),
    Command("compare_run", "Compare with its &run", "&Compare", "compare_run", "replay", ("Ctrl+Alt+B",),
            _measured, "Compare what was planned with what the run took at its peak"),
    Command("compare_as_it_is", "Compare with the file as it &is", "&Compare", "compare_as_it_is", "compare",
            (), _assumed, "Compare the plan of another export with that of the file as it is"),
    Command("clear_baseline", "&Forget the baseline", "&Compare", "clear_baseline", "close", (), always,
            "Compare with nothing any more"),
    Command("palette", "&Command palette…", "&View", "show_palette", "search", ("Ctrl+Shift+P",), always,
            "Find any command by a few letters"),
    Command("find", "&Find node", "&View", "find_node", "search", ("Ctrl+F",), always,
            "Search the node tree"),
    Command("neighbours", "Node's nei&ghbours", "&View", "show_neighbours", "tree", ("Ctrl+G",), always,
            "Draw who feeds the chosen node and who reads it"),
    Command("theme", "Light or &dark", "&View", "toggle_theme", "theme", ("Ctrl+T",), always,
            "Switch between the light and the dark theme", toolbar=True),
    Command("panels", "&Reset layout", "&View", "reset_layout", "panels", (), always,
            "Put every panel back where it was"),
    Command("fullscreen", "F&ull screen", "&View", "toggle_full_screen", "", ("F11",), always,
            "Fill the screen with the window"),
    Command("dismiss", "&Dismiss message", "&View", "dismiss", "close", ("Ctrl+.",), _failed,
            "Close the message about the last failure"),
    Command("shortcuts", "&Keyboard shortcuts", "&Help", "show_shortcuts", "help", ("Shift+F1",), always,
            "Every command with its keys"),
    Command("about", "&About VRAMScope", "&Help", "about", "help", ("F1",), always, "What this is"),
)  # fmt: skip


def key_text(shortcut: str) -> str:
    """A shortcut as the keyboard is labelled in the user's language."""
    return QKeySequence(shortcut).toString(QKeySequence.SequenceFormat.NativeText)


class CommandAction(QAction):
    """A command as an action; it calls one bound method, so nothing leaks."""

    def __init__(self, command: Command, target: Callable[[], object], parent: QObject) -> None:
        super().__init__(tr(command.title), parent)
        self.command = command
        self._target = target
        self.setObjectName(command.id)
        self.setCheckable(command.checked is not None)
        self.setShortcuts([QKeySequence(text) for text in command.shortcuts])
        hint = f" ({key_text(command.shortcuts[0])})" if command.shortcuts else ""
        self.setToolTip(f"{tr(command.tip or command.title)}{hint}")
        self.setStatusTip(tr(command.tip))
        self.triggered.connect(self._run)

    def _run(self) -> None:
        self._target()

    def set_look(self, look: Look) -> None:
        """The icon in another theme."""
        if self.command.icon:
            self.setIcon(look.icons.get(self.command.icon))


def make_actions(owner: QObject) -> dict[str, CommandAction]:
    """An action a command, each calling the owner's method of that name.

    Raises:
        AttributeError: the owner lacks a method.
    """
    return {item.id: CommandAction(item, getattr(owner, item.action), owner) for item in COMMANDS}


def update_actions(actions: Mapping[str, CommandAction], state: AppState) -> None:
    """Enables what the state allows, and ticks what is on."""
    for action in actions.values():
        action.setEnabled(action.command.enabled(state))
        if action.command.checked is not None:
            action.setChecked(action.command.checked(state))

"""The few questions that the window asks in dialogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QFileDialog, QInputDialog, QMessageBox, QVBoxLayout, QWidget

from vramscope.errors import InputError
from vramscope_app.commands import COMMANDS, key_text
from vramscope_app.panels.table import TablePanel
from vramscope_app.place import Place
from vramscope_app.rows.cells import Cell, Heading, Row
from vramscope_app.rows.palette import plain_title
from vramscope_app.rows.report import ENDING
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.model import Hello
    from vramscope_app.look import Look

EXPORTS = marked(
    "HTML report (*.html);;CSV table of nodes (*.csv);;Markdown summary (*.md)"
    ";;VRAMScope report (*.vramscope.json);;Netron attachment (*.netron.json)"
    ";;Model Explorer node data (*.explorer.json)"
)
SHORTCUT_HEADINGS = (
    Heading("Command", 28),
    Heading("Keys", 24),
    Heading("Menu", 11),
    Heading("What it does", 50),
)


def ask_place(parent: QWidget, now: Place, known: Sequence[str]) -> Place | None:
    """Where the engine shall run; None when the user thinks again."""
    box = QInputDialog(parent)
    box.setObjectName("place_dialog")
    box.setWindowTitle(tr("Engine on another machine"))
    box.setComboBoxEditable(True)
    box.setComboBoxItems([str(now), *(place for place in known if place != str(now))])
    box.setLabelText(
        tr(
            "A machine that ssh reaches without a password, and on which VRAMScope is installed:\n"
            "HOST, USER@HOST, or HOST:/path/to/vramscope. Empty is this machine."
        )
    )
    while box.exec() == QDialog.DialogCode.Accepted:
        try:
            return Place.parse(box.textValue())
        except InputError as error:
            box.setLabelText(f"{error.what}: {error.why}.\n{error.remedy}")
    return None


def ask_file(parent: QWidget, place: Place) -> str:
    """A .onnx file or a saved report; empty when the user thinks again."""
    return _ask_open(parent, tr("Open model or report"), place)


def ask_other(parent: QWidget, place: Place) -> str:
    """What to compare with; empty when the user thinks again."""
    return _ask_open(parent, tr("Compare with a model or a report"), place)


def _ask_there(parent: QWidget, title: str, place: Place, proposed: str = "") -> str:
    """A path on the engine's machine, whose files no dialog of this one shows."""
    label = tr("Path on {machine}:", machine=place.destination)
    path, accepted = QInputDialog.getText(parent, title, label, text=proposed)
    return path.strip() if accepted else ""


def _ask_open(parent: QWidget, title: str, place: Place) -> str:
    if place.remote:
        return _ask_there(parent, title, place)
    kinds = tr("Models and reports (*.onnx *.vramscope.json);;Every file (*)")
    path, _ = QFileDialog.getOpenFileName(parent, title, "", kinds)
    return path


def ask_folder(parent: QWidget, place: Place) -> str:
    """A model folder; empty when the user thinks again."""
    title = tr("Open model folder")
    return (
        _ask_there(parent, title, place) if place.remote else QFileDialog.getExistingDirectory(parent, title)
    )


def ask_export(parent: QWidget, place: Place) -> str:
    """Where the engine shall write the plan; the ending says the format."""
    title, name = tr("Export report"), "plan.html"
    return (
        _ask_there(parent, title, place, name)
        if place.remote
        else _ask_save(parent, title, name, tr(EXPORTS))
    )


def ask_save(parent: QWidget, name: str, place: Place) -> str:
    """Where the engine shall save a report."""
    title, proposed = tr("Save report"), f"{name}{ENDING}"
    if place.remote:
        return _ask_there(parent, title, place, proposed)
    return _ask_save(parent, title, proposed, tr("VRAMScope report (*{ending})", ending=ENDING))


def ask_trace(parent: QWidget, name: str, place: Place) -> str:
    """Where the engine shall save a trace."""
    title, proposed = tr("Save trace"), f"{name}.json"
    if place.remote:
        return _ask_there(parent, title, place, proposed)
    return _ask_save(parent, title, proposed, tr("Trace for Perfetto (*.json)"))


def ask_picture(parent: QWidget, name: str) -> str:
    """Where to save a picture; the ending says the format."""
    return _ask_save(parent, tr("Save panel"), f"{name}.png", tr("PNG picture (*.png);;SVG drawing (*.svg)"))


def ask_table(parent: QWidget, name: str) -> str:
    """Where to save a table."""
    return _ask_save(parent, tr("Save table"), f"{name}.csv", tr("CSV table (*.csv)"))


def ask_drawing(parent: QWidget, name: str) -> str:
    """Where to save a drawing of a graph."""
    return _ask_save(parent, tr("Save graph"), f"{name}.dot", tr("Graphviz drawing (*.dot)"))


def _ask_save(parent: QWidget, title: str, proposed: str, kinds: str) -> str:
    """A path, with the ending of the chosen kind where it has none; empty when the user thinks again."""
    path, kind = QFileDialog.getSaveFileName(parent, title, proposed, kinds)
    if path and "." not in path.rsplit("/", 1)[-1]:
        path += kind[kind.index("*") + 1 : kind.index(")")]
    return path


def show_shortcuts(parent: QWidget, look: Look) -> QDialog:
    """Every command with its keys, in a window of its own that does not block."""
    dialog = QDialog(parent)
    dialog.setObjectName("shortcuts_dialog")
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(tr("Keyboard shortcuts"))
    table = TablePanel("shortcuts", tr("Keyboard shortcuts"), SHORTCUT_HEADINGS, look)
    table.set_rows(shortcut_rows())
    layout = QVBoxLayout(dialog)
    layout.addWidget(table)
    dialog.resize(880, 560)
    dialog.show()
    return dialog


def shortcut_rows() -> list[Row]:
    """One row a command."""
    return [
        Row(
            command.id,
            (
                Cell(plain_title(command)),
                Cell(tr("  or  ").join(map(key_text, command.shortcuts))),
                Cell(tr(command.menu).replace("&", "")),
                Cell(tr(command.tip), tr(command.tip), "muted"),
            ),
        )
        for command in COMMANDS
    ]


def show_about(parent: QWidget, hello: Hello | None) -> None:
    """What this is, and which engine answers."""
    devices = ""
    if hello is not None:
        lines = (f"{item.name}: {item.detail}" for item in hello.devices)
        devices = tr(
            "<p>Engine {engine_version}, Python {python}<br>{devices}</p>",
            engine_version=hello.engine_version,
            python=hello.python,
            devices="<br>".join(lines),
        )
    QMessageBox.about(
        parent,
        tr("About VRAMScope"),
        tr(
            "<h3>VRAMScope</h3><p>Does this ONNX model fit this GPU, what fills it, and what happens when "
            "its decode step is captured and replayed.</p>{devices}",
            devices=devices,
        ),
    )

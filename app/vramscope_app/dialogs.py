"""The few questions that the window asks in dialogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

if TYPE_CHECKING:
    from vramscope.messages.model import Hello


def ask_file(parent: QWidget) -> str:
    """A .onnx file; empty when the user thinks again."""
    path, _ = QFileDialog.getOpenFileName(parent, "Open model", "", "ONNX models (*.onnx);;Every file (*)")
    return path


def ask_folder(parent: QWidget) -> str:
    """A model folder; empty when the user thinks again."""
    return QFileDialog.getExistingDirectory(parent, "Open model folder")


def ask_export(parent: QWidget) -> str:
    """Where to write the plan; the ending says the format."""
    kinds = "HTML report (*.html);;CSV table (*.csv);;JSON (*.json)"
    path, kind = QFileDialog.getSaveFileName(parent, "Export report", "plan.html", kinds)
    if path and "." not in path.rsplit("/", 1)[-1]:
        path += kind[kind.index("*") + 1 : kind.index(")")]
    return path


def show_about(parent: QWidget, hello: Hello | None) -> None:
    """What this is, and which engine answers."""
    devices = ""
    if hello is not None:
        lines = (f"{item.name}: {item.detail}" for item in hello.devices)
        devices = f"<p>Engine {hello.engine_version}, Python {hello.python}<br>{'<br>'.join(lines)}</p>"
    QMessageBox.about(
        parent,
        "About VRAMScope",
        "<h3>VRAMScope</h3><p>Does this ONNX model fit this GPU, what fills it, and what happens when its "
        f"decode step is captured and replayed.</p>{devices}",
    )

"""The commands that take something out: a panel as a picture, its table, the verdict as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDockWidget, QMainWindow

from vramscope.report.markdown import summary
from vramscope.report.markdown import table as markdown_table
from vramscope_app.dialogs import ask_drawing, ask_picture, ask_table
from vramscope_app.exporting import has_chart, headings, save_png, save_svg, table_rows
from vramscope_app.rows.export import csv_table
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from vramscope_app.controller import Controller
    from vramscope_app.exporting import Exporter
    from vramscope_app.panels.overview import Overview

SHOWN_MILLISECONDS = 6000


class ExportCommands(QMainWindow):
    """What is saved or copied; the status bar says what became of it."""

    controller: Controller
    exporter: Exporter
    overview: Overview

    def _say(self, text: str) -> None:
        self.statusBar().showMessage(text, SHOWN_MILLISECONDS)

    def _tell_written(self, path: str) -> None:
        """The engine has written a file."""
        self._say(tr("Saved {path}", path=path))

    def _in_use(self) -> tuple[QWidget, str]:
        """The panel in use without the frame of its dock, and its name."""
        panel = self.exporter.panel
        if isinstance(panel, QDockWidget):
            return panel.widget(), panel.windowTitle()
        return panel, tr("Nodes")

    def _proposed(self, title: str) -> str:
        model = self.controller.state.model
        name = "-".join(title.lower().split("(")[0].split())
        return f"{model.name}-{name}" if model is not None else name

    def save_picture(self) -> None:
        """Asks where to save the panel in use."""
        panel, title = self._in_use()
        if not isinstance(self.exporter.panel, QDockWidget):
            panel, title = self.overview, tr("Overview")
        if not has_chart(panel):
            self._say(tr("{title} shows no chart to save: click into a panel that does", title=title))
            return
        path = ask_picture(self, self._proposed(title))
        if path:
            save = save_svg if path.lower().endswith(".svg") else save_png
            self._say(
                tr("Saved {path}", path=path)
                if save(panel, path)
                else tr("{path} cannot be written", path=path)
            )

    def save_table(self) -> None:
        """Asks where to save the table of the panel in use."""
        _, title = self._in_use()
        view = self.exporter.table
        if view is None:
            self._say(tr("{title} shows no table to save: click into a panel that does", title=title))
            return
        path = ask_table(self, self._proposed(title))
        if path:
            self._write(path, csv_table(headings(view), table_rows(view)))

    def _write(self, path: str, text: str) -> None:
        try:
            Path(path).write_text(text, "utf-8", newline="")
        except OSError as error:
            self._say(
                tr(
                    "{path} cannot be written: {strerror}",
                    path=path,
                    strerror=error.strerror or type(error).__name__,
                )
            )
        else:
            self._say(tr("Saved {path}", path=path))

    def _drawing(self) -> str:
        capture = self.controller.state.capture
        return "\n".join(capture.dots) if capture is not None else ""

    def _lacks_drawing(self) -> bool:
        """Whether the device drew no graph, which is then told."""
        lacking = not self._drawing()
        if lacking:
            self._say(tr("The capture's device draws no graph: CUDA does"))
        return lacking

    def save_graph(self) -> None:
        """Asks where to save the captured graphs as the device drew them."""
        if self._lacks_drawing():
            return
        path = ask_drawing(self, self._proposed("graph"))
        if path:
            self._write(path, self._drawing())

    def copy_graph(self) -> None:
        """Copies the captured graphs as the device drew them."""
        if self._lacks_drawing():
            return
        QGuiApplication.clipboard().setText(self._drawing())
        self._say(tr("Copied the device's graph as dot"))

    def copy_table(self) -> None:
        """Copies the table of the panel in use."""
        _, title = self._in_use()
        view = self.exporter.table
        if view is None:
            self._say(tr("{title} shows no table to copy: click into a panel that does", title=title))
            return
        rows = [[text for text, _ in row] for row in table_rows(view)]
        QGuiApplication.clipboard().setText(markdown_table(headings(view), rows) + "\n")
        self._say(tr("Copied {rows:,} rows of {title} as Markdown", rows=len(rows), title=title))

    def copy_summary(self) -> None:
        """Copies the verdict with its components and suggestions."""
        state = self.controller.state
        if state.model is not None and state.plan is not None:
            QGuiApplication.clipboard().setText(summary(state.model, state.plan))
            self._say(tr("Copied the verdict as Markdown"))

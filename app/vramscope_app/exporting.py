"""Pictures of panels with a chart, tables as CSV or Markdown: by a right click, or of the panel in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QAction, QContextMenuEvent, QImage, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QDockWidget,
    QGraphicsView,
    QMenu,
    QTreeView,
    QWidget,
)

from vramscope_app.rows.export import is_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from PySide6.QtCore import QAbstractItemModel

OURS = "vramscope_app."
SCALE = 2
"""Pixels of a picture for each pixel of the screen."""
Cells = list[tuple[str, str]]
"""One row: the text of each cell, and its tip."""


def is_chart(widget: QWidget) -> bool:
    """A plot, or a part of ours that paints itself."""
    kind = type(widget)
    own = kind.__module__.startswith(OURS) and "paintEvent" in vars(kind)
    return (own or isinstance(widget, QGraphicsView)) and widget.isVisibleTo(widget.window())


def has_chart(panel: QWidget) -> bool:
    """Whether a panel shows a chart now."""
    return any(is_chart(widget) for widget in [panel, *panel.findChildren(QWidget)])


def table_in(panel: QWidget, inside: QWidget | None = None) -> QAbstractItemView | None:
    """The table around a widget, else the largest that the panel shows; None without any."""
    while inside is not None and panel.isAncestorOf(inside):
        if isinstance(inside, QAbstractItemView):
            return inside
        inside = inside.parentWidget()
    found = [view for view in panel.findChildren(QAbstractItemView) if view.isVisibleTo(panel)]
    return max(found, key=lambda view: view.width() * view.height(), default=None)


def save_png(panel: QWidget, path: str) -> bool:
    """The panel at twice the screen's resolution; False when the file cannot be written."""
    image = QImage(panel.size() * SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SCALE)
    image.fill(panel.palette().window().color())
    panel.render(image)
    return image.save(path)


def save_svg(panel: QWidget, path: str) -> bool:
    """The panel as lines and text, in the size of the screen; False when the file cannot be written."""
    drawing = QSvgGenerator()
    drawing.setFileName(path)
    drawing.setSize(panel.size())
    drawing.setViewBox(QRect(QPoint(0, 0), panel.size()))
    drawing.setResolution(panel.logicalDpiX())
    drawing.setTitle(panel.window().windowTitle())
    painter = QPainter()
    if not painter.begin(drawing):
        return False
    painter.fillRect(panel.rect(), panel.palette().window())
    panel.render(painter, QPoint(0, 0))
    return painter.end()


def headings(view: QAbstractItemView) -> list[str]:
    """The titles of the columns that are shown."""
    model = view.model()
    return [str(model.headerData(column, Qt.Orientation.Horizontal) or "") for column in _columns(view)]


def _columns(view: QAbstractItemView) -> list[int]:
    hidden = getattr(view, "isColumnHidden", None)
    return [column for column in range(view.model().columnCount()) if hidden is None or not hidden(column)]


def table_rows(view: QAbstractItemView) -> Iterator[Cells]:
    """Every row of a table, or of a tree with the names of what it stands below in front of its own."""
    columns = _columns(view)
    if not isinstance(view, QTreeView):
        model = view.model()
        yield from (_cells(model, row, columns, QModelIndex()) for row in range(model.rowCount()))
        return
    yield from _branch(view.model(), columns, QModelIndex(), "")


def _branch(model: QAbstractItemModel, columns: list[int], parent: QModelIndex, path: str) -> Iterator[Cells]:
    for row in range(model.rowCount(parent)):
        cells = _cells(model, row, columns, parent)
        name = f"{path}/{cells[0][0]}" if path else cells[0][0]
        yield [(name, ""), *cells[1:]]
        yield from _branch(model, columns, model.index(row, 0, parent), name)


def _cells(model: QAbstractItemModel, row: int, columns: Iterable[int], parent: QModelIndex) -> Cells:
    """Texts, and tips where the text may be short of bytes: asking for every tip would take long."""
    found = []
    for column in columns:
        index = model.index(row, column, parent)
        text = str(index.data() or "")
        short = text.endswith(("B", "%")) or is_nothing(text)
        tip = index.data(Qt.ItemDataRole.ToolTipRole) if short else ""
        found.append((text, str(tip or "")))
    return found


class Exporter(QObject):
    """Knows which panel is in use, and offers what can be done with a panel under the mouse."""

    def __init__(self, panels: Sequence[QWidget], actions: Mapping[str, QAction], parent: QWidget) -> None:
        """``panels``: docks and the middle of the window; ``actions``: the commands to offer, by id."""
        super().__init__(parent)
        self._panels = tuple(panels)
        self._actions = actions
        self.panel = self._panels[0]
        self.inside: QWidget | None = None
        for panel in self._panels:
            panel.installEventFilter(self)
            if isinstance(panel, QDockWidget):
                panel.visibilityChanged.connect(self._raised)
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.focusChanged.connect(self._focus)

    def _raised(self, shown: bool) -> None:
        """A tab that comes to the front is in use."""
        dock = self.sender()
        if shown and isinstance(dock, QDockWidget):
            self.panel, self.inside = dock, None

    def _focus(self, _old: QWidget | None, new: QWidget | None) -> None:
        self._at(new)

    def _at(self, widget: QWidget | None) -> None:
        above = widget
        while above is not None and above not in self._panels:
            above = above.parentWidget()
        if above is not None:
            self.panel, self.inside = above, widget

    @property
    def table(self) -> QAbstractItemView | None:
        """The table of the panel in use."""
        return table_in(self.panel, self.inside)

    def offered(self) -> list[QAction]:
        """What can be done with the panel in use."""
        names = ["save_picture"] if has_chart(self.panel) else []
        names += ["save_table", "copy_table"] if self.table is not None else []
        return [self._actions[name] for name in names]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """A right click that no part of a panel took for itself."""
        if event.type() is not QEvent.Type.ContextMenu or not isinstance(event, QContextMenuEvent):
            return False
        if not isinstance(watched, QWidget):
            return False
        self._at(watched.childAt(watched.mapFromGlobal(event.globalPos())) or watched)
        offered = self.offered()
        if not offered:
            return False
        menu = QMenu(watched)
        menu.setObjectName("export_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions(offered)
        menu.popup(event.globalPos())
        return True

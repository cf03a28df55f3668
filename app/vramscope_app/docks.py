"""Where every panel stands: docks as data, and how they are put around the tree."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QMargins, QObject, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QDockWidget, QFrame, QScrollArea, QTabBar, QVBoxLayout, QWidget

from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtWidgets import QMainWindow

RIGHT = Qt.DockWidgetArea.RightDockWidgetArea
BOTTOM = Qt.DockWidgetArea.BottomDockWidgetArea
MARGINS = {RIGHT: QMargins(2, 0, 6, 4), BOTTOM: QMargins(8, 0, 3, 2)}
RIGHT_WIDTH = 446
BOTTOM_HEIGHT = 265
SCROLLED_HEIGHT = 120
LOW, FLAT = 700, 130
"""A window below this height begins with bottom docks of that one, or of their least."""


@dataclass(frozen=True, slots=True)
class DockPlace:
    """One panel's dock."""

    id: str
    title: str
    area: Qt.DockWidgetArea
    scrolls: bool = False


DOCKS = (
    DockPlace("run", "Run", RIGHT, scrolls=True),
    DockPlace("live", "Live", RIGHT),
    DockPlace("axes", "Axes", BOTTOM),
    DockPlace("headroom", "Headroom", BOTTOM),
    DockPlace("inspector", "Node", BOTTOM),
    DockPlace("graph", "Neighbours", BOTTOM),
    DockPlace("arena", "Memory map", BOTTOM),
    DockPlace("icicle", "Scopes", BOTTOM),
    DockPlace("compare", "Compare", BOTTOM),
    DockPlace("problems", "Problems", BOTTOM),
    DockPlace("capture", "Capture", BOTTOM),
    DockPlace("counters", "Allocations", BOTTOM),
    DockPlace("events", "Events", BOTTOM),
    DockPlace("log", "Log", BOTTOM),
)


def make_docks(window: QMainWindow, panels: Mapping[str, QWidget]) -> dict[str, QDockWidget]:
    """Wraps every panel into a dock that can be moved, floated and closed."""
    docks = {}
    for place in DOCKS:
        dock = QDockWidget(tr(place.title), window)
        dock.setObjectName(f"dock_{place.id}")
        dock.setWidget(_padded(panels[place.id], place))
        docks[place.id] = dock
    return docks


def _scrolling(panel: QWidget) -> QScrollArea:
    """A panel that can be less high than it wants: a small window cuts nothing."""
    area = QScrollArea()
    area.setWidget(panel)
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setMinimumWidth(panel.minimumSizeHint().width() + area.verticalScrollBar().sizeHint().width())
    area.setMinimumHeight(SCROLLED_HEIGHT)
    return area


def _padded(panel: QWidget, place: DockPlace) -> QWidget:
    """A panel with room around it, so that it lines up with the middle of the window."""
    box = QWidget()
    layout = QVBoxLayout(box)
    layout.setContentsMargins(MARGINS[place.area])
    layout.addWidget(_scrolling(panel) if place.scrolls else panel)
    return box


def arrange(window: QMainWindow, docks: Mapping[str, QDockWidget]) -> None:
    """The first layout: run above live memory at the right, the tables as tabs at the bottom."""
    window.setCorner(Qt.Corner.BottomRightCorner, RIGHT)
    for place in DOCKS:
        dock = docks[place.id]
        dock.setFloating(False)
        dock.setVisible(True)
        window.addDockWidget(place.area, dock)
    bottom = [docks[place.id] for place in DOCKS if place.area is BOTTOM]
    for first, second in itertools.pairwise(bottom):
        window.tabifyDockWidget(first, second)
    bottom[0].raise_()
    for bar in window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly):
        bar.setElideMode(Qt.TextElideMode.ElideNone)
        bar.setUsesScrollButtons(True)
    window.resizeDocks([docks["run"]], [RIGHT_WIDTH], Qt.Orientation.Horizontal)
    window.resizeDocks([docks["run"], docks["live"]], [410, 300], Qt.Orientation.Vertical)
    window.resizeDocks([bottom[0]], [BOTTOM_HEIGHT], Qt.Orientation.Vertical)


class Flattener(QObject):
    """Makes the docks at the bottom low once the window becomes low: the tree of nodes needs the room."""

    def __init__(self, window: QMainWindow, docks: Mapping[str, QDockWidget]) -> None:
        super().__init__(window)
        self._window, self._docks = window, docks
        window.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Not while it stays low: the user may have moved the border."""
        if isinstance(event, QResizeEvent):
            was_low = 0 <= event.oldSize().height() < LOW
            if event.size().height() < LOW and not was_low:
                QTimer.singleShot(0, self._flatten)
        return False

    def _flatten(self) -> None:
        bottom = (self._docks[place.id] for place in DOCKS if place.area is BOTTOM)
        first = [dock for dock in bottom if not dock.isFloating()][:1]
        self._window.resizeDocks(first, [FLAT] * len(first), Qt.Orientation.Vertical)

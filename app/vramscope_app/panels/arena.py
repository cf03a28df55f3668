"""The memory map: an arena's blocks over the steps, drawn as rectangles in a few calls; hover and click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyqtgraph as pg
from pyqtgraph.Qt.internals import PrimitiveArray
from PySide6.QtCore import QPointF, QRectF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QComboBox, QWidget

from vramscope_app.panels.elided import ElidedLabel
from vramscope_app.panels.headed import lay_out
from vramscope_app.panels.headroom import token_ticks
from vramscope_app.panels.ticks import AXIS_WIDTH, byte_spacing, byte_ticks
from vramscope_app.rows.arena import COLOURS, Arena, arena_of
from vramscope_app.rows.nodes import UNKNOWN
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope_app.look import Look
    from vramscope_app.rows.nodes import NodeTable

HINT = marked("Move over a block to see its value; click to show its node; wheel and drag to look closer")
PARTED = 2000
"""More blocks have no hairlines between them: they would hide what is thinner than a pixel."""
HAIRLINE_ALPHA = 170
EMPTY = marked("The blocks of the activation arena appear here once the model is planned")
BARE = marked("No value of this phase needs memory in the arena")
REFUSED = marked("No map: where values lie is known once every axis has a maximum")


class BlockItem(pg.GraphicsObject):  # type: ignore[misc]  # pyqtgraph carries no types
    """All blocks of one arena: one call of drawRects a colour, whatever their number."""

    def __init__(self) -> None:
        super().__init__()
        self._batches: list[tuple[QColor, Any]] = []
        self._area = QRectF()
        self._pen = pg.mkPen(None)

    def set_blocks(self, arena: Arena, ground: str) -> None:
        """Shows other blocks; where they are few, hairlines of the ``ground``'s colour part them."""
        hairline = QColor(ground)
        hairline.setAlpha(HAIRLINE_ALPHA)
        self._pen = pg.mkPen(hairline, width=1) if len(arena.sizes) <= PARTED else pg.mkPen(None)
        self.prepareGeometryChange()
        self._batches = []
        self._area = QRectF(0, 0, arena.steps, arena.bytes)
        for place, colour in enumerate(COLOURS):
            rectangles = arena.rectangles(place)
            if len(rectangles):
                batch = PrimitiveArray(QRectF, 4)
                batch.resize(len(rectangles))
                batch.ndarray()[:] = rectangles
                self._batches.append((QColor(colour), batch))
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        """Every step and every byte."""
        return self._area

    def paint(self, painter: QPainter, *_: object) -> None:
        """Fills the rectangles, colour by colour."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        for colour, batch in self._batches:
            painter.setPen(self._pen)
            painter.setBrush(colour)
            painter.drawRects(*batch.drawargs())


class ArenaPanel(QWidget):
    """One phase's arena."""

    jump = Signal(str)
    """The node whose block was clicked."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._tables: Mapping[str, NodeTable] = {}
        self._nodes: Mapping[str, NodeTable] = {}
        self.arena: Arena | None = None
        self.plot, self.phase, self.words = pg.PlotWidget(), QComboBox(), ElidedLabel(tr(EMPTY))
        self._item = BlockItem()
        self._peak = pg.InfiniteLine(angle=90)
        self._build()
        self.set_look(look)
        self.phase.currentTextChanged.connect(self._show)
        self.plot.scene().sigMouseMoved.connect(self._moved)
        self.plot.scene().sigMouseClicked.connect(self._clicked)

    def _build(self) -> None:
        self.phase.setObjectName("arena_phase")
        self.phase.setAccessibleName(tr("Phase of the memory map"))
        self.phase.setVisible(False)
        self.words.setObjectName("arena_words")
        for part in (self.words, self.plot):
            part.setToolTip(tr(HINT))
        lay_out(self, self.words, self.phase, self.plot)
        item = self.plot.getPlotItem()
        item.hideButtons()
        item.setMenuEnabled(False)
        for side, ticks in (("left", byte_ticks), ("bottom", token_ticks)):
            item.getAxis(side).enableAutoSIPrefix(enable=False)
            item.getAxis(side).tickStrings = ticks
        item.getAxis("left").setWidth(AXIS_WIDTH)
        item.getAxis("left").tickSpacing = byte_spacing
        self.plot.setAccessibleName(tr("Memory map of the activation arena"))
        self.plot.addItem(self._item)
        self.plot.addItem(self._peak, ignoreBounds=True)
        self.plot.hide()

    def set_tables(self, arenas: Mapping[str, NodeTable], nodes: Mapping[str, NodeTable]) -> None:
        """Shows another plan's arenas, by phase, in the phase that is chosen."""
        self._tables, self._nodes = arenas, nodes
        found = [phase for phase in arenas if phase in nodes]
        chosen = self.phase.currentText()
        with QSignalBlocker(self.phase):
            self.phase.clear()
            self.phase.addItems(found)
            self.phase.setCurrentText(chosen if chosen in found else found[0] if found else "")
        self.phase.setVisible(len(found) > 1)
        self._show(self.phase.currentText())

    def _show(self, phase: str) -> None:
        table = self._tables.get(phase)
        shown = table is not None and table.rows > 0
        self.arena = arena_of(table, self._nodes[phase]) if table is not None and shown else None
        self.plot.setVisible(shown)
        self._draw()

    def _draw(self) -> None:
        arena = self.arena
        self.words.setText(arena.summary if arena is not None else tr(self._nothing()))
        if arena is None:
            return
        self._item.set_blocks(arena, self._look.theme.base)
        self._peak.setValue(arena.peak_step + 0.5)
        box = self.plot.getViewBox()
        box.setLimits(xMin=arena.begin, xMax=arena.steps, yMin=0, yMax=arena.bytes * 1.02)
        box.setRange(xRange=(arena.begin, arena.steps), yRange=(0, arena.bytes), padding=0)
        self.plot.setAccessibleDescription(arena.summary)

    def _nothing(self) -> str:
        """Why there is no map."""
        nodes = self._nodes.get(self.phase.currentText())
        if nodes is None:
            return EMPTY
        return REFUSED if (nodes.integers("live_bytes") == UNKNOWN).any() else BARE

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        theme = look.theme
        self.plot.setBackground(theme.base)
        for side in ("left", "bottom"):
            axis = self.plot.getAxis(side)
            axis.setPen(QColor(theme.border))
            axis.setTextPen(QColor(theme.muted))
        self.plot.getAxis("bottom").setLabel(tr("step"), color=theme.muted)
        self._peak.setPen(pg.mkPen(theme.text, width=1, style=Qt.PenStyle.DashLine))
        self._draw()

    def block_at(self, place: QPointF) -> int:
        """The block at a place of the plot in steps and bytes; −1 for none."""
        return -1 if self.arena is None else self.arena.at(place.x(), place.y())

    def _moved(self, place: QPointF) -> None:
        arena, block = self.arena, self.block_at(self.plot.getViewBox().mapSceneToView(place))
        if arena is not None:
            self.words.setText(arena.text(block) if block >= 0 else arena.summary)

    def _clicked(self, event: Any) -> None:  # noqa: ANN401 - pyqtgraph carries no types
        if event.button() == Qt.MouseButton.LeftButton:
            self.choose_at(self.plot.getViewBox().mapSceneToView(event.scenePos()))

    def choose_at(self, place: QPointF) -> None:
        """A click at a place of the plot."""
        block = self.block_at(place)
        if self.arena is not None and block >= 0 and self.arena.nodes[block]:
            self.jump.emit(self.arena.nodes[block])

"""The chosen node's neighbourhood in layers: pan with the mouse, zoom with the wheel, click to go on."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QPainter, QPainterPath, QPen, QWheelEvent
from PySide6.QtWidgets import (
    QFrame,
    QGraphicsItem,
    QGraphicsPathItem,
    QGraphicsScene,
    QGraphicsView,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from vramscope_app.rows.graph_layout import HEIGHT, WIDTH, Box, Picture, Wire, arrange
from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from PySide6.QtGui import QMouseEvent
    from PySide6.QtWidgets import QStyleOptionGraphicsItem

    from vramscope.messages.neighbours import NeighboursInfo
    from vramscope_app.look import Look

EMPTY = marked("Choose a node in the tree to see who feeds it and who reads it")
FIRST_HOPS, MOST_HOPS = 2, 6
ZOOM = 1.18
SMALLEST, LARGEST = 0.08, 3.0
READABLE = 0.7
"""A larger picture is not shrunk below this: it starts at the chosen node instead."""
ARROWS = {
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Down: (0, 1),
    Qt.Key.Key_Up: (0, -1),
}


class BoxItem(QGraphicsItem):
    """One node: its operator and the end of its name."""

    def __init__(self, box: Box, look: Look, *, chosen: bool) -> None:
        super().__init__()
        self.box = box
        self._look, self._chosen = look, chosen
        self.current = chosen
        self.setPos(box.x, box.y)
        self.setToolTip(box_tip(box))
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        """The box with its border."""
        return QRectF(-WIDTH / 2 - 2, -HEIGHT / 2 - 2, WIDTH + 4, HEIGHT + 4)

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _on: QWidget | None = None) -> None:
        """Fills the box and writes into it."""
        theme, node = self._look.theme, self.box.node
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        tone = {"reference": theme.warning, "none": theme.bad}.get(node.kernel, theme.border)
        edge = theme.accent if self._chosen or self.current else tone
        painter.setPen(QPen(QColor(edge), 2 if self._chosen or self.current else 1))
        painter.setBrush(QColor(theme.selection if self._chosen else theme.raised))
        painter.drawRoundedRect(QRectF(-WIDTH / 2, -HEIGHT / 2, WIDTH, HEIGHT), 4, 4)
        inside = QRectF(-WIDTH / 2 + 7, -HEIGHT / 2 + 3, WIDTH - 14, HEIGHT / 2 - 3)
        size = "unknown" if node.bytes < 0 else short_bytes(node.bytes)
        metrics = QFontMetricsF(painter.font())
        painter.setPen(QColor(theme.muted if not self._chosen else theme.selection_text))
        painter.drawText(inside, int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter), size)
        room = inside.width() - metrics.horizontalAdvance(size) - 6
        painter.drawText(
            inside.translated(0, HEIGHT / 2 - 3),
            int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter),
            metrics.elidedText(node.name, Qt.TextElideMode.ElideLeft, inside.width()),
        )
        painter.setPen(QColor(theme.text if not self._chosen else theme.selection_text))
        painter.drawText(
            inside,
            int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter),
            metrics.elidedText(node.operator, Qt.TextElideMode.ElideRight, room),
        )


def box_tip(box: Box) -> str:
    """A node in full."""
    node = box.node
    size = exact_bytes(None if node.bytes < 0 else node.bytes)
    return tr(
        "{name}\n{operator}, step {step}, kernel: {kernel}\noutputs: {size}",
        name=node.name,
        operator=node.operator,
        step=node.step,
        kernel=node.kernel,
        size=size,
    )


def wire_item(wire: Wire, look: Look) -> QGraphicsPathItem:
    """A value as a line that bends from layer to layer."""
    points = [QPointF(*point) for point in wire.points]
    path = QPainterPath(points[0])
    for before, after in pairwise(points):
        middle = (before.x() + after.x()) / 2
        path.cubicTo(QPointF(middle, before.y()), QPointF(middle, after.y()), after)
    item = QGraphicsPathItem(path)
    item.setPen(QPen(QColor(look.theme.muted), 1))
    item.setToolTip(f"{wire.link.value}\n{wire.link.shape}")
    item.setZValue(-1)
    return item


class GraphView(QGraphicsView):
    """Pans, zooms, and says which box is meant."""

    chosen = Signal(str)
    """A node was clicked, or Enter was pressed on it."""

    def __init__(self, scene: QGraphicsScene) -> None:
        super().__init__(scene)
        self.picture = Picture()
        self.current = -1
        self.setObjectName("graph_view")
        self.setAccessibleName(tr("Neighbourhood of the chosen node"))
        self.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.AnchorUnderMouse)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def zoom(self, factor: float) -> None:
        """Draws larger or smaller, within reason."""
        wanted = self.transform().m11() * factor
        if SMALLEST <= wanted <= LARGEST:
            self.scale(factor, factor)

    def fit(self) -> None:
        """Everything in view, but never larger than life."""
        area = self.scene().itemsBoundingRect().adjusted(-12, -12, 12, 12)
        self.setSceneRect(area)
        self.fitInView(area, Qt.AspectRatioMode.KeepAspectRatio)
        if self.transform().m11() > 1:
            self.resetTransform()
        if self.transform().m11() < READABLE:
            self.resetTransform()
            self.scale(READABLE, READABLE)
            box = self.picture.box(self.current)
            if box is not None:
                self.centerOn(box.x, box.y)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        """The wheel zooms."""
        self.zoom(ZOOM if event.angleDelta().y() > 0 else 1 / ZOOM)
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Arrows go from box to box, Enter chooses, plus, minus and 0 zoom."""
        key = Qt.Key(event.key())
        if key in ARROWS:
            self._go(self.picture.beside(self.current, *ARROWS[key]))
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self.current)
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal, Qt.Key.Key_Minus):
            self.zoom(1 / ZOOM if key == Qt.Key.Key_Minus else ZOOM)
        elif key == Qt.Key.Key_0:
            self.fit()
        else:
            super().keyPressEvent(event)

    def _go(self, step: int) -> None:
        self.current = step
        for item in self.scene().items():
            if isinstance(item, BoxItem) and item.current != (item.box.node.step == step):
                item.current = not item.current
                item.update()
        box = self.picture.box(step)
        if box is not None:
            self.ensureVisible(QRectF(box.x - WIDTH / 2, box.y - HEIGHT / 2, WIDTH, HEIGHT), 20, 20)
            self.setAccessibleDescription(box_tip(box))

    def _choose(self, step: int) -> None:
        box = self.picture.box(step)
        if box is not None:
            self.chosen.emit(box.node.name)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """A double click goes to a node."""
        item = self.itemAt(event.position().toPoint())
        if isinstance(item, BoxItem):
            self._choose(item.box.node.step)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """A click marks a node; the hand drags the picture."""
        item = self.itemAt(event.position().toPoint())
        if isinstance(item, BoxItem):
            self._go(item.box.node.step)
        super().mousePressEvent(event)


class GraphPanel(QWidget):
    """The view with its hops; asks for the chosen node's neighbourhood while it can be seen."""

    wanted = Signal()
    """The neighbourhood of the chosen node is wanted."""
    jump = Signal(str)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.seen = False
        self._look = look
        self._info: NeighboursInfo | None = None
        self.scene = QGraphicsScene(self)
        self.view = GraphView(self.scene)
        self.hops, self.whole, self.words = QSpinBox(), QToolButton(), QLabel(tr(EMPTY))
        self._build()
        self.hops.valueChanged.connect(self.wanted)
        self.whole.clicked.connect(self.view.fit)
        self.view.chosen.connect(self.jump)
        self.set_look(look)

    def _build(self) -> None:
        self.words.setProperty("role", "muted")
        self.words.setObjectName("graph_words")
        self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        label = QLabel(tr("&Hops"))
        label.setProperty("role", "muted")
        label.setBuddy(self.hops)
        self.hops.setObjectName("graph_hops")
        self.hops.setAccessibleName(tr("Hops"))
        self.hops.setRange(1, MOST_HOPS)
        self.hops.setValue(FIRST_HOPS)
        self.hops.setToolTip(tr("How far from the chosen node"))
        self.whole.setText(tr("Fit"))
        self.whole.setObjectName("graph_fit")
        self.whole.setAccessibleName(tr("Show the whole neighbourhood"))
        self.whole.setToolTip(tr("Everything in view (0); the wheel or + and − zoom"))
        bar = QHBoxLayout()
        bar.setContentsMargins(6, 2, 0, 0)
        for widget in (self.words, label, self.hops, self.whole):
            bar.addWidget(widget, 1 if widget is self.words else 0)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(bar)
        layout.addWidget(self.view, 1)

    def set_neighbours(self, info: NeighboursInfo | None) -> None:
        """Draws another neighbourhood."""
        self._info = info
        self._draw()
        self.view.fit()

    def _draw(self) -> None:
        self.scene.clear()
        info = self._info
        self.view.picture = arrange(info) if info is not None else Picture()
        if info is None:
            self.words.setText(tr(EMPTY))
            return
        self.view.current = info.step
        for wire in self.view.picture.wires:
            self.scene.addItem(wire_item(wire, self._look))
        for box in self.view.picture.boxes:
            self.scene.addItem(BoxItem(box, self._look, chosen=box.node.step == info.step))
        more = (
            tr(", {nodes} left out", nodes=tr("{n:,} more node(s)", n=info.left_out)) if info.left_out else ""
        )
        here = self.view.picture.box(info.step)
        name = here.node.name if here is not None else ""
        self.words.setText(
            tr(
                "{name} · {nodes} in {phase}{more}",
                name=name,
                nodes=tr("{n:,} node(s)", n=len(info.nodes)),
                phase=info.phase,
                more=more,
            )
        )
        self.words.setToolTip(tr("Double-click a node, or press Enter on it, to choose it in the tree"))

    def set_seen(self, seen: bool) -> None:
        """Whether its tab is in front; seen again, perhaps another node was chosen meanwhile."""
        self.seen = seen
        self.wanted.emit()

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        self.scene.setBackgroundBrush(QColor(look.theme.base))
        self._draw()

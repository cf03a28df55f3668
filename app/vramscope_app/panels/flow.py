"""A layout that fills lines from the left and goes on in the next line where the room ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QMargins, QObject, QRect, QSize, Qt
from PySide6.QtWidgets import QFrame, QLayout, QLayoutItem, QScrollArea, QSizePolicy, QWidget

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent


LINE_SPACING = 4
SHARE, BARS_AND_DOCKS, LEAST = 0.57, 370, 120
"""How much of the window's height, without bars and docks, a scrolled part takes at most; never less."""
CHANGES = (QEvent.Type.Resize, QEvent.Type.LayoutRequest)


class FlowLayout(QLayout):
    """Items in lines; what expands shares a line's spare room, or every item is as wide as the widest."""

    def __init__(self, parent: QWidget, *, spacing: int = 6, columns: bool = False) -> None:
        """``columns``: all items equally wide, so that they stand below each other."""
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._columns = columns
        self.setSpacing(spacing)
        self.setContentsMargins(QMargins(0, 0, 0, 0))

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802 - Qt's name
        """Takes an item."""
        self._items.append(item)

    def insertWidget(self, place: int, widget: QWidget) -> None:  # noqa: N802 - as Qt's box layouts call it
        """Takes a widget in front of the item that is at ``place`` now."""
        self.addWidget(widget)
        self._items.insert(place, self._items.pop())
        self.invalidate()

    def count(self) -> int:
        """Items."""
        return len(self._items)

    def itemAt(self, place: int) -> QLayoutItem | None:  # noqa: N802 - Qt's name
        """One item; None beyond the last."""
        return self._items[place] if 0 <= place < len(self._items) else None

    def takeAt(self, place: int) -> QLayoutItem | None:  # noqa: N802 - Qt's name
        """Gives an item back."""
        return self._items.pop(place) if 0 <= place < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802 - Qt's name
        """Wants the width, and no more height than it needs."""
        return Qt.Orientation.Horizontal

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        """Fewer columns need more lines."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 - Qt's name
        """The height of all lines."""
        around = self.contentsMargins()
        inside = self._arrange(QRect(0, 0, width - around.left() - around.right(), 0), move=False)
        return inside + around.top() + around.bottom()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Everything in one line."""
        sizes = [self._wanted(item) for item in self._shown()]
        width = sum(size.width() + self.spacing() for size in sizes)
        height = max((size.height() for size in sizes), default=0)
        return QSize(max(width - self.spacing(), 0), height).grownBy(self.contentsMargins())

    def minimumSize(self) -> QSize:  # noqa: N802 - Qt's name
        """Room for the widest item."""
        sizes = [item.minimumSize() for item in self._shown()]
        return QSize(
            max((size.width() for size in sizes), default=0),
            max((size.height() for size in sizes), default=0),
        )

    def setGeometry(self, area: QRect) -> None:  # noqa: N802 - Qt's name
        """Puts every item into its place."""
        super().setGeometry(area)
        self._arrange(area.marginsRemoved(self.contentsMargins()), move=True)

    def _shown(self) -> list[QLayoutItem]:
        return [item for item in self._items if not item.isEmpty()]

    def _wanted(self, item: QLayoutItem) -> QSize:
        return item.sizeHint().expandedTo(item.minimumSize())

    def _arrange(self, area: QRect, *, move: bool) -> int:
        top = area.top()
        lines = self._grid(area.width()) if self._columns else self._lines(area.width())
        for line, widths in lines:
            height = max(self._wanted(item).height() for item in line)
            left = area.left()
            for item, width in zip(line, widths, strict=True):
                if move:
                    item.setGeometry(QRect(left, top, width, height))
                left += width + self.spacing()
            top += height + LINE_SPACING
        return max(top - area.top() - LINE_SPACING, 0)

    def _grid(self, width: int) -> list[tuple[list[QLayoutItem], list[int]]]:
        """Lines of equally many columns; two lines of three rather than one of five and one of one."""
        items = self._shown()
        if not items:
            return []
        widest = max(self._wanted(item).width() for item in items)
        most = min(max((width + self.spacing()) // (widest + self.spacing()), 1), len(items))
        columns = -(-len(items) // -(-len(items) // most))
        each = (width + self.spacing()) // columns - self.spacing()
        rows = [items[start : start + columns] for start in range(0, len(items), columns)]
        return [(row, [each] * len(row)) for row in rows]

    def _lines(self, width: int) -> list[tuple[list[QLayoutItem], list[int]]]:
        lines: list[list[QLayoutItem]] = []
        used = width + 1
        for item in self._shown():
            wanted = self._wanted(item).width()
            if used + wanted > width or not lines:
                lines.append([])
                used = 0
            lines[-1].append(item)
            used += wanted + self.spacing()
        return [(line, self._widths(line, width)) for line in lines]

    def _widths(self, line: list[QLayoutItem], width: int) -> list[int]:
        widths = [self._wanted(item).width() for item in line]
        spare = width - sum(widths) - self.spacing() * (len(line) - 1)
        growing = [place for place, item in enumerate(line) if _expands(item)]
        for place in growing:
            widths[place] += spare // len(growing)
        return [min(size, width) for size in widths]


def _expands(item: QLayoutItem) -> bool:
    widget = item.widget()
    return widget is not None and bool(
        widget.sizePolicy().horizontalPolicy().value & QSizePolicy.PolicyFlag.ExpandFlag.value
    )


class HeightKeeper(QObject):
    """Keeps a widget as high as its layout needs at its width.

    A main window asks its parts for a smallest size only, never for the height at a width: words that wrap
    would be cut.
    """

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._widget = widget
        widget.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """After another width or other contents: the height for them."""
        if event.type() in CHANGES:
            layout = self._widget.layout()
            if layout is not None:
                wanted = layout.totalHeightForWidth(self._widget.width())
                if wanted >= 0 and wanted != self._widget.minimumHeight():
                    self._widget.setMinimumHeight(wanted)
        return False


class Scrolled(QScrollArea):
    """A part as high as it needs to be, but never more than its share of the window: then it scrolls."""

    def __init__(self, part: QWidget) -> None:
        super().__init__()
        self._part = part
        HeightKeeper(part)
        self.setWidget(part)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        part.setAutoFillBackground(False)
        part.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """The part's new height is this one's."""
        if event.type() in CHANGES:
            self._fit()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """The window may have another height."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        needed = max(self._part.minimumHeight(), self._part.minimumSizeHint().height())
        most = round((self.window().height() - BARS_AND_DOCKS) * SHARE)
        self.setFixedHeight(min(needed, max(most, LEAST)))
        self.setMinimumWidth(self._part.minimumSizeHint().width())

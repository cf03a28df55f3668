"""The window's own line icons, drawn from SVG in the colour of the theme."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from vramscope.resources import folder

SIZES = (16, 20, 32)


def names() -> list[str]:
    """Every icon there is, sorted."""
    return sorted(path.stem for path in (folder() / "icons").glob("*.svg"))


def source(name: str) -> str:
    """The SVG text of one icon.

    Raises:
        FileNotFoundError: there is no such icon.
    """
    return (folder() / "icons" / f"{name}.svg").read_text(encoding="utf-8")


def pixmap(svg: str, colour: str, size: int, *, ratio: float = 1.0) -> QPixmap:
    """An icon as a picture of ``size`` × ``size`` logical pixels, its current colour replaced."""
    picture = QPixmap(round(size * ratio), round(size * ratio))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    renderer = QSvgRenderer(QByteArray(svg.replace("currentColor", colour).encode()))
    painter = QPainter(picture)
    renderer.render(painter, QRectF(0, 0, size, size))
    painter.end()
    return picture


class IconSet:
    """Icons in the colours of one theme, each drawn once."""

    def __init__(self, colour: str, disabled: str) -> None:
        self._colour = colour
        self._disabled = disabled
        self._icons: dict[tuple[str, str], QIcon] = {}

    def get(self, name: str, colour: str = "") -> QIcon:
        """One icon in the text colour, or in ``colour``; greyed out when disabled."""
        key = (name, colour or self._colour)
        if key not in self._icons:
            self._icons[key] = self._draw(*key)
        return self._icons[key]

    def picture(self, name: str, colour: str, size: int, ratio: float) -> QPixmap:
        """One icon for a label."""
        return pixmap(source(name), colour, size, ratio=ratio)

    def _draw(self, name: str, colour: str) -> QIcon:
        svg, made = source(name), QIcon()
        for size in SIZES:
            for ratio in (1.0, 2.0):
                made.addPixmap(pixmap(svg, colour, size, ratio=ratio))
            made.addPixmap(pixmap(svg, self._disabled, size), QIcon.Mode.Disabled)
        return made


def application_icon() -> QIcon:
    """The application's own icon."""
    made, svg = QIcon(), source("app")
    for size in (16, 32, 48, 64, 128, 256):
        made.addPixmap(pixmap(svg, "#000000", size))
    return made

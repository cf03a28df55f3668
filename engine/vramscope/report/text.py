"""Bytes, shares and rates as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.messages.planning import BytesFigure

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(size: int) -> str:
    """Bytes in the largest binary unit that keeps a digit before the point: ``1.50 GiB``, ``512 B``."""
    magnitude, unit = abs(size), 0
    while magnitude >= 1024 ** (unit + 1) and unit < len(_UNITS) - 1:
        unit += 1
    if unit == 0:
        return f"{size} B"
    return f"{size / 1024**unit:.2f} {_UNITS[unit]}"


def figure_text(figure: BytesFigure) -> str:
    """Bytes with ``≤`` in front of a ceiling; ``unknown`` when unknown, never 0."""
    if figure.bytes is None:
        return "unknown"
    return f"≤ {size_text(figure.bytes)}" if figure.certainty == "bound" else size_text(figure.bytes)


def rate_text(rate: float | None) -> str:
    """Tokens a second; a dash before anything ran."""
    return "–" if rate is None else f"{rate:,.1f} tok/s"


def range_text(low: int, high: int | None) -> str:
    """An interval of extents; one number when both ends agree."""
    if high is None:
        return f"{low} to ∞"
    return str(high) if low == high else f"{low} to {high}"

"""Bytes, shares and rates as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.units import format_bytes

if TYPE_CHECKING:
    from vramscope.messages.planning import BytesFigure


def figure_text(figure: BytesFigure) -> str:
    """Bytes with ``≤`` in front of a ceiling; ``unknown`` when unknown, never 0."""
    if figure.bytes is None:
        return "unknown"
    return f"≤ {format_bytes(figure.bytes)}" if figure.certainty == "bound" else format_bytes(figure.bytes)


def rate_text(rate: float | None) -> str:
    """Tokens a second; a dash before anything ran."""
    return "–" if rate is None else f"{rate:,.1f} tok/s"


def range_text(low: int, high: int | None) -> str:
    """An interval of extents; one number when both ends agree."""
    if high is None:
        return f"{low} to ∞"
    return str(high) if low == high else f"{low} to {high}"

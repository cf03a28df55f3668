"""Ticks of chart axes: bytes in binary units, whole counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vramscope_app.text import short_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

AXIS_WIDTH = 76


def byte_ticks(values: Sequence[float], _scale: float, _spacing: float) -> list[str]:
    """Tick texts of an axis of bytes; the 0 at its end would be cut off."""
    return [short_bytes(round(value)) if value else "" for value in values]


def byte_spacing(low: float, high: float, size: float) -> list[tuple[float, float]]:
    """Tick distances that are powers of two, a tick about every 34 pixels."""
    wanted = max((high - low) / max(size / 34, 1), 1.0)
    return [(float(2 ** math.ceil(math.log2(wanted))), 0.0)]


def count_ticks(values: Sequence[float], _scale: float, _spacing: float) -> list[str]:
    """Tick texts of an axis of counts: whole numbers only."""
    return [f"{value:,.0f}" if abs(value - round(value)) < 1e-9 else "" for value in values]


def plain_spacing(low: float, high: float, size: float) -> list[tuple[float, float]]:
    """Tick distances of 1, 2 or 5 times a power of ten, a tick about every 14 pixels."""
    wanted = max((high - low) / max(size / 14, 1), 1e-12)
    power = 10.0 ** math.floor(math.log10(wanted))
    return [(next(power * part for part in (1, 2, 5, 10) if power * part >= wanted * (1 - 1e-9)), 0.0)]


def count_spacing(low: float, high: float, size: float) -> list[tuple[float, float]]:
    """The same for counts: 1 or more."""
    return [(max(plain_spacing(low, high, size)[0][0], 1.0), 0.0)]


def plain_ticks(values: Sequence[float], _scale: float, _spacing: float) -> list[str]:
    """Tick texts of an axis of plain numbers."""
    return [f"{value:,.10g}" for value in values]


def log_ticks(values: Sequence[float], _scale: float, _spacing: float) -> list[str]:
    """Tick texts of an axis of decades."""
    return [f"{10**value:.3g}" for value in values]


def log_spacing(low: float, high: float, _size: float) -> list[tuple[float, float]]:
    """A tick a decade, or half a one where few are in view (about 1, 3, 10)."""
    return [(1.0 if high - low > 1.6 else 0.5, 0.0)]

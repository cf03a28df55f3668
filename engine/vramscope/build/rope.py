"""Rotary position tables: frequencies and cosines computed in float64, rounded once when they are stored."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vramscope.build.config import RopeKind

if TYPE_CHECKING:
    import numpy.typing as npt

    from vramscope.build.config import Rope


def inverse_frequencies(rope: Rope, rotary_size: int) -> npt.NDArray[np.float64]:
    """Radians per position of each rotary pair, shape [rotary_size / 2].

    ``theta ** (-2 i / rotary_size)``; ``linear`` divides all by the factor; ``llama3`` divides the long
    wavelengths, keeps the short ones and interpolates between (the Llama 3.1 model card's rule).
    """
    base = rope.theta ** -(np.arange(0, rotary_size, 2, dtype=np.float64) / rotary_size)
    if rope.kind is RopeKind.DEFAULT:
        return base
    if rope.kind is RopeKind.LINEAR:
        return base / rope.factor
    wavelength = 2.0 * math.pi / base
    ratio = rope.original_positions / wavelength
    low, high = rope.low_frequency_factor, rope.high_frequency_factor
    keep = np.clip((ratio - low) / (high - low), 0.0, 1.0)
    return base * (keep + (1.0 - keep) / rope.factor)


def angles(rope: Rope, rotary_size: int, first: int, count: int) -> npt.NDArray[np.float64]:
    """Angles of positions ``first .. first + count``, shape [count, rotary_size / 2], radians."""
    positions = np.arange(first, first + count, dtype=np.float64)
    return positions[:, None] * inverse_frequencies(rope, rotary_size)[None, :]

"""16-bit floats to f32 at the speed of integer instructions: how half weights reach the BLAS library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from vramscope.graph.model import Array

BFLOAT16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
HALVES: tuple[np.dtype[np.generic], ...] = (np.dtype(np.float16), BFLOAT16)
"""The types whose arithmetic is done in f32 and rounded once."""

_SIGN_AND_FRACTION = np.int32(-0x7000_2000)
_EXPONENT_SHIFT = np.float32(2.0**112)
_FIRST_SPECIAL = 0x7C00
_WORTH_IT = 2048


def is_half(dtype: np.dtype[np.generic]) -> bool:
    """Whether ``dtype`` is float16 or bfloat16."""
    return dtype in HALVES


def widen(source: Array, target: Array) -> None:
    """Write ``source`` (any real type, any strides) into ``target`` (f32 or f64, same shape), exactly.

    float16 goes through integers: sign and 15 bits are moved to f32's places, which leaves the value too
    small by the difference of the exponent biases, 2**112; one multiplication puts that right, also for
    subnormals. Infinities and NaN would come out finite, so a tile that holds one takes NumPy's slower cast.
    """
    plain = source.dtype != np.float16 or target.dtype != np.float32 or source.size < _WORTH_IT
    if plain or _has_special(source):
        np.copyto(target, source, casting="unsafe")
        return
    bits = target.view(np.int32)
    np.copyto(bits, source.view(np.int16))
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, _SIGN_AND_FRACTION, out=bits)
    np.multiply(target, _EXPONENT_SHIFT, out=target)


def _has_special(source: Array) -> bool:
    positive = int(source.view(np.int16).max())
    negative = int(source.view(np.uint16).max())
    return positive >= _FIRST_SPECIAL or negative >= 0x8000 + _FIRST_SPECIAL

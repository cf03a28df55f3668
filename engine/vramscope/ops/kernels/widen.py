"""Widening stored floats to the type that arithmetic is done in, into memory that the caller owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vramscope.graph.model import Array

_EXPONENT_SHIFT = np.int32(13)
_SIGN_AND_HALF_BITS = np.int32(-0x70000001)  # 0x8FFFFFFF
_REBIAS = np.float32(2.0**112)
_HALF_LIMIT = 65536.0


def widen_into(source: Array, target: Array) -> None:
    """Copy ``source`` into ``target`` (same shape, float32 or float64), exactly.

    float16 to float32 takes integer shifts and one multiplication by 2**112, several times faster than
    NumPy's own conversion; infinities and NaN, which that cannot express, go through NumPy.
    """
    if source.dtype == np.float16 and target.dtype == np.float32 and source.size:
        _widen_half(source, target)
    else:
        np.copyto(target, source, casting="unsafe")


def _widen_half(source: Array, target: Array) -> None:
    bits = target.view(np.int32)
    np.copyto(bits, source.view(np.int16))
    np.left_shift(bits, _EXPONENT_SHIFT, out=bits)
    np.bitwise_and(bits, _SIGN_AND_HALF_BITS, out=bits)
    np.multiply(target, _REBIAS, out=target)
    if float(np.max(target)) >= _HALF_LIMIT or float(np.min(target)) <= -_HALF_LIMIT:
        np.copyto(target, source)

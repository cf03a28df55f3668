"""Widening float16 by bit shifts is exact for every one of its values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from vramscope.ops.kernels.widening import widen

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("values", [EVERY_HALF, EVERY_HALF[np.isfinite(EVERY_HALF)]], ids=["all", "finite"])
def test_every_half(values: np.ndarray[tuple[int, ...], np.dtype[np.float16]]) -> None:
    target = np.full(values.shape, 7, np.float32)
    widen(values, target)
    np.testing.assert_array_equal(target, values.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(target), np.signbit(values))


def test_strided_source_and_other_types() -> None:
    source = EVERY_HALF[:4096].reshape(16, 256)[:, ::3]
    target = np.empty(source.shape, np.float32)
    widen(source, target)
    np.testing.assert_array_equal(target, source.astype(np.float32))
    narrow = np.arange(9, dtype=np.float32).astype(ml_dtypes.bfloat16)
    room = np.empty(9, np.float64)
    widen(narrow, room)
    np.testing.assert_array_equal(room, np.arange(9))
    widen(np.empty(0, np.float16), np.empty(0, np.float32))

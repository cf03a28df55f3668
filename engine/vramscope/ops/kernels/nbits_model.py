"""Plain models of MatMulNBits for comparisons: the dequantised weight, and the int8-activation arithmetic."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Numbers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[Any]]"


def nbits_codes(packed: Numbers, bits: int) -> Numbers:
    """The codes of uint8 ``packed`` [..., bytes] as [..., bytes · 8 / bits], low-order bits first."""
    fields = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(fields, axis=-1).reshape(*packed.shape[:-1], -1)


def nbits_weight(packed: Numbers, scales: Numbers, zeros: Numbers | float, bits: int, depth: int) -> Numbers:
    """The weight [N, depth] in f64 of ``packed`` [N, blocks, bytes].

    ``zeros`` is one number for every block, or one for all.
    """
    codes = nbits_codes(packed, bits).astype(np.float64)
    columns, blocks, _ = codes.shape
    point = np.broadcast_to(np.asarray(zeros, np.float64), (columns, blocks))
    scaled = (codes - point[..., np.newaxis]) * scales.astype(np.float64).reshape(columns, blocks, 1)
    weight: Numbers = scaled.reshape(columns, -1)[:, :depth]
    return weight


def matmul_nbits_int8_model(activation: Numbers, weight: Numbers, block: int) -> Numbers:
    """``activation · weightᵀ`` as accuracy_level 4 computes it.

    Each row of ``activation`` [M, K] is rounded to int8 block by block: ``s = max|a| / 127``,
    ``a8 = round(a / s)``; the product of ``a8 · s`` with ``weight`` [N, K] is exact.
    """
    rows, depth = activation.shape
    blocks = -(-depth // block)
    padded = np.zeros((rows, blocks * block), np.float64)
    padded[:, :depth] = activation
    grouped = padded.reshape(rows, blocks, block)
    scale = np.abs(grouped).max(axis=2, keepdims=True) / 127.0
    quantized = np.rint(np.divide(grouped, scale, out=np.zeros_like(grouped), where=scale > 0))
    product: Numbers = (quantized * scale).reshape(rows, -1)[:, :depth] @ weight.astype(np.float64).T
    return product

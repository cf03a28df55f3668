"""Block quantisation of weight rows into the layouts MatMulNBits and GatherBlockQuantized read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.build.weights import BLOCK

if TYPE_CHECKING:
    import numpy.typing as npt


def pack_nibbles(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two codes a byte along the last axis, the even one in the low nibble."""
    return codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))


def quantize_q4(
    rows: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Asymmetric 4-bit blocks of [rows, columns] weights, columns a multiple of 32.

    Returns:
        Packed codes [rows, blocks, 16], scales and float zero points [rows, blocks], so that
        ``w = (code - zero_point) * scale``; a constant block is kept exactly as ``(0 - -1) * value``.
    """
    blocks = rows.reshape(rows.shape[0], -1, BLOCK)
    low, high = blocks.min(axis=-1), blocks.max(axis=-1)
    step = (high - low) / np.float32(15)
    flat = step == 0
    divisor = np.where(flat, np.float32(1), step)
    codes = np.clip(np.rint((blocks - low[..., None]) / divisor[..., None]), 0, 15).astype(np.uint8)
    zero_points = np.where(flat, np.float32(-1), -low / divisor).astype(np.float32)
    return pack_nibbles(codes), np.where(flat, low, step), zero_points


def quantize_q8(rows: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Symmetric 8-bit blocks of [rows, columns] weights, columns a multiple of 32.

    Returns:
        Codes [rows, blocks, 32] around 128 and scales [rows, blocks]: ``w = (code - 128) * scale``.
    """
    blocks = rows.reshape(rows.shape[0], -1, BLOCK)
    scales = np.abs(blocks).max(axis=-1) / np.float32(127)
    divisor = np.where(scales == 0, np.float32(1), scales)
    codes = np.rint(blocks / divisor[..., None]) + 128
    return codes.astype(np.uint8), scales.astype(np.float32)

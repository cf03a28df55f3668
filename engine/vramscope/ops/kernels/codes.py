"""Bytes that hold several numbers: written out as floats through a table of all 256 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType, bit_width
from vramscope.ops.call import from_codes

if TYPE_CHECKING:
    from vramscope.ops.kernels.planned import Values

CHUNK = 1 << 15
"""Bytes looked up at a time, so that the lookup's own index array stays in the cache."""

UNSIGNED = {2: ElementType.UINT2, 4: ElementType.UINT4, 8: ElementType.UINT8}
"""What uint8 data of so many bits holds."""


def byte_table(dtype: ElementType, target: np.dtype[np.generic]) -> Values:
    """The numbers in every byte, [256, 8 / bits], low-order bits first, as ``target``."""
    bits = bit_width(dtype)
    every = np.arange(256, dtype=np.uint8)
    if bits == 8:
        signed = every.view(np.int8) if dtype is ElementType.INT8 else every
        return signed.astype(target).reshape(256, 1)
    fields = [(every >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return from_codes(np.stack(fields, axis=-1), dtype).astype(target)


def expand(packed: Values, table: Values, target: Values) -> None:
    """Write the first ``target.size`` numbers of the flat bytes ``packed`` into contiguous ``target``."""
    flat, per = target.reshape(-1), table.shape[1]
    whole = flat.size // per
    rows = flat[: whole * per].reshape(whole, per)
    for start in range(0, whole, CHUNK):
        end = min(start + CHUNK, whole)
        np.take(table, packed[start:end], axis=0, out=rows[start:end], mode="clip")
    if flat.size > whole * per:
        flat[whole * per :] = table[packed[whole], : flat.size - whole * per]


def expand_rows(packed: Values, table: Values, target: Values) -> None:
    """Rows of bytes [rows, bytes], each padded to a byte by itself, into ``target`` [rows, numbers]."""
    if target.shape[1] == packed.shape[1] * table.shape[1]:
        expand(packed.reshape(-1), table, target)
        return
    for row, numbers in zip(packed, target, strict=True):
        expand(row, table, numbers)


def expand_from(packed: Values, table: Values, first: int, target: Values) -> None:
    """Numbers from position ``first`` of the flat bytes on, which may begin inside a byte."""
    flat, per = target.reshape(-1), table.shape[1]
    lead = min(-first % per, flat.size)
    for place in range(lead):
        flat[place] = table[packed[(first + place) // per], (first + place) % per]
    if flat.size > lead:
        expand(packed[(first + lead) // per :], table, flat[lead:])

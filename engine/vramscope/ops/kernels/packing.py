"""Outputs of 4-bit and 2-bit types: kernels compute one element a byte, then the bytes are packed."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType, bit_width, from_numpy, is_packed, storage_bytes
from vramscope.ops.call import Packed

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values
    from vramscope.ops.spec import Kernel


def packs(kernel: Kernel) -> Kernel:
    """``kernel`` with its outputs of a sub-byte type packed, into their placed bytes where there are any."""

    def packing(call: Call) -> None:
        if call.output_types[0] < ElementType.UINT4:
            kernel(call)
            return
        targets = list(call.placed)
        call.placed[:] = [None if isinstance(item, Packed) else item for item in targets]
        kernel(call)
        for index, (target, result) in enumerate(zip(targets, call.placed, strict=True)):
            if isinstance(result, np.ndarray) and is_packed(from_numpy(result.dtype)):
                call.placed[index] = pack(result, target if isinstance(target, Packed) else None)

    return packing


def fresh_packed(dtype: ElementType, shape: tuple[int, ...]) -> Packed:
    """An unwritten packed tensor in memory of its own."""
    return Packed(np.empty(storage_bytes(dtype, prod(shape)), np.uint8), dtype, shape)


def pack(values: Array, target: Packed | None = None) -> Packed:
    """``values`` of a sub-byte type as bytes, low bits first, into ``target`` or fresh memory."""
    dtype = from_numpy(values.dtype)
    bits = bit_width(dtype)
    per = 8 // bits
    packed = target if target is not None else fresh_packed(dtype, values.shape)
    codes = np.zeros(-(-values.size // per) * per, np.uint8)
    codes[: values.size] = to_codes(values).reshape(-1)
    total = codes[0::per].copy()
    for place in range(1, per):
        total |= codes[place::per] << (bits * place)
    np.copyto(packed.data.reshape(-1).view(np.uint8)[: total.size], total)
    return packed


def to_codes(values: Array) -> Values:
    """Each value's bit code in the low bits of a byte (two's complement for the signed integers)."""
    dtype = from_numpy(values.dtype)
    bytes_of: Values = values
    if dtype is ElementType.FLOAT4E2M1:
        return np.ascontiguousarray(bytes_of).view(np.uint8) & 0xF
    mask = (1 << bit_width(dtype)) - 1
    return (bytes_of.astype(np.int8).view(np.uint8) & mask).astype(np.uint8)

"""Launches that write a cache: new rows appended, held rows moved, the newest of a window settled."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.devices.cuda.attend_form import (
    NO_ROTARY,
    Lengths,
    Rotary,
    Rows,
    address,
    attend_source,
    even_rows,
    narrow,
)
from vramscope.devices.cuda.launch import Launch, blocks, i64

if TYPE_CHECKING:
    from vramscope.devices.cuda.array import DeviceArray


def _shared_by(width: int) -> int:
    """Threads that turn one row: each 16 of its elements, a power of two."""
    return min(8, 1 << (width // 16 - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Append:
    """New rows into a cache: keys normed and rotated."""

    dtype: DeviceArray
    batch: int
    positions: int
    kv_heads: int
    width: int
    new_keys: Rows
    new_values: Rows
    keys: Rows
    values: Rows
    rows: int
    lengths: Lengths
    rotary: Rotary = NO_ROTARY
    norm: DeviceArray | None = None
    epsilon: float = 0.0

    def launches(self) -> list[Launch]:
        """One launch: a few threads a head and position where rows turn in 16-byte pieces, else a warp."""
        if self.batch * self.positions * self.kv_heads == 0:
            return []
        pointers = (self.new_keys, self.new_values, self.keys, self.values)
        new = [(item.batch, item.position, item.head) for item in pointers[:2]]
        old = [item.strides for item in pointers[2:]]
        strides = [number for part in (*new, *old) for number in part]
        head = struct.pack(
            "<5Q13q", *(item.address for item in pointers), address(self.norm), *strides, self.rows
        )
        argument = head + self.lengths.pack() + self.rotary.pack() + struct.pack("<d", self.epsilon)
        if narrow(self.dtype) and even_rows(self.width, self.rotary, self.norm, pointers):
            text = attend_source(self.dtype, self.width, flash=True, even=True)
            grid = (blocks(self.positions * self.kv_heads * _shared_by(self.width), 256), 1, self.batch)
            return [Launch(text, "append_even", grid, (256, 1, 1), (argument, i64(self.kv_heads)))]
        grid = (self.positions, self.kv_heads, self.batch)
        return [Launch(attend_source(self.dtype, self.width), "append", grid, (32, 1, 1), (argument,))]


@dataclass(frozen=True, slots=True)
class Move:
    """Rows from one buffer to the head of another: held ones (``copy_held``) or the newest (``settle``)."""

    dtype: DeviceArray
    batch: int
    kv_heads: int
    width: int
    source: Rows
    target: Rows
    rows: int
    lengths: Lengths
    clear: bool = False

    def launches(self, function: str) -> list[Launch]:
        """One launch of ``copy_held`` or ``settle``."""
        if self.batch * self.kv_heads * self.rows == 0:
            return []
        numbers = (*self.source.strides, *self.target.strides, self.rows, int(self.clear))
        head = struct.pack("<2Q8q", self.source.address, self.target.address, *numbers)
        grid = (min(self.rows, 1024), self.kv_heads, self.batch)
        text = attend_source(self.dtype, self.width)
        return [Launch(text, function, grid, (64, 1, 1), (head + self.lengths.pack(),))]

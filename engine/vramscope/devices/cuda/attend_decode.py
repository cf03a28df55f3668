"""Append and attend of one new token in one launch: the blocks of a head form a cluster."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.devices.cuda.attend_form import (
    NOTHING_FRESH,
    address,
    attend_source,
    load_width,
    split_warps,
)
from vramscope.devices.cuda.launch import Launch, source
from vramscope.devices.cuda.strided import type_name

if TYPE_CHECKING:
    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.attend_form import Attention, Rows

MOST_CLUSTER = 8
"""Blocks of a cluster that every Hopper card runs."""
CLUSTER_KEYS = 4096
"""A larger cache is shared by more blocks than a cluster has."""
SHARE_KEYS = 256
"""Keys of the cache that one block takes."""
WARPS = 8
"""Warps of a block of the matrix units' form."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """The one new key and value of each head, appended by the attention kernel itself."""

    keys: Rows
    values: Rows
    norm: DeviceArray | None
    epsilon: float

    def pack(self) -> bytes:
        """As the kernel reads it."""
        pointers = (self.keys.address, self.values.address, address(self.norm))
        strides = (self.keys.batch, self.keys.head, self.values.batch, self.values.head)
        return struct.pack("<3Q4qd", *pointers, *strides, self.epsilon)


def cluster_splits(capacity: int) -> int:
    """Blocks of one cluster for a cache of this capacity; 0 where a cluster is too small for it."""
    if capacity > CLUSTER_KEYS:
        return 0
    return next(n for n in (1, 2, 4, MOST_CLUSTER) if n * SHARE_KEYS >= capacity or n == MOST_CLUSTER)


def decode_launch(attention: Attention, fresh: Fresh | None) -> Launch:
    """One query row an entry, a token of a paged cache: through the matrix units where they have its form.

    ``fresh`` None: the new rows are in the cache.
    """
    rows, paged = attention.group, attention.pages is not None
    entries = attention.positions if paged else attention.batch
    grid = (attention.splits, attention.kv_heads, entries)
    arguments = (attention.pack(), NOTHING_FRESH if fresh is None else fresh.pack())
    if _matrix_suits(attention):
        kind = type_name(attention.dtype.dtype)
        names = (("T", kind), ("HEAD", attention.width), ("ROWS", rows), ("WARPS", WARPS))
        half = (("IS_HALF", 1),) if kind == "f16" else ()
        more = (("CLUSTER", attention.splits), *half, *((("PAGED", 1),) if paged else ()))
        text = source("attend_decode", tuple((name, str(value)) for name, value in (*names, *more)))
        return Launch(text, "attend_decode", grid, (32 * WARPS, 1, 1), arguments, cluster=attention.splits)
    vector = load_width(attention)
    text = attend_source(
        attention.dtype, attention.width, vector, rows, cluster=attention.splits, paged=paged
    )
    threads = (32 * split_warps(attention.width, rows), 1, 1)
    return Launch(text, "attend_split", grid, threads, arguments, cluster=attention.splits)


def _matrix_suits(attention: Attention) -> bool:
    """Narrow floats, whole 128-byte rows that are read 16 bytes at a time, at most 8 query heads, no mask."""
    narrow = attention.dtype.itemsize == 2 and attention.dtype.dtype.kind != "i"
    plain = not attention.mask.kind and attention.group <= 8 and attention.width in (64, 128)
    return narrow and plain and load_width(attention) == 8

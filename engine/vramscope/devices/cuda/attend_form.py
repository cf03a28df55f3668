"""The packed arguments of the attention kernels: lengths, rotation, masks, and the specialised source."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from vramscope.devices.cuda.launch import Launch, Source, blocks, source
from vramscope.devices.cuda.strided import type_name
from vramscope.devices.cuda.work import NoKernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.cuda.array import DeviceArray

TILE = 32
"""Query rows of one block of the tiled kernel."""
MOST_WIDTH = 256
"""The widest head that the kernels hold in registers."""
MOST_FLASH_WIDTH = 128
"""The widest head of the matrix units' kernel."""
QUERIES = 64
"""Query rows of one block of that kernel."""
KEYS = 64
"""Keys of one of its pieces."""
MOST_ROWS = 8
"""Query heads of one block of the split kernel at most."""

FIXED, SEQLENS, VALID_ROWS, MASK_ROWS = 0, 1, 2, 3
"""Where an entry's length stands: in the launch, in seqlens_k, in nonpad_kv_seqlen, read out of a mask."""
PAGED_SEQUENCES, PAGED_TOKENS = 4, 5
"""Past lengths and starts of sequences whose tokens follow each other: of a sequence, or of one token."""


def address(value: DeviceArray | int | None) -> int:
    """A device address; 0 for nothing."""
    return 0 if value is None else value if isinstance(value, int) else value.address


@dataclass(frozen=True, slots=True)
class Lengths:
    """The ``Lengths`` structure of the kernels.

    Attributes:
        kind: where the length stands.
        values: the device tensor with one number a batch entry; None for FIXED.
        counts: ``query_seqlens``; where each sequence starts, of a paged cache.
        positions: query rows.
        keys: rows that are valid (FIXED), or that there are at most.
        offset: position of query row 0 (FIXED).
        fresh: rows that the step appends.
        capacity: rows of a sliding cache.
        window: its window; 0: none.
    """

    kind: int
    values: DeviceArray | int | None
    counts: DeviceArray | None
    positions: int
    keys: int
    offset: int = 0
    fresh: int = 0
    capacity: int = 0
    window: int = 0

    def pack(self) -> bytes:
        """As the kernels read it."""
        tail = (self.positions, self.keys, self.offset, self.fresh, self.capacity, self.window)
        return struct.pack("<qQQ6q", self.kind, address(self.values), address(self.counts), *tail)


@dataclass(frozen=True, slots=True)
class Rotary:
    """The ``Rotary`` structure: tables [rows, half] and, where given, int64 positions [B, S]."""

    cos: DeviceArray | None = None
    sin: DeviceArray | None = None
    positions: DeviceArray | None = None
    interleaved: bool = False

    def pack(self) -> bytes:
        """As the kernels read it."""
        rows, half = self.cos.shape if self.cos is not None else (0, 0)
        pointers = (address(self.cos), address(self.sin), address(self.positions))
        return struct.pack("<3Q3q", *pointers, half, int(self.interleaved), rows)


NO_ROTARY = Rotary()
"""Nothing is rotated."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The ``Pages`` structure: a block table [batch, width], positions of a block, blocks of the pool."""

    table: DeviceArray
    width: int
    block: int
    blocks: int
    batch: int

    def pack(self) -> bytes:
        """As the kernels read it."""
        return struct.pack("<Q4q", self.table.address, self.width, self.block, self.blocks, self.batch)


@dataclass(frozen=True, slots=True)
class Rows:
    """Head rows in memory: an address and strides in elements along batch, head and position."""

    address: int
    batch: int
    head: int
    position: int

    @classmethod
    def of(cls, array: DeviceArray) -> Rows:
        """Of a tensor [B, heads, S, D] of any strides but 1 along D.

        Raises:
            NoKernelError: elements of a row do not lie side by side.
        """
        batch, head, position, inner = array.steps
        if inner != 1 and array.shape[3] > 1:
            raise NoKernelError("elements of a head do not lie side by side")
        return cls(array.address, batch, head, position)

    @property
    def strides(self) -> tuple[int, int, int]:
        """Along batch, head and position."""
        return (self.batch, self.head, self.position)


def heads_of(array: DeviceArray, heads: int) -> DeviceArray:
    """[B, S, heads·D] as [B, heads, S, D], without a copy."""
    batch, positions, whole = array.shape
    return array.reshape(batch, positions, heads, whole // heads).transpose((0, 2, 1, 3))


@dataclass(frozen=True, slots=True)
class Mask:
    """A bias [B or 1, H or 1, S or 1, keys]: kind 0 none, 1 bool (False hides), 2 added to the scores."""

    value: DeviceArray | None = None
    kind: int = 0

    @property
    def width(self) -> int:
        """Its keys."""
        return self.value.shape[3] if self.value is not None else 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides along batch, head, row and key; 0 where it repeats."""
        if self.value is None:
            return (0, 0, 0, 0)
        return tuple(
            0 if extent == 1 else step
            for extent, step in zip(self.value.shape, self.value.steps, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention over rows that are in place.

    Attributes:
        dtype: a tensor of the element type.
        batch: entries.
        positions: query rows.
        heads: query heads.
        kv_heads: key heads.
        width: head size, of values too.
        query, keys, values, output: where they are.
        lengths: per entry.
        rotary: of the queries.
        mask: added or hiding.
        sink: logits a head; ``smooth`` stands for zeros.
        norm: weight of the queries' RMS norm.
        left, right: keys seen before and after the own position; −1: all.
        scale, softcap, epsilon: as the operators say.
        splits: blocks that share one row's keys (a single query row).
        partial: where they leave their results.
        pages: of a paged cache; rows of queries then follow each other, ``positions`` of all entries.
    """

    dtype: DeviceArray
    batch: int
    positions: int
    heads: int
    kv_heads: int
    width: int
    query: Rows
    keys: Rows
    values: Rows
    output: Rows
    lengths: Lengths
    rotary: Rotary = NO_ROTARY
    mask: Mask = Mask()
    sink: DeviceArray | None = None
    smooth: bool = False
    norm: DeviceArray | None = None
    left: int = -1
    right: int = -1
    scale: float = 1.0
    softcap: float = 0.0
    epsilon: float = 0.0
    splits: int = 1
    partial: int = 0
    pages: Pages | None = None

    @property
    def group(self) -> int:
        """Query heads of one key head."""
        return self.heads // self.kv_heads

    def pack(self) -> bytes:
        """The ``Attend`` structure."""
        pointers = (self.query.address, self.keys.address, self.values.address, self.output.address)
        more = (address(self.mask.value), address(self.sink), address(self.norm), self.partial)
        queries = (self.query.batch, self.query.position, self.query.head)
        outputs = (self.output.batch, self.output.position, self.output.head)
        strides = (*queries, *self.keys.strides, *self.values.strides, *outputs, *self.mask.strides)
        numbers = (self.mask.kind, self.mask.width, int(self.smooth), self.heads, self.group)
        tail = (self.left, self.right, self.splits)
        head = struct.pack("<8Q24q", *pointers, *more, *strides, *numbers, *tail)
        reals = struct.pack("<3d", self.scale, self.softcap, self.epsilon)
        pages = b"" if self.pages is None else self.pages.pack()
        return head + self.lengths.pack() + self.rotary.pack() + reals + pages


def attend_source(
    dtype: DeviceArray,
    width: int,
    vector: int = 1,
    rows: int = 0,
    *,
    cluster: int = 0,
    flash: bool = False,
    even: bool = False,
    paged: bool = False,
) -> Source:
    """The attention kernels for one element type and head size.

    With ``rows`` (query heads a block) and ``vector`` (elements a load) those for a single query row; with
    ``cluster`` blocks that join their shares themselves; ``flash``: the matrix units' form, ``even`` with
    rows that are rotated in 16-byte pieces; ``paged``: keys are found through a block table.

    Raises:
        NoKernelError: a type or a width that they do not have.
    """
    kind = type_name(dtype.dtype)
    if kind not in ("float", "f16", "bf16"):
        raise NoKernelError(f"its kernel attends in float32, float16 and bfloat16, not {dtype.dtype}")
    if not 0 < width <= MOST_WIDTH:
        raise NoKernelError(f"a head of {width} elements is wider than {MOST_WIDTH}")
    side = min(32, 1 << (-(-width // vector) - 1).bit_length())
    names = (("T", kind), ("HEAD", width), ("VEC", vector), ("SIDE", side), ("ROWS", max(rows, 1)))
    warps = (("WARPS", split_warps(width, rows)),)
    single = (*warps, *((("CLUSTER", cluster),) if cluster else ())) if rows else ()
    halves = (("HALF", int(kind == "f16")), ("EVEN", int(even))) if flash else ()
    pages = (("PAGED", 1),) if paged else ()
    file = "attend_split" if rows else "attend_flash" if flash else "attend_tiled"
    return source(file, tuple((name, str(value)) for name, value in (*names, *single, *halves, *pages)))


def split_warps(width: int, rows: int) -> int:
    """Warps of one block of the split kernel: as many as shared memory holds partial results for."""
    return 8 if width * rows <= 1024 else 4


def load_width(attention: Attention) -> int:
    """Elements of one load: as many as fit in 16 bytes and divide the head, the strides and the addresses."""
    item = attention.dtype.itemsize
    sizes = [16, attention.width * item]
    for rows in (attention.keys, attention.values):
        sizes += [rows.address, *(stride * item for stride in rows.strides)]
    return max(1, gcd(*sizes) // item)


def _flash_suits(attention: Attention) -> bool:
    """Whether the matrix units' form does it: narrow floats, rows in whole 16-byte pieces, no mask."""
    output = attention.output
    paired = output.address % 4 == 0 and all(stride % 2 == 0 for stride in output.strides)
    shape = attention.width % 16 == 0 and attention.width <= MOST_FLASH_WIDTH
    plain = not attention.mask.kind and attention.scale > 0 and paired
    return narrow(attention.dtype) and shape and plain and load_width(attention) == 8


def narrow(dtype: DeviceArray) -> bool:
    """Whether its elements are floats of two bytes."""
    return type_name(dtype.dtype) in ("f16", "bf16")


def even_rows(width: int, rotary: Rotary, norm: DeviceArray | None, rows: Sequence[Rows]) -> bool:
    """Whether rows turn in 16-byte pieces: halves of the whole head, everything at multiples of 16 bytes."""
    tables = [item for item in (rotary.cos, rotary.sin, norm) if item is not None]
    turned = rotary.cos is None or (2 * rotary.cos.shape[1] == width and not rotary.interleaved)
    placed = all(start % 16 == 0 for start in (*map(address, tables), *(one.address for one in rows)))
    strides = all(stride % 8 == 0 for one in rows for stride in one.strides)
    return width % 16 == 0 and width <= MOST_FLASH_WIDTH and turned and placed and strides


NOTHING_FRESH = struct.pack("<3Q4qd", *(0,) * 7, 0.0)


def attend_launches(attention: Attention) -> list[Launch]:
    """The launches: the split kernel (and its combination) for one query row, else the tiled one.

    Tokens of a paged cache are single rows where there are no more of them than sequences.
    """
    if attention.batch * attention.heads * attention.positions == 0:
        return []
    if attention.pages is not None and attention.positions > attention.batch:
        sequences = replace(attention.lengths, kind=PAGED_SEQUENCES)
        return _many_rows(replace(attention, lengths=sequences), attention.batch)
    if attention.pages is not None:
        return _single_rows(attention, attention.positions)
    if attention.positions == 1:
        return _single_rows(attention, attention.batch)
    return _many_rows(attention, attention.batch)


def _single_rows(attention: Attention, entries: int) -> list[Launch]:
    argument, paged = (attention.pack(),), attention.pages is not None
    rows = min(attention.group, MOST_ROWS)
    text = attend_source(attention.dtype, attention.width, load_width(attention), rows, paged=paged)
    chunks = -(-attention.group // rows)
    grid = (attention.splits, attention.kv_heads * chunks, entries)
    block = (32 * split_warps(attention.width, rows), 1, 1)
    found = [Launch(text, "attend_split", grid, block, (*argument, NOTHING_FRESH))]
    if attention.splits > 1:
        threads = min(256, max(32, -(-attention.width // 32) * 32))
        found.append(Launch(text, "combine", (attention.heads, entries, 1), (threads, 1, 1), argument))
    return found


def _many_rows(attention: Attention, entries: int) -> list[Launch]:
    """Tiles of query rows: through the matrix units where they have the form."""
    paged = attention.pages is not None
    if _flash_suits(attention):
        even = even_rows(attention.width, attention.rotary, attention.norm, [attention.query])
        text = attend_source(attention.dtype, attention.width, flash=True, even=even, paged=paged)
        grid = (blocks(attention.positions, QUERIES), attention.heads, entries)
        shared = (QUERIES + 4 * KEYS) * (2 * attention.width + 16)
        return [Launch(text, "attend_flash", grid, (2 * QUERIES, 1, 1), (attention.pack(),), shared)]
    grid = (blocks(attention.positions, TILE), attention.heads, entries)
    shared = 4 * (2 * TILE * (attention.width + 1) + TILE * attention.width + TILE * (TILE + 1))
    text = attend_source(attention.dtype, attention.width, paged=paged)
    return [Launch(text, "attend_tiled", grid, (128, 1, 1), (attention.pack(),), shared)]

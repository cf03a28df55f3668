"""The fused product kernels' launches: how a weight's tiles and depth are shared among blocks and warps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.devices.cuda.fused_form import WARPS
from vramscope.devices.cuda.launch import Launch, blocks, source

if TYPE_CHECKING:
    from vramscope.devices.cuda.fused_form import Fused, Packed

THREADS = (32 * WARPS, 1, 1)
MANY_BLOCKS = 264
"""Blocks that a large card runs at once: two on each multiprocessor."""
RING = 2
"""Windows that a warp of the packed kernel asks for ahead: more keep the next launch's blocks out."""
ROOM = 100 * 1024
"""Shared memory of a block of which two fit on a multiprocessor."""
ENOUGH_TILES = 45
"""Tiles that keep enough of a large card's multiprocessors busy, while others begin with the next launch."""
VERY_DEEP = 4096
"""Depth that one block takes too long for."""
TILE = 16
"""Columns of one tile of the packed kernel."""


@dataclass(frozen=True, slots=True)
class PackedTuning:
    """Warps that share a tile, quads of chunks in a window, windows of the ring, blocks."""

    share: int
    quads: int
    stages: int
    grid: int


@dataclass(frozen=True, slots=True)
class ColumnsTuning:
    """Threads side by side along the columns, blocks that share the depth, rows of a slot, slots."""

    lanes: int
    shares: int
    deep: int
    stages: int


def fused_launch(fused: Fused, *, clusters: bool) -> Launch:
    """The one launch of a form that suits. ``clusters``: the card has them."""
    weight = fused.weights[0]
    if weight.packed is not None and not fused.on_matrix_units:
        return codes_launch(fused, weight.packed)
    if weight.packed is not None:
        return packed_launch(fused, weight.packed, packed_tuning(fused, weight.packed))
    if weight.columns:
        return columns_launch(fused, columns_tuning(fused, clusters=clusters))
    text = source("fused_lines", _names(fused))
    shared = 4 * fused.rows * fused.k
    return Launch(text, "lines", (blocks(fused.n, 4 * WARPS), 1, 1), THREADS, (fused.pack(),), shared)


def _names(fused: Fused, *more: tuple[str, object]) -> tuple[tuple[str, str], ...]:
    skip = fused.norm is not None and fused.norm.skip is not None
    names = (("T", fused.kind), ("ROWS", fused.rows), ("PAIR", fused.joined))
    norms = (("NORM", int(fused.norm is not None)), ("SKIP", int(skip)))
    return tuple((name, str(value)) for name, value in (*names, *norms, *more))


def _chunk(packed: Packed) -> int:
    """Codes in 16 bytes."""
    return 128 // packed.bits


def _wide(packed: Packed, quads: int) -> int:
    """Codes of one row in a window."""
    return 4 * quads * _chunk(packed)


def _steps(fused: Fused, packed: Packed, tuning: PackedTuning) -> int:
    """Windows of one tile that a warp works through."""
    return blocks(blocks(fused.k, _wide(packed, tuning.quads)), tuning.share)


def packed_tuning(fused: Fused, packed: Packed) -> PackedTuning:
    """Windows 128 bytes wide, as many warps a tile as have one; where both are few, narrow ones and 8 warps.

    Many tiles are worked through one after the other by as many blocks as run at once.
    """
    tiles = blocks(fused.n, TILE)
    few = tiles < MANY_BLOCKS and fused.k <= WARPS * _wide(packed, 1)
    quads = 1 if few else 2
    windows = blocks(fused.k, _wide(packed, quads))
    share = next((n for n in (2, 4) if windows <= n), WARPS)
    units = blocks(tiles, WARPS // share)
    rounds = blocks(units, MANY_BLOCKS)
    found = PackedTuning(share, quads, RING, blocks(units, rounds))
    return found if _shared(fused, packed, found) <= ROOM else replace(found, stages=1)


def _together(fused: Fused, packed: Packed) -> int:
    """Bytes of four chunks' scales of one row where they lie in 4 or 8 aligned ones; 0 where they may not."""
    count = 4 * _chunk(packed) // packed.block
    wide = count in (2, 4) and packed.blocks % count == 0
    return fused.x.itemsize * count if wide else 0


def _depth(fused: Fused, packed: Packed, tuning: PackedTuning) -> int:
    """The depth in whole windows of all warps."""
    return _steps(fused, packed, tuning) * tuning.share * _wide(packed, tuning.quads)


def _meta(packed: Packed, tuning: PackedTuning) -> tuple[int, ...]:
    """Bytes of the scales, and of the zero points, of the rows that a block has at a time."""
    rows = TILE * WARPS // tuning.share
    scales = rows * packed.blocks * packed.scales.itemsize
    zeros = ((), (rows * packed.zero_bytes,), (scales,))
    return (scales, *zeros[packed.zero_kind])


def _more(fused: Fused, tuning: PackedTuning) -> bool:
    """Whether a block has more tiles than it takes at once."""
    return blocks(fused.n, TILE) > tuning.grid * (WARPS // tuning.share)


def _shared(fused: Fused, packed: Packed, tuning: PackedTuning) -> int:
    """Bytes of the ring, of scales and zero points, of the activation and the sums of its chunks."""
    weights, depth = len(fused.weights), _depth(fused, packed, tuning)
    ring = WARPS * tuning.stages * weights * tuning.quads * 1024
    meta = (1 + _more(fused, tuning)) * weights * sum(_meta(packed, tuning))
    return ring + meta + fused.rows * (2 * depth + 8 * (depth // _chunk(packed)))


def packed_launch(fused: Fused, packed: Packed, tuning: PackedTuning) -> Launch:
    """Codes of 4 or 8 bits through the matrix units."""
    text = source(
        "fused_packed",
        _names(
            fused,
            *(("BITS", packed.bits), ("BLOCK", packed.block), ("ZERO", packed.zero_kind)),
            *(("SHARE", tuning.share), ("QUADS", tuning.quads), ("STAGES", tuning.stages)),
            *(("TOGETHER", _together(fused, packed)), ("MORE", int(_more(fused, tuning)))),
            ("META", blocks(max(_meta(packed, tuning)), 16 * THREADS[0])),
            ("XV", blocks(_depth(fused, packed, tuning), 8 * THREADS[0])),
            *((("IS_HALF", 1),) if fused.kind == "f16" else ()),
        ),
    )
    shared = _shared(fused, packed, tuning)
    return Launch(text, "packed", (tuning.grid, 1, 1), THREADS, (fused.pack(),), shared)


def codes_launch(fused: Fused, packed: Packed) -> Launch:
    """Codes of 4 or 8 bits, multiplied one by one."""
    shape = (("BITS", packed.bits), ("BLOCK", packed.block), ("ZERO", packed.zero_kind))
    words = 4 if packed.row_bytes % 16 == 0 else 1
    text = source("fused_codes", _names(fused, *shape, ("WORDS", words)))
    grid = (blocks(fused.n, 2 * WARPS), 1, 1)
    return Launch(text, "codes", grid, THREADS, (fused.pack(),), fused.codes_shared(packed))


def columns_tuning(fused: Fused, *, clusters: bool) -> ColumnsTuning:
    """Tiles as wide, at most 128 bytes, as still give every second multiprocessor one.

    A deep weight of few columns is shared by four blocks; one of very many columns has wider tiles.
    """
    size = 8 * fused.vector
    if clusters and fused.k >= VERY_DEEP and fused.n < 2 * size * ENOUGH_TILES:
        return ColumnsTuning(8, 4, 2, 3 if fused.joined else 6)
    if fused.n >= 2 * size * MANY_BLOCKS:
        lanes = 16
    else:
        lanes = next((n for n in (8, 4) if fused.n >= n * fused.vector * ENOUGH_TILES), 2)
    turns = blocks(fused.k, THREADS[0] // lanes)
    deep = 2 if turns > 1 else 1
    return ColumnsTuning(lanes, 1, deep, min((3 if fused.joined else 6) * 2 // deep, blocks(turns, deep)))


def columns_launch(fused: Fused, tuning: ColumnsTuning) -> Launch:
    """Dense weights whose columns lie side by side."""
    tiles = blocks(fused.n, tuning.lanes * fused.vector)
    tall = tuning.deep * THREADS[0] // tuning.lanes
    depth = blocks(blocks(fused.k, tuning.shares), tall) * tall
    ring = tuning.stages * tuning.deep * len(fused.weights) * THREADS[0] * 16
    shape = (("LANES", tuning.lanes), ("SHARES", tuning.shares))
    sizes = (*shape, ("DEEP", tuning.deep), ("STAGES", tuning.stages))
    grid = (tiles * tuning.shares, 1, 1)
    text = source("fused_columns", _names(fused, *sizes))
    shared = ring + 4 * fused.rows * depth
    return Launch(text, "columns", grid, THREADS, (fused.pack(),), shared, tuning.shares)

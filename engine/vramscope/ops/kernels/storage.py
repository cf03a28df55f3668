"""How a key/value cache stores rows, floats or int8/int4 codes with a scale; reading and writing them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.errors import BindingError
from vramscope.ops.kernels.widening import widen

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node

Indices: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"

_LOW_NIBBLE = np.uint8(15)
_FOUR_BITS = np.uint8(4)


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows that lie scattered over a pool [pool rows, heads, stored width].

    Attributes:
        rows: the pool's row of each position; −1: nowhere, which reads as zeros.
        room: flat memory, of the pool's type, that at least one pool row fits in.
        width: elements of a row that are read, from its first one on.
    """

    rows: Indices
    room: Array
    width: int


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of one batch entry, [heads, rows, stored width]; with ``picked``, the pool that they lie in.

    ``bits`` 0: floats. 8: int8 codes. 4: two codes + 8 a byte, low nibble first. Value = code · ``scale``,
    which broadcasts to [heads, 1, D].
    """

    data: Array
    bits: int = 0
    scale: Array | None = None
    picked: Picked | None = None


def read_tile(stored: Stored, heads: slice, row: int, end: int, wide: Array) -> Array:
    """Rows [row, end) of some heads in the type of arithmetic: as they lie, or widened into ``wide``."""
    if stored.picked is not None:
        return _gather(stored, stored.picked, heads, (row, end), wide)
    view = stored.data[heads, row:end]
    if stored.bits == 0 and (wide.size == 0 or view.dtype == wide.dtype):
        return view
    shape = (view.shape[0], view.shape[1], view.shape[2] * (2 if stored.bits == 4 else 1))
    target = wide[: prod(shape)].reshape(shape)
    if stored.bits == 0:
        widen(view, target)
    else:
        _dequantize(stored, heads, view, target)
    return target


def _gather(stored: Stored, picked: Picked, heads: slice, span: tuple[int, int], wide: Array) -> Array:
    """Rows of a pool, part by part through its room, widened into ``wide``."""
    pool = stored.data
    count, size = len(range(*heads.indices(pool.shape[1]))), prod(pool.shape[1:])
    shape = (count, span[1] - span[0], picked.width)
    target = wide[: prod(shape)].reshape(shape)
    step = picked.room.size // size
    for first in range(*span, step):
        rows = picked.rows[first : min(first + step, span[1])]
        taken = picked.room[: rows.size * size].reshape(rows.size, *pool.shape[1:])
        np.take(pool, rows, axis=0, out=taken, mode="clip")
        into = target[:, first - span[0] : first - span[0] + rows.size]
        part = taken[..., : picked.width].swapaxes(0, 1)[heads]
        if stored.bits == 0:
            widen(part, into)
        else:
            _dequantize(stored, heads, part, into)
        if rows.min() < 0:
            into[:, np.less(rows, 0)] = 0
    return target


def _dequantize(stored: Stored, heads: slice, codes: Array, target: Array) -> None:
    if stored.bits == 4:
        np.bitwise_and(codes, _LOW_NIBBLE, out=target[..., 0::2])
        np.right_shift(codes, _FOUR_BITS, out=target[..., 1::2])
        np.subtract(target, target.dtype.type(8), out=target)
    else:
        np.copyto(target, codes, casting="unsafe")
    if stored.scale is not None:
        scale = stored.scale
        np.multiply(target, scale[heads] if scale.shape[0] > 1 else scale, out=target)


def write_rows(stored: Stored, row: int, tile: Array) -> None:
    """Store ``tile`` [heads, n, D] at rows [row, row + n); quantised caches overwrite ``tile`` on the way."""
    target = stored.data[:, row : row + tile.shape[1]]
    if stored.bits == 0:
        np.copyto(target, tile, casting="unsafe")
        return
    if stored.scale is not None:
        np.divide(tile, stored.scale, out=tile)
    np.rint(tile, out=tile)
    half = 1 << (stored.bits - 1)
    np.clip(tile, -half, half - 1, out=tile)
    if stored.bits == 4:
        np.add(tile, tile.dtype.type(8), out=tile)
        np.multiply(tile[..., 1::2], tile.dtype.type(16), out=tile[..., 1::2])
        np.add(tile[..., 0::2], tile[..., 1::2], out=tile[..., 0::2])
        np.copyto(target, tile[..., 0::2], casting="unsafe")
    else:
        np.copyto(target, tile, casting="unsafe")


def address(array: Array) -> int:
    """Where the first element of ``array`` lies."""
    pointer: int = array.__array_interface__["data"][0]
    return pointer


def same_buffer(past: Array, present: Array, node: Node) -> bool:
    """Whether both are one buffer under one physical layout: equal address, equal strides.

    The extents may differ: past is then a prefix of present.

    Raises:
        BindingError: one address under two layouts, so that writing one would destroy the other.
    """
    if past is present:
        return True
    if past.size == 0 or address(past) != address(present):
        return False
    layouts = zip(past.strides, present.strides, past.shape, present.shape, strict=True)
    if all(one == two or max(old, new) == 1 for one, two, old, new in layouts):
        return True
    raise BindingError(
        f"past and present of {node.qualified}",
        f"they begin at one address with strides {past.strides} and {present.strides}",
        "Bind both to one buffer with the same physical extents, or to two buffers",
        node.name,
    )

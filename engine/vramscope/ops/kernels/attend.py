"""Scaled dot-product attention of one batch entry, tile by tile, in planned scratch.

Keys and values are read where they lie (a prefix of the cache, the current rows, or one after the other);
scores exist for one tile of query rows at a time. Tensors are grouped: query row [kv head, group, position].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from vramscope.ops.kernels.storage import Stored, read_tile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.model import Array
    from vramscope.ops.kernels.tiles import Scratch

QUERY_ROWS = 256
"""Query positions of one tile at most: a causal tile skips the keys after its last position."""

FEW_ROWS = 4
"""Rows up to which BLAS's matrix-vector product beats its matrix-matrix product on one core."""

_LOWEST = np.finfo(np.float32).min
"""Stands for the maximum of a row that sees nothing, so that its weights become exp(−∞) = 0 and not NaN."""
_SMALLEST = np.finfo(np.float32).tiny
"""Stands for the sum of such a row: a row that sees anything sums up to 1 or more."""


class Prepare(Protocol):
    """Turns a tile of raw queries [kv, group, rows, D] into the ones to use, in place."""

    def __call__(self, tile: Array, head: int, start: int, spare: Array) -> None:
        """``head``, ``start``: the tile's first head and row; ``spare``: flat memory of its size."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive positions of one batch entry: keys and values [kv heads, rows or more, width]."""

    keys: Stored
    values: Stored
    rows: int


@dataclass(frozen=True, slots=True)
class RawScores:
    """Scores to hand out: target [kv, group, position, key]; stage as in the default Attention's modes.

    Stages: 0 scaled products, 1 after softcap, 2 after softcap and bias, 3 probabilities.
    """

    target: Array
    stage: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One batch entry's attention.

    Attributes:
        queries: [kv, group, S, D] as given.
        segments: keys and values, in order of position.
        keys: rows of all segments together.
        output: [kv, group, S, Dv], written in its own type.
        scale: factor of the products.
        stop: absolute end of the keys that may be seen.
        offset: absolute position of query row 0.
        base: absolute position of the first key.
        left: keys before the own position that are seen; None: all.
        right: keys after the own position that are seen; None: all.
        softcap: c of ``c·tanh(s/c)``; 0: none.
        biases: [kv, group, S, absolute key] each: bool (False hides), float (added), or integer (where it
            is 0, ``soft_mask`` is added).
        soft_mask: the finite number that an integer mask adds to hidden keys.
        sink: [kv, group, 1, 1] logits that only enlarge the denominator.
        prepare: norm and rotation of the queries.
        raw: scores to hand out.
    """

    queries: Array
    segments: tuple[Segment, ...]
    keys: int
    output: Array
    scale: float
    stop: int
    offset: int = 0
    base: int = 0
    left: int | None = None
    right: int | None = None
    softcap: float = 0.0
    biases: tuple[Array, ...] = ()
    soft_mask: float = -10000.0
    sink: Array | None = None
    prepare: Prepare | None = None
    raw: RawScores | None = None

    def visible(self, row: int) -> tuple[int, int]:
        """First column and end column that query ``row`` sees; columns count from ``base``."""
        position = self.offset + row - self.base
        end = self.stop - self.base
        if self.right is not None:
            end = min(end, position + self.right + 1)
        start = 0 if self.left is None else max(0, position - self.left)
        return start, max(start, end)


@dataclass(frozen=True, slots=True)
class _Tile:
    """Key/value heads [h0, h1), query positions [s0, s1), columns [lo, hi) of a problem."""

    h0: int
    h1: int
    s0: int
    s1: int
    lo: int
    hi: int

    def cut(self, tensor: Array) -> Array:
        """The tile's part of a tensor [kv, group, position, …]."""
        return tensor[self.h0 : self.h1, :, self.s0 : self.s1]


def attend(problem: Problem, scratch: Scratch) -> None:
    """Write ``softmax(scale·Q·Kᵀ + …)·V`` into the problem's output; rows that see no key become zeros.

    Infinities and NaN are ordinary here: callers switch NumPy's floating-point warnings off around it.
    """
    for tile in _tiles(problem, scratch):
        if tile.hi > tile.lo:
            _attend_tile(problem, tile, scratch)
        else:
            tile.cut(problem.output)[...] = 0


def _tiles(problem: Problem, scratch: Scratch) -> Iterator[_Tile]:
    kv_heads, group, positions, width = problem.queries.shape
    rows = min(scratch.rows(max(width, problem.output.shape[3])), scratch.scores.size // max(problem.keys, 1))
    step = max(1, min(positions, QUERY_ROWS, rows // max(group, 1)))
    heads = max(1, min(kv_heads, rows // max(group * step, 1)))
    for h0 in range(0, kv_heads, heads):
        for s0 in range(0, positions, step):
            s1 = min(s0 + step, positions)
            lo, hi = _columns(problem, s0, s1)
            yield _Tile(h0, min(h0 + heads, kv_heads), s0, s1, lo, hi)


def _columns(problem: Problem, s0: int, s1: int) -> tuple[int, int]:
    if problem.raw is not None:
        return 0, problem.keys
    lo = max(0, min(problem.visible(s0)[0], problem.keys))
    return lo, max(lo, min(problem.visible(s1 - 1)[1], problem.keys))


def _attend_tile(problem: Problem, tile: _Tile, scratch: Scratch) -> None:
    queries = _query_tile(problem, tile, scratch)
    heads, group, rows, _ = queries.shape
    columns = tile.hi - tile.lo
    scores = scratch.scores[: heads * group * rows * columns].reshape(heads, group, rows, columns)
    _products(problem, tile, queries, scores, scratch)
    _shape_scores(problem, tile, scores)
    total = _exponentials(problem, tile, scores)
    result = _weigh(problem, tile, scores, scratch)
    np.divide(result, total, out=tile.cut(problem.output), casting="unsafe")


def _query_tile(problem: Problem, tile: _Tile, scratch: Scratch) -> Array:
    raw = tile.cut(problem.queries)
    target = scratch.queries[: raw.size].reshape(raw.shape)
    if problem.prepare is None:
        np.multiply(raw, target.dtype.type(problem.scale), out=target, casting="unsafe")
        return target
    np.copyto(target, raw, casting="unsafe")
    problem.prepare(target, tile.h0, tile.s0, scratch.outputs)
    np.multiply(target, target.dtype.type(problem.scale), out=target)
    return target


def _pieces(problem: Problem, tile: _Tile, step: int) -> Iterator[tuple[Segment, int, int, int]]:
    """Runs of at most ``step`` positions: segment, first row, end row, first column within the tile."""
    start = 0
    for segment in problem.segments:
        first, end = max(tile.lo - start, 0), min(tile.hi - start, segment.rows)
        for row in range(first, end, step):
            yield segment, row, min(row + step, end), start + row - tile.lo
        start += segment.rows


def _step(problem: Problem, tile: _Tile, scratch: Scratch) -> int:
    """Positions that are read at once: all of them where nothing is widened."""
    if scratch.widened.size == 0:
        return max(problem.keys, 1)
    width = max(problem.queries.shape[3], problem.output.shape[3])
    return max(1, scratch.widened.size // ((tile.h1 - tile.h0) * width))


def _products(problem: Problem, tile: _Tile, queries: Array, scores: Array, scratch: Scratch) -> None:
    heads, group, rows, width = queries.shape
    left = queries.reshape(heads, group * rows, width)
    target = scores.reshape(heads, group * rows, scores.shape[3])
    for segment, row, end, column in _pieces(problem, tile, _step(problem, tile, scratch)):
        keys = read_tile(segment.keys, slice(tile.h0, tile.h1), row, end, scratch.widened)
        multiply(left, keys.swapaxes(1, 2), target[:, :, column : column + end - row])


def multiply(left: Array, right: Array, target: Array) -> None:
    """``left`` [heads, rows, k] by ``right`` [heads, k, n]; a few rows are faster as vector products."""
    if left.shape[1] <= FEW_ROWS:
        np.matmul(left[:, :, None], right[:, None], out=target[:, :, None])
    else:
        np.matmul(left, right, out=target)


def _shape_scores(problem: Problem, tile: _Tile, scores: Array) -> None:
    _hand_out(problem, tile, scores, stage=0)
    if problem.softcap:
        cap = scores.dtype.type(problem.softcap)
        np.divide(scores, cap, out=scores)
        np.tanh(scores, out=scores)
        np.multiply(scores, cap, out=scores)
    _hand_out(problem, tile, scores, stage=1)
    first = problem.base + tile.lo
    for bias in problem.biases:
        _add_bias(scores, tile.cut(bias)[..., first : first + scores.shape[3]], problem.soft_mask)
    _hide(problem, tile, scores)
    _hand_out(problem, tile, scores, stage=2)


def _hand_out(problem: Problem, tile: _Tile, scores: Array, *, stage: int) -> None:
    raw = problem.raw
    if raw is not None and raw.stage == stage:
        np.copyto(tile.cut(raw.target)[..., tile.lo : tile.hi], scores, casting="unsafe")


def _add_bias(scores: Array, bias: Array, soft: float) -> None:
    if bias.dtype == np.bool_:
        np.copyto(scores, -np.inf, where=np.logical_not(bias))
    elif bias.dtype.kind in "iu":
        np.add(scores, scores.dtype.type(soft), out=scores, where=np.equal(bias, 0))
    else:
        np.add(scores, bias, out=scores, casting="unsafe")


def _hide(problem: Problem, tile: _Tile, scores: Array) -> None:
    """Minus infinity outside each row's visible columns; rows that see the whole tile cost nothing."""
    for row in range(tile.s0, tile.s1):
        start, end = problem.visible(row)
        if start > tile.lo:
            scores[:, :, row - tile.s0, : start - tile.lo] = -np.inf
        if end < tile.hi:
            scores[:, :, row - tile.s0, max(end - tile.lo, 0) :] = -np.inf


def _exponentials(problem: Problem, tile: _Tile, scores: Array) -> Array:
    """Scores become exp(score − maximum); returns the denominators [kv, group, rows, 1]."""
    peak = np.maximum.reduce(scores, axis=3, keepdims=True)
    sink = None if problem.sink is None else problem.sink[tile.h0 : tile.h1].astype(scores.dtype)
    if sink is not None:
        np.maximum(peak, sink, out=peak)
    np.maximum(peak, _LOWEST, out=peak)
    np.subtract(scores, peak, out=scores)
    np.exp(scores, out=scores)
    total = np.add.reduce(scores, axis=3, keepdims=True)
    if sink is not None:
        np.add(total, np.exp(sink - peak), out=total)
    np.maximum(total, _SMALLEST, out=total)
    if problem.raw is not None and problem.raw.stage == 3:
        np.divide(scores, total, out=scores)
        total.fill(1)
        _hand_out(problem, tile, scores, stage=3)
    return total


def _weigh(problem: Problem, tile: _Tile, weights: Array, scratch: Scratch) -> Array:
    """Σ weight·V of the tile, [kv, group, rows, Dv], in the outputs' scratch."""
    heads, group, rows, columns = weights.shape
    width = problem.output.shape[3]
    left = weights.reshape(heads, group * rows, columns)
    size = heads * group * rows * width
    result = scratch.outputs[:size].reshape(heads, group * rows, width)
    spare = scratch.queries[:size].reshape(heads, group * rows, width)
    seen = _Tile(tile.h0, tile.h1, tile.s0, tile.s1, tile.lo, min(tile.hi, problem.stop - problem.base))
    target = result
    for segment, row, end, column in _pieces(problem, seen, _step(problem, tile, scratch)):
        values = read_tile(segment.values, slice(tile.h0, tile.h1), row, end, scratch.widened)
        multiply(left[:, :, column : column + end - row], values, target)
        if target is spare:
            np.add(result, spare, out=result)
        target = spare
    if target is result:
        result.fill(0)
    return result.reshape(heads, group, rows, width)

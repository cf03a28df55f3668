"""PagedAttention in float64, position by position, written from the operator's definition alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

Tensors = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Paged:
    """One call: sequences by their past and new lengths, heads, the pool, and what the node says."""

    past: tuple[int, ...] = (5, 0, 9)
    new: tuple[int, ...] = (1, 4, 2)
    heads: int = 4
    kv_heads: int = 2
    width: int = 16
    block_size: int = 4
    table: int = 4
    spare_blocks: int = 3
    packed: bool = True
    value_width: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    cosines: int = 0
    norms: bool = False
    sink: bool = False
    slots: bool = False
    holes: tuple[tuple[int, int], ...] = ()
    trailing: int = 0
    quantised: str = ""

    def having(self, **attributes: Any) -> Paged:  # noqa: ANN401 - whatever the operator takes
        """The same with further attributes."""
        return replace(self, attributes={**self.attributes, **attributes})

    @property
    def blocks(self) -> int:
        """Blocks of the pool: some more than the table can name."""
        return len(self.past) * self.table + self.spare_blocks

    @property
    def latent(self) -> bool:
        """Whether one cache serves as keys and values."""
        return self.attributes.get("kv_cache_layout") == "LATENT"


def inputs_of(case: Paged, dtype: Any, seed: int = 0) -> list[Any]:  # noqa: ANN401 - any float type
    """The node's 17 inputs, None where it has none; pools full of garbage where nothing was stored."""
    made = _Made(case, dtype, np.random.default_rng(seed), [None] * 17)
    made.rows()
    made.pools()
    made.places()
    made.weights()
    return made.inputs


@dataclass
class _Made:
    """Inputs on their way."""

    case: Paged
    dtype: Any
    random: np.random.Generator
    inputs: list[Any]

    def normal(self, *shape: int) -> Tensors:
        """Numbers of the element type."""
        numbers: Tensors = self.random.standard_normal(shape).astype(self.dtype)
        return numbers

    def rows(self) -> None:
        """Query, and key and value where they are not packed."""
        case, tokens = self.case, sum(self.case.new) + self.case.trailing
        parts = case.heads + 2 * case.kv_heads if case.packed else case.heads
        self.inputs[0] = self.normal(tokens, parts * case.width)
        for index in () if case.packed else (1,) if case.latent else (1, 2):
            self.inputs[index] = self.normal(tokens, case.kv_heads * case.width)

    def pools(self) -> None:
        """Caches of floats or of codes with their scales."""
        case = self.case
        shape = (case.blocks, case.block_size, case.kv_heads, case.width)
        for index in (3,) if case.latent else (3, 4):
            if not case.quantised:
                self.inputs[index] = self.normal(*shape)
                continue
            self.inputs[index] = self.random.integers(-128, 128, shape, np.int8)
            sizes = (1,) if case.quantised == "PER_TENSOR" else (case.kv_heads, 1, case.width)
            self.inputs[index + 11] = self.random.uniform(0.01, 0.03, sizes).astype(np.float32)

    def places(self) -> None:
        """Lengths, the block table, slots and bounds; what holds no position becomes NaN."""
        case, batch = self.case, len(self.case.past)
        self.inputs[5] = np.cumsum([0, *case.new]).astype(np.int32)
        self.inputs[6] = np.array(case.past, np.int32)
        order = self.random.permutation(case.blocks)[: batch * case.table]
        self.inputs[7] = order.reshape(batch, case.table).astype(np.int32)
        for entry, place in case.holes:
            self.inputs[7][entry, place] = -1
        if case.slots:  # a row that is not stored is one that holds its token already
            self._slots()
        elif not case.quantised:
            _spoil(self.inputs, case)
        self.inputs[16] = np.array([max(case.new), case.table * case.block_size, 0], np.int32)

    def _slots(self) -> None:
        case = self.case
        rows = [position_rows(self.inputs, case, entry) for entry in range(len(case.past))]
        slots = [row[p : p + n] for row, p, n in zip(rows, case.past, case.new, strict=True)]
        found = np.concatenate([*slots, np.full(case.trailing, -1)]).astype(np.int32)
        found[-1 - case.trailing] = -1
        self.inputs[10] = found

    def weights(self) -> None:
        """Cosines and sines, the sink, norms."""
        case = self.case
        if case.cosines:
            angles = self.random.uniform(-3, 3, (case.table * case.block_size, case.cosines))
            self.inputs[8], self.inputs[9] = (part(angles).astype(self.dtype) for part in (np.cos, np.sin))
        if case.sink:
            self.inputs[11] = self.normal(case.heads)
        if case.norms:
            self.inputs[12], self.inputs[13] = self.normal(case.width), self.normal(case.width)


def _spoil(found: list[Any], case: Paged) -> None:
    """NaN in every row of the pools that holds no position before the call."""
    held = [position_rows(found, case, entry)[:past] for entry, past in enumerate(case.past)]
    free = np.ones(case.blocks * case.block_size, bool)
    rows = np.concatenate(held)
    free[rows[rows >= 0]] = False
    for pool in (found[3], found[4]):
        if pool is not None:
            pool.reshape(-1, case.kv_heads, case.width)[free] = np.nan


def position_rows(inputs: Sequence[Any], case: Paged, entry: int) -> Tensors:
    """The pool's row of every position that a sequence may have; −1 where it has no block."""
    table = inputs[7][entry].astype(np.int64)
    rows = [
        table[p // case.block_size] * case.block_size + p % case.block_size
        if table[p // case.block_size] >= 0
        else -1
        for p in range(case.table * case.block_size)
    ]
    return np.array(rows)


def truth(case: Paged, inputs: Sequence[Any]) -> tuple[Tensors, list[Tensors]]:
    """Output [tokens, heads · value width] in float64, and the pools after the call, in float64."""
    value_width = case.value_width or case.width
    query, key, value = _split(case, inputs)
    pools = [_decoded(case, inputs, index) for index in ((3,) if case.latent else (3, 4))]
    output = np.zeros((query.shape[0], case.heads, value_width))
    for entry, (past, new) in enumerate(zip(case.past, case.new, strict=True)):
        rows, start = position_rows(inputs, case, entry), int(inputs[5][entry])
        for step in range(new):
            token, position = start + step, past + step
            row = rows[position] if inputs[10] is None else int(inputs[10][token])
            if row >= 0:
                _store(
                    case, inputs, pools, row, (_turned(case, inputs, key[token], 13, position), value[token])
                )
        for step in range(new):
            token, position = start + step, past + step
            turned = _turned(case, inputs, query[token], 12, position)
            seen = _seen(case, rows, position, past + new)
            for head in range(case.heads):
                kv = head // (case.heads // case.kv_heads)
                keys = pools[0].reshape(-1, case.kv_heads, case.width)[rows[seen], kv]
                values = pools[-1].reshape(-1, case.kv_heads, case.width)[rows[seen], kv, :value_width]
                output[token, head] = _weigh(case, inputs, head, keys @ turned[head], values)
    return output.reshape(query.shape[0], -1), pools


def _split(case: Paged, inputs: Sequence[Any]) -> tuple[Tensors, Tensors, Tensors]:
    wide = [None if item is None else item.astype(np.float64) for item in inputs[:3]]
    assert wide[0] is not None
    query = wide[0].reshape(wide[0].shape[0], -1, case.width)
    if case.packed:
        ends = (case.heads, case.heads + case.kv_heads)
        return query[:, : ends[0]], query[:, ends[0] : ends[1]], query[:, ends[1] :]
    assert wide[1] is not None
    rows = [(item if item is not None else wide[1]).reshape(query.shape[0], -1, case.width) for item in wide]
    return query, rows[1], rows[2]


def _decoded(case: Paged, inputs: Sequence[Any], index: int) -> Tensors:
    pool: Tensors = np.asarray(inputs[index]).astype(np.float64)
    if not case.quantised:
        return pool
    scale: Tensors = inputs[index + 11].astype(np.float64)
    return pool * (scale if scale.size == 1 else scale.reshape(case.kv_heads, case.width))


def _store(
    case: Paged, inputs: Sequence[Any], pools: list[Tensors], row: int, fresh: tuple[Tensors, Tensors]
) -> None:
    """Stores a key and a value as the pool's type holds them."""
    for index, (pool, item) in enumerate(zip(pools, fresh, strict=False)):
        kind = inputs[3 + index].dtype
        if case.quantised:
            scale = inputs[14 + index].astype(np.float64)
            scale = scale if scale.size == 1 else scale.reshape(case.kv_heads, case.width)
            held = np.clip(np.rint(item / scale), -128, 127) * scale
        else:
            held = item.astype(kind).astype(np.float64)
        pool.reshape(-1, case.kv_heads, case.width)[row] = held


def _turned(case: Paged, inputs: Sequence[Any], rows: Tensors, norm: int, position: int) -> Tensors:
    """Heads [n, D], normed and rotated."""
    found = rows.copy()
    if inputs[norm] is not None:
        epsilon = case.attributes.get("qk_norm_epsilon", 1e-6)
        found = (
            found / np.sqrt((found**2).mean(-1, keepdims=True) + epsilon) * inputs[norm].astype(np.float64)
        )
    if not case.attributes.get("do_rotary", 0):
        return found
    cosine, sine = (inputs[index][position].astype(np.float64) for index in (8, 9))
    first = case.attributes.get("rotary_offset", 0)
    half = cosine.size
    pairs = np.arange(half)
    low, high = (
        (2 * pairs, 2 * pairs + 1) if case.attributes.get("rotary_interleaved", 0) else (pairs, pairs + half)
    )
    x, y = found[:, first + low].copy(), found[:, first + high].copy()
    found[:, first + low] = x * cosine - y * sine
    found[:, first + high] = x * sine + y * cosine
    return found


def _seen(case: Paged, rows: Tensors, position: int, total: int) -> Tensors:
    window = case.attributes.get("local_window_size", -1)
    last = position if case.attributes.get("is_causal", 1) else total - 1
    first = max(0, position - window + 1) if window > 0 else 0
    return np.array([p for p in range(first, last + 1) if rows[p] >= 0], np.int64)


def _weigh(case: Paged, inputs: Sequence[Any], head: int, products: Tensors, values: Tensors) -> Tensors:
    scores = products * (case.attributes.get("scale", 0.0) or 1 / np.sqrt(case.width))
    cap = case.attributes.get("softcap", 0.0)
    scores = cap * np.tanh(scores / cap) if cap else scores
    if scores.size == 0:
        return np.zeros(values.shape[1])
    sink = -np.inf if inputs[11] is None else float(inputs[11][head])
    most = max(scores.max(), sink)
    weights = np.exp(scores - most)
    found: Tensors = weights @ values / (weights.sum() + np.exp(sink - most))
    return found

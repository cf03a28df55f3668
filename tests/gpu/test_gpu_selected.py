"""IndexShare on the card against float64: a cache that grows, one filled in place, and none handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from cuda_calls import error, node

if TYPE_CHECKING:
    from cuda_calls import Bench

pytestmark = pytest.mark.gpu

LIMITS = {np.float32: 1e-5, np.float16: 2e-3, ml_dtypes.bfloat16: 1e-2}
Values = np.ndarray[Any, Any]
BATCH, HEADS, KV, WIDTH = 2, 6, 2, 48


def chosen_rows(random: np.random.Generator, shape: tuple[int, int, int], valid: list[int]) -> Values:
    """Increasing positions, then −1: [batch, heads, queries, 9]."""
    found = np.full((*shape, 9), -1)
    for place in np.ndindex(*shape):
        count = int(random.integers(1, min(9, valid[place[0]]) + 1))
        found[(*place, slice(count))] = np.sort(random.permutation(valid[place[0]])[:count])
    return found


def attended(q: Values, k: Values, v: Values, index: Values, bias: Values) -> Values:
    out = np.zeros(q.shape)
    for b, h, s in np.ndindex(*q.shape[:3]):
        rows = index[b, h if index.shape[1] > 1 else 0, s]
        rows = rows[rows >= 0]
        scores = k[b, h // (HEADS // KV), rows] @ q[b, h, s] / np.sqrt(WIDTH) + bias[b, h, s, rows]
        if np.isneginf(scores).all():
            continue
        powers = np.exp(scores - scores.max())
        out[b, h, s] = powers @ v[b, h // (HEADS // KV), rows] / powers.sum()
    return out


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("index_kind", [np.int64, np.int32])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("form", ["growing", "not handed out", "no past", "in place"])
def test_selected_positions(
    bench: Bench, kind: type[Any], index_kind: type[Any], queries: int, form: str
) -> None:
    random = np.random.default_rng()

    def draw(*shape: int) -> Values:
        return random.standard_normal(shape).astype(kind)

    held = 0 if form == "no past" else 40
    q = draw(BATCH, HEADS, queries, WIDTH)
    new = [draw(BATCH, KV, queries, WIDTH) for _ in range(2)]
    past = [draw(BATCH, KV, held, WIDTH) for _ in range(2)]
    rows = held if form == "in place" else held + queries
    valid = [23, 40] if form == "in place" else [rows] * BATCH
    bias = draw(BATCH, 1, queries, rows)
    for entry, length in enumerate(valid):
        bias[entry, :, :, length:] = -np.inf
    bias[0, 0, 0, : max(valid[0] - 1, 1)] = -np.inf
    index = chosen_rows(random, (BATCH, 1 if queries == 1 else HEADS, queries), valid).astype(index_kind)
    whole = [np.concatenate(pair, 2) for pair in zip(past, new, strict=True)]
    if form == "in place":
        whole = [item.copy() for item in past]
        for item, fresh in zip(whole, new, strict=True):
            for entry, length in enumerate(valid):
                item[entry, :, length - queries : length] = fresh[entry]
    wide = [item.astype(np.float64) for item in (q, *whole)]
    spread = np.broadcast_to(bias.astype(np.float64), (BATCH, HEADS, queries, rows))
    true = attended(wide[0], wide[1], wide[2], index, spread)
    given = [q, *new, past[0] if held else None, past[1] if held else None, index, bias]
    room = ((BATCH, KV, rows, WIDTH), kind)
    places: dict[str, list[Any]] = {"not handed out": [None, None], "in place": [3, 4]}
    caches = places.get(form, [room, room])
    found = bench.run(
        node("IndexShare", "pkg.nxrt", num_heads=HEADS, kv_num_heads=KV), given, [(q.shape, kind), *caches]
    )
    assert error(found[0], true) < LIMITS[kind]
    for cache, expected in zip(found[1:], whole, strict=False):
        assert np.array_equal(cache, expected)

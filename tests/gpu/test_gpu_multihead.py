"""MultiHeadAttention and Attention on the card against float64: all forms, caches, every kind of mask."""

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
HIDDEN = -10000.0


def attended(q: Values, k: Values, v: Values, mask: Values, *, causal: bool, offset: int) -> Values:
    """[B, N, S, D] in float64; ``mask`` is added to the scores."""
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]) + mask
    if causal:
        rows = np.arange(q.shape[2])[:, None] + offset
        scores = np.where(np.arange(k.shape[2]) <= rows, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True) @ v)


def flat(heads: Values) -> Values:
    batch, count, rows, width = heads.shape
    return np.ascontiguousarray(heads.transpose(0, 2, 1, 3)).reshape(batch, rows, count * width)


def key_mask(form: str, random: np.random.Generator, held: int, shape: tuple[int, ...]) -> tuple[Any, Values]:
    """The int32 input and what it adds to the scores [B, 1, S, total]; key 0 or 1 is seen in every row.

    Where all keys are hidden, float32 scores near −10,000 are coarse: no kernel can be exact there.
    """
    batch, rows, total = shape
    columns = np.arange(total)
    ends = random.integers(1, total + 1, batch)
    starts = np.minimum(random.integers(0, 2, batch), ends - 1)
    if form == "none":
        return None, np.zeros((1, 1, 1, 1))
    if form == "ends":
        return ends.astype(np.int32), np.where(columns < ends[:, None], 0, HIDDEN)[:, None, None]
    if form == "spans":
        seen = (columns < ends[:, None]) & (columns >= starts[:, None])
        return np.concatenate([ends, starts]).astype(np.int32), np.where(seen, 0, HIDDEN)[:, None, None]
    if form == "new keys":
        fresh = random.integers(0, 2, (batch, total - held)).astype(np.int32)
        fresh[:, 0] = 1
        seen = np.concatenate([np.ones((batch, held)), fresh], 1)
        return fresh, np.where(seen != 0, 0, HIDDEN)[:, None, None]
    whole = random.integers(0, 2, (batch, rows, total) if form == "rows" else (batch, total)).astype(np.int32)
    whole[..., 0] = 1
    added = np.where(whole != 0, 0, HIDDEN)
    return whole, added[:, None] if form == "rows" else added[:, None, None]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize(("queries", "past"), [(1, 150), (9, 0), (70, 31), (1, 0)])
@pytest.mark.parametrize("masked", ["none", "ends", "spans", "new keys", "keys", "rows"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("present", [False, True])
def test_separate_inputs(
    bench: Bench, kind: type[Any], queries: int, past: int, masked: str, biased: bool, present: bool
) -> None:
    random = np.random.default_rng()
    batch, heads, width = 2, 3, 40
    total, causal = past + queries, masked in ("none", "new keys")

    def draw(*shape: int) -> Values:
        return random.standard_normal(shape).astype(kind)

    q, k, v = (draw(batch, heads, queries, width) for _ in range(3))
    old = [draw(batch, heads, past, width) for _ in range(2)]
    bias, score_bias = draw(3 * heads * width), draw(1, heads, queries, total + 3)
    mask, added = key_mask(masked, random, past, (batch, queries, total))
    parts = bias.astype(np.float64).reshape(3, 1, heads, 1, width) if biased else np.zeros((3, 1, 1, 1, 1))
    wide = [item.astype(np.float64) + part for item, part in zip((q, k, v), parts, strict=True)]
    rounded = [item.astype(kind).astype(np.float64) for item in wide]
    keys, values = (
        np.concatenate([item.astype(np.float64), new], 2) for item, new in zip(old, rounded[1:], strict=True)
    )
    whole = added + (score_bias.astype(np.float64)[..., :total] if biased else 0)
    expected = attended(rounded[0], keys, values, whole, causal=causal, offset=past)
    given = [flat(q), flat(k), flat(v), bias if biased else None, mask, score_bias if biased else None]
    given += old if past else []
    room = ((batch, heads, total, width), kind)
    wanted = [((batch, queries, heads * width), kind), *([room, room] if present else [None, None])]
    operator = node(
        "MultiHeadAttention", "com.microsoft", num_heads=heads, unidirectional=int(causal)
    )  # fmt: skip
    found = bench.run(operator, given, wanted)
    assert error(found[0], flat(expected)) < LIMITS[kind]
    if present:
        assert error(found[1], keys) < LIMITS[kind]
        assert error(found[2], values) < LIMITS[kind]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("form", ["packed", "packed keys", "cached keys"])
@pytest.mark.parametrize("queries", [1, 17])
def test_packed_inputs_and_a_cache_as_keys(bench: Bench, kind: type[Any], form: str, queries: int) -> None:
    random = np.random.default_rng()
    batch, heads, width, keys = 2, 4, 64, queries if form == "packed" else 90

    def draw(*shape: int) -> Values:
        return random.standard_normal(shape).astype(kind)

    q, k, v = draw(batch, heads, queries, width), *(draw(batch, heads, keys, width) for _ in range(2))
    wide = [item.astype(np.float64) for item in (q, k, v)]
    expected = attended(wide[0], wide[1], wide[2], np.zeros((1, 1, 1, 1)), causal=False, offset=0)

    def packed(*parts: Values) -> Values:
        return np.ascontiguousarray(np.stack(parts).transpose(1, 3, 2, 0, 4))

    given = [flat(q), k, v] if form == "cached keys" else [flat(q), packed(k, v)]
    if form == "packed":
        given = [packed(q, k, v)]
    operator = node("MultiHeadAttention", "com.microsoft", num_heads=heads)
    (y,) = bench.run(operator, given, [((batch, queries, heads * width), kind)])
    assert error(y, flat(expected)) < LIMITS[kind]


@pytest.mark.parametrize("kind", LIMITS)
def test_a_shared_buffer_is_appended_in_place(bench: Bench, kind: type[Any]) -> None:
    random = np.random.default_rng()
    heads, width, room, held = 2, 32, 64, 21
    past = [random.standard_normal((1, heads, room, width)).astype(kind) for _ in range(2)]
    q, k, v = (random.standard_normal((1, heads, 1, width)).astype(kind) for _ in range(3))
    expected = [item.copy() for item in past]
    for item, new in zip(expected, (k, v), strict=True):
        item[:, :, held] = new[:, :, 0]
    keys, values = (item[:, :, : held + 1].astype(np.float64) for item in expected)
    true = attended(q.astype(np.float64), keys, values, np.zeros((1, 1, 1, 1)), causal=True, offset=held)
    given = [flat(q), flat(k), flat(v), None, None, None, *past, np.array([held], np.int32)]
    operator = node("MultiHeadAttention", "com.microsoft", num_heads=heads, unidirectional=1)
    found = bench.run(operator, given, [((1, 1, heads * width), kind), 6, 7])
    assert error(found[0], flat(true)) < LIMITS[kind]
    for item, cache in zip(found[1:], expected, strict=True):
        assert np.array_equal(item, cache)


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize(("queries", "past"), [(1, 150), (9, 0), (70, 31), (1, 0)])
@pytest.mark.parametrize("masked", ["none", "ends", "spans", "new keys", "keys", "rows"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("present", [False, True])
def test_an_input_that_is_projected(
    bench: Bench, kind: type[Any], queries: int, past: int, masked: str, biased: bool, present: bool
) -> None:
    random = np.random.default_rng()
    batch, heads, width, depth = 2, 3, 40, 48
    total, causal, hidden = past + queries, masked in ("none", "new keys"), heads * width

    def draw(*shape: int) -> Values:
        return random.standard_normal(shape).astype(kind)

    x, weight = draw(batch, queries, depth), (draw(depth, 3 * hidden).astype(np.float32) / 8).astype(kind)
    bias, score_bias, old = (
        draw(3 * hidden),
        draw(1, heads, queries, total + 3),
        draw(2, batch, heads, past, width),
    )
    mask, added = key_mask(masked, random, past, (batch, queries, total))
    wide = x.astype(np.float64) @ weight.astype(np.float64) + (bias.astype(np.float64) if biased else 0)
    parts = wide.reshape(batch, queries, 3, heads, width).transpose(2, 0, 3, 1, 4)
    rounded = parts.astype(kind).astype(np.float64)
    keys, values = (
        np.concatenate([item.astype(np.float64), new], 2) for item, new in zip(old, rounded[1:], strict=True)
    )
    whole = added + (score_bias.astype(np.float64)[..., :total] if biased else 0)
    expected = attended(rounded[0], keys, values, whole, causal=causal, offset=past)
    given = [x, weight, bias if biased else None, mask, old if past else None, score_bias if biased else None]
    room = ((2, batch, heads, total, width), kind)
    operator = node("Attention", "com.microsoft", num_heads=heads, unidirectional=int(causal))
    found = bench.run(operator, given, [((batch, queries, hidden), kind), *([room] if present else [None])])
    assert error(found[0], flat(expected)) < LIMITS[kind]
    if present:
        assert error(found[1], np.stack([keys, values])) < LIMITS[kind]


@pytest.mark.parametrize("kind", LIMITS)
def test_a_projected_input_is_appended_to_a_shared_buffer(bench: Bench, kind: type[Any]) -> None:
    random = np.random.default_rng()
    heads, width, room, held = 2, 32, 64, 21
    hidden = heads * width
    past = random.standard_normal((2, 1, heads, room, width)).astype(kind)
    x = random.standard_normal((1, 1, hidden)).astype(kind)
    weight = (random.standard_normal((hidden, 3 * hidden)) / 8).astype(kind)
    wide = (x.astype(np.float64) @ weight.astype(np.float64)).reshape(1, 1, 3, heads, width)
    new = wide.transpose(2, 0, 3, 1, 4).astype(kind)
    keys, values = past.astype(np.float64)[:, :, :, : held + 1]
    keys[:, :, held], values[:, :, held] = (item[:, :, 0].astype(np.float64) for item in new[1:])
    true = attended(new[0].astype(np.float64), keys, values, np.zeros((1, 1, 1, 1)), causal=True, offset=held)
    given = [x, weight, None, None, past, None, np.array([held], np.int32)]
    operator = node(
        "Attention", "com.microsoft", num_heads=heads, unidirectional=1, past_present_share_buffer=1
    )
    found = bench.run(operator, given, [((1, 1, hidden), kind), 4])
    assert error(found[0], flat(true)) < LIMITS[kind]
    assert error(found[1][:, :, :, : held + 1], np.stack([keys, values])) < LIMITS[kind]
    assert np.array_equal(found[1][:, :, :, held + 1 :], past[:, :, :, held + 1 :])

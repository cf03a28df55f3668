"""The CUDA attention kernels on fresh random inputs against a plain float64 attention on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from cuda_calls import error, node

if TYPE_CHECKING:
    from cuda_calls import Bench

pytestmark = pytest.mark.gpu

BF16 = ml_dtypes.bfloat16
LIMITS = {np.float32: 1e-5, np.float16: 2e-3, BF16: 1e-2}
CONTRIB = "com.microsoft"
Floats = np.ndarray[Any, Any]


def rotated(x: Floats, position: int, cos: Floats, sin: Floats, *, interleaved: bool) -> Floats:
    """One head row rotated."""
    half = cos.shape[1]
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (
        slice(0, half), slice(half, 2 * half))  # fmt: skip
    found = x.copy()
    c, s = cos[position], sin[position]
    found[first], found[second] = x[first] * c - x[second] * s, x[first] * s + x[second] * c
    return found


def attended(q: Floats, keys: Floats, values: Floats, scale: float, softcap: float, bias: Floats) -> Floats:
    """One query row over all keys; ``bias`` −∞ hides."""
    scores = scale * keys @ q
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = scores + bias
    if np.all(np.isneginf(scores)):
        return np.zeros(values.shape[1])
    powers = np.exp(scores - scores.max())
    return np.asarray(powers @ values / powers.sum())


CASES = [
    # batch, positions, heads, kv heads, head size, capacity, valid lengths after the step, attributes
    (1, 1, 9, 3, 64, 256, (100,), {}),
    (1, 1, 14, 2, 64, 512, (512,), {}),
    (2, 1, 8, 8, 128, 96, (96, 3), {}),
    (1, 1, 28, 4, 128, 1024, (1000,), {"local_window_size": 300, "softcap": 3.0}),
    (3, 1, 12, 2, 128, 600, (600, 1, 17), {}),
    (1, 1, 4, 1, 64, 1100, (1017,), {"smooth_softmax": 1}),
    (1, 1, 8, 1, 64, 4096, (4001,), {}),
    (1, 1, 4, 1, 256, 700, (650,), {"softcap": 5.0}),
    (1, 1, 32, 2, 80, 128, (77,), {"local_window_size": 16}),
    (1, 13, 6, 2, 64, 64, (13,), {}),
    (2, 40, 4, 4, 32, 80, (40, 25), {"rotary_interleaved": 1}),
    (1, 33, 4, 2, 128, 128, (90,), {"local_window_size": 20, "softcap": 3.0}),
    (1, 1, 4, 2, 16, 40, (17,), {"smooth_softmax": 1}),
    (2, 150, 4, 2, 64, 200, (200, 130), {"softcap": 4.0}),
    (1, 130, 8, 2, 128, 160, (150,), {"local_window_size": 40}),
]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"S{case[1]}H{case[2]}x{case[3]}D{case[4]}")
@pytest.mark.parametrize("packed", [True, False])
def test_group_query_attention(bench: Bench, kind: type[Any], case: tuple[Any, ...], packed: bool) -> None:
    batch, count, heads, kv, width, capacity, totals, attributes = case
    random = np.random.default_rng()

    def draw(*shape: int) -> Floats:
        return random.standard_normal(shape).astype(kind)

    parts = [draw(batch, count, n * width) for n in (heads, kv, kv)]
    past = [draw(batch, kv, capacity, width) for _ in range(2)]
    angles = random.random((capacity, width // 2)) * 6
    cos, sin = np.cos(angles).astype(kind), np.sin(angles).astype(kind)
    lengths = np.array([total - 1 for total in totals], np.int32)
    query = [np.concatenate(parts, -1), None, None] if packed else parts
    operator = node(
        "GroupQueryAttention", CONTRIB, num_heads=heads, kv_num_heads=kv, do_rotary=1, **attributes
    )
    shape = (batch, count, heads * width)
    inputs = [*query, *past, lengths, np.array(max(totals), np.int32), cos, sin]
    output, keys, values = bench.run(operator, inputs, [(shape, kind), 3, 4])
    interleaved = bool(attributes.get("rotary_interleaved", 0))
    window, softcap = attributes.get("local_window_size", -1), attributes.get("softcap", 0.0)
    wide_parts = [part.astype(np.float64).reshape(batch, count, -1, width) for part in parts]
    tables = (cos.astype(np.float64), sin.astype(np.float64))
    true = np.zeros((batch, count, heads, width))
    true_keys, true_values = (item.astype(np.float64) for item in past)
    for b, total in enumerate(totals):
        new = min(count, total)
        for s in range(new):
            for h in range(kv):
                place = total - new + s
                true_keys[b, h, place] = rotated(
                    wide_parts[1][b, s, h], place, *tables, interleaved=interleaved
                )
                true_values[b, h, place] = wide_parts[2][b, s, h]
        for s in range(new):
            place = total - new + s
            seen = np.arange(total)
            hidden = (seen > place) | ((seen <= place - window) if window > 0 else False)
            bias = np.where(hidden, -np.inf, 0.0)
            for h in range(heads):
                q = rotated(wide_parts[0][b, s, h], place, *tables, interleaved=interleaved)
                group = h // (heads // kv)
                k, v = true_keys[b, group, :total], true_values[b, group, :total]
                if attributes.get("smooth_softmax"):
                    scores = np.append(k @ q / np.sqrt(width) + bias, 0.0)
                    powers = np.exp(scores - scores.max())
                    true[b, s, h] = powers[:-1] @ v / powers.sum()
                else:
                    true[b, s, h] = attended(q, k, v, 1 / np.sqrt(width), softcap, bias)
    assert error(output.reshape(true.shape), true) < LIMITS[kind]
    for b, total in enumerate(totals):
        assert error(keys[b, :, :total], true_keys[b, :, :total]) < LIMITS[kind]
        assert error(values[b, :, :total], true_values[b, :, :total]) < LIMITS[kind]
        assert np.array_equal(keys[b, :, total:], past[0][b, :, total:])


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("queries", [1, 7])
def test_sliding_cache_keeps_the_newest_rows(bench: Bench, kind: type[Any], queries: int) -> None:
    random = np.random.default_rng()
    heads, kv, width, window, total = 4, 2, 32, 8, 20
    every = random.standard_normal((2, kv, total, width)).astype(kind)
    held = min(total - queries, window)
    past = random.standard_normal((2, 1, kv, window, width)).astype(kind)
    past[:, 0, :, :held] = every[:, :, total - queries - held : total - queries]
    q = random.standard_normal((1, queries, heads * width)).astype(kind)
    new = [part[:, total - queries :].transpose(1, 0, 2).reshape(1, queries, -1) for part in every]
    operator = node(
        "GroupQueryAttention", CONTRIB, num_heads=heads, kv_num_heads=kv, local_window_size=window,
        sliding_window_cache=1,
    )  # fmt: skip
    lengths, whole = np.array([total - 1], np.int32), np.array(total, np.int32)
    inputs = [q, *new, past[0], past[1], lengths, whole]
    output, keys, values = bench.run(operator, inputs, [((1, queries, heads * width), kind), 3, 4])
    true = np.zeros((queries, heads, width))
    for s in range(queries):
        place = total - queries + s
        seen = slice(max(0, place - window + 1), place + 1)
        for h in range(heads):
            k, v = (part[h // 2, seen].astype(np.float64) for part in every)
            row = q[0, s].astype(np.float64).reshape(heads, width)[h]
            true[s, h] = attended(row, k, v, 1 / np.sqrt(width), 0.0, np.zeros(k.shape[0]))
    assert error(output.reshape(true.shape), true) < LIMITS[kind]
    assert np.array_equal(keys[0], every[0][:, total - window :])
    assert np.array_equal(values[0], every[1][:, total - window :])


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("form", ["plain", "nonpad", "grow", "float mask"])
def test_default_attention(bench: Bench, kind: type[Any], queries: int, form: str) -> None:
    random = np.random.default_rng()
    heads, kv, width, keys = 6, 2, 64, 37

    def draw(*shape: int) -> Floats:
        return random.standard_normal(shape).astype(kind)

    q, k, v = draw(2, queries, heads * width), draw(2, keys, kv * width), draw(2, keys, kv * width)
    split = [item.reshape(2, -1, kv, width).transpose(0, 2, 1, 3).astype(np.float64) for item in (k, v)]
    attributes: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": kv}
    inputs: list[Floats | None] = [q, k, v]
    outputs: list[Any] = [((2, queries, heads * width), kind)]
    bias = np.zeros((2, queries, keys))
    if form == "nonpad":
        valid = np.array([30, 12])
        attributes["is_causal"] = 1
        inputs += [None, None, None, valid]
        for b in range(2):
            place = valid[b] - queries + np.arange(queries)[:, None]
            bias[b] = np.where(np.arange(keys)[None] > place, -np.inf, 0.0)
    elif form == "grow":
        past = [draw(2, kv, 11, width) for _ in range(2)]
        inputs += [None, *past]
        outputs += [((2, kv, 11 + keys, width), kind)] * 2
        split = [
            np.concatenate([old.astype(np.float64), new], 2) for old, new in zip(past, split, strict=True)
        ]
        bias = np.zeros((2, queries, 11 + keys))
    elif form == "float mask":
        mask = draw(1, 1, queries, keys)
        inputs += [mask]
        bias = np.broadcast_to(mask[:, 0].astype(np.float64), bias.shape)
    output = bench.run(node("Attention", **attributes), inputs, outputs)[0]
    true = np.zeros((2, queries, heads, width))
    for b in range(2):
        for s in range(queries):
            for h in range(heads):
                row = q[b, s].astype(np.float64).reshape(heads, width)[h]
                pair = (split[0][b, h // 3], split[1][b, h // 3])
                true[b, s, h] = attended(row, *pair, 1 / np.sqrt(width), 0.0, bias[b, s])
    assert error(output.reshape(true.shape), true) < LIMITS[kind]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(bench: Bench, kind: type[Any], interleaved: int) -> None:
    random = np.random.default_rng()
    heads, width, rows = 3, 32, 50
    x = random.standard_normal((2, 6, heads * width)).astype(kind)
    angles = random.random((rows, width // 2)) * 6
    cos, sin = np.cos(angles).astype(kind), np.sin(angles).astype(kind)
    positions = random.integers(0, rows, (2, 6))
    true = np.zeros((2, 6, heads, width))
    for b in range(2):
        for s in range(6):
            for h in range(heads):
                row = x[b, s].astype(np.float64).reshape(heads, width)[h]
                tables = (cos.astype(np.float64), sin.astype(np.float64))
                true[b, s, h] = rotated(row, positions[b, s], *tables, interleaved=bool(interleaved))
    contrib = node("RotaryEmbedding", CONTRIB, interleaved=interleaved, num_heads=heads)
    (y,) = bench.run(contrib, [x, positions, cos, sin], [(x.shape, kind)])
    assert error(y.reshape(true.shape), true) < LIMITS[kind]
    default = node("RotaryEmbedding", interleaved=interleaved, num_heads=heads)
    (y,) = bench.run(default, [x, cos[positions], sin[positions]], [0])
    assert error(y.reshape(true.shape), true) < LIMITS[kind]

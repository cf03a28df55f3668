"""GroupQueryAttention on the host: cache forms against each other, random nodes against onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_calls import Operator, run_kernel, run_onnxruntime

from vramscope.ops.kernels.grouped_form import kept_rows

Tensors = np.ndarray[Any, Any]
Dtype = type[np.generic] | type[ml_dtypes.bfloat16]
TWO_HEADS = Operator("GroupQueryAttention", "com.microsoft", 3).having(num_heads=2, kv_num_heads=1)
FOUR_HEADS = TWO_HEADS.having(num_heads=4, kv_num_heads=2)


def lengths(seqlens: int, total: int) -> tuple[Tensors, Tensors]:
    return np.array([seqlens], np.int32), np.array(total, np.int32)


def random_inputs(generator: np.random.Generator, shape: tuple[int, ...], past: int) -> list[Any]:
    """Query, key, value, past key, past value for a shape (B, S, H, KV, D)."""
    batch, positions, heads, kv_heads, width = shape
    sizes = (heads * width, kv_heads * width, kv_heads * width)
    rows = [generator.standard_normal((batch, positions, size), np.float32) for size in sizes]
    caches = [generator.standard_normal((batch, kv_heads, past, width), np.float32) for _ in range(2)]
    return [*rows, *caches]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_capacity_form_equals_the_growing_form_over_several_steps(dtype: Dtype) -> None:
    generator = np.random.default_rng(7)
    operator = TWO_HEADS.having(num_heads=6, kv_num_heads=3, do_rotary=1)
    angles = generator.standard_normal((40, 4), np.float32)
    tables = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
    buffers = [np.full((2, 3, 12, 8), np.nan, dtype) for _ in range(2)]
    grown: list[Any] = [np.zeros((2, 3, 0, 8), dtype) for _ in range(2)]
    for step, positions in enumerate((5, 1, 1, 2)):
        fresh = [x.astype(dtype) for x in random_inputs(generator, (2, positions, 6, 3, 8), 0)[:3]]
        total = grown[0].shape[2] + positions
        seqlens = np.full(2, total - 1, np.int32)
        tail = [seqlens, np.array(12, np.int32), *tables]
        output, *_ = run_kernel(operator, [*fresh, *buffers, *tail], [None, *buffers])
        tail[1] = np.array(total, np.int32)
        expected, *grown = run_kernel(operator, [*fresh, *grown, *tail])
        np.testing.assert_array_equal(output, expected, err_msg=f"step {step}")
        np.testing.assert_array_equal(buffers[0][:, :, :total], grown[0])


def test_query_rows_beyond_query_seqlens_are_zero_and_not_cached() -> None:
    generator = np.random.default_rng(3)
    inputs = [
        *random_inputs(generator, (2, 3, 2, 1, 8), 6),
        np.array([3, 4], np.int32),
        np.array(6, np.int32),
    ]
    inputs += [None] * 9 + [np.array([1, 3], np.int32)]
    before = inputs[3].copy()
    output, key, _ = run_kernel(TWO_HEADS, inputs, [None, inputs[3], inputs[4]])
    assert (output[0, 1:] == 0).all()
    np.testing.assert_array_equal(key[0, :, :3], before[0, :, :3])
    np.testing.assert_array_equal(key[0, 0, 3], inputs[1][0, 0])
    np.testing.assert_array_equal(key[0, :, 4:], before[0, :, 4:])
    np.testing.assert_array_equal(key[1, 0, 2:5], inputs[1][1])
    alone = [x[1:] if x is not None and x.ndim else x for x in inputs[:6]] + [inputs[6]]
    alone[3], alone[4] = before[1:], inputs[4][1:]
    expected = run_kernel(TWO_HEADS, alone)[0]
    np.testing.assert_allclose(output[1:], expected, rtol=1e-5)


def test_kept_rows_of_a_sliding_cache() -> None:
    assert [kept_rows(total, 4, 2) for total in (3, 4, 5, 6, 7, 8)] == [3, 4, 2, 3, 4, 2]
    assert [kept_rows(total, 2, 2) for total in (1, 2, 3, 9)] == [1, 2, 2, 2]


@pytest.mark.parametrize(("capacity", "window"), [(2, 2), (4, 2), (5, 3)])
@pytest.mark.parametrize("in_place", [True, False])
def test_sliding_cache_equals_a_full_one_with_a_window(capacity: int, window: int, *, in_place: bool) -> None:
    generator = np.random.default_rng(11)
    operator = TWO_HEADS.having(num_heads=4, kv_num_heads=2, local_window_size=window)
    sliding = operator.having(sliding_window_cache=1)
    ring: list[Any] = [np.full((1, 2, capacity, 8), np.nan, np.float32) for _ in range(2)]
    grown: list[Any] = [np.zeros((1, 2, 0, 8), np.float32) for _ in range(2)]
    for positions in (3, 1, 1, 2, 1):
        fresh = random_inputs(generator, (1, positions, 4, 2, 8), 0)[:3]
        total = grown[0].shape[2] + positions
        tail = lengths(total - 1, total)
        placed = [None, *ring] if in_place else []
        output, *ring = run_kernel(sliding, [*fresh, *ring, *tail], placed)
        expected, *grown = run_kernel(operator, [*fresh, *grown, *tail])
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
        kept = kept_rows(total, capacity, window)
        np.testing.assert_array_equal(ring[0][:, :, :kept], grown[0][:, :, total - kept :])


RANDOM: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"do_rotary": 1},
    "interleaved": {"do_rotary": 1, "rotary_interleaved": 1},
    "window": {"local_window_size": 3},
    "softcap": {"softcap": 5.0},
    "smooth": {"smooth_softmax": 1},
    "bias": {},
    "sink": {},
    "bidirectional": {"causal": 0},
    "before softmax": {"qk_output": 1},
    "probabilities": {"qk_output": 2},
}


@pytest.mark.parametrize("case", RANDOM)
@pytest.mark.parametrize(("positions", "past"), [(6, 0), (1, 5), (4, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_equals_onnxruntime(case: str, positions: int, past: int, dtype: Dtype) -> None:
    generator = np.random.default_rng(positions)
    operator = FOUR_HEADS.having(**RANDOM[case]).giving(4 if "qk_output" in RANDOM[case] else 3)
    total = past + positions
    inputs = [item.astype(dtype) for item in random_inputs(generator, (1, positions, 4, 2, 32), past)]
    angles = generator.standard_normal((total, 16), np.float32)
    inputs += [*lengths(total - 1, total), None, None, None, None, None]
    if "do_rotary" in RANDOM[case]:
        inputs[7:9] = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
    if case == "bias":
        inputs[10] = generator.standard_normal((1, 4, positions, total), np.float32).astype(dtype)
    if case == "sink":
        inputs[11] = generator.standard_normal(4, np.float32).astype(dtype)
    ours, theirs = run_kernel(operator, inputs), run_onnxruntime(operator, inputs)
    if operator.outputs == 4:
        seen = np.tril(np.ones((positions, total), bool), past)
        ours[3], theirs[3] = np.where(seen, ours[3], 0), np.where(seen, theirs[3], 0)
    close = 1e-5 if dtype == np.float32 else 2e-3
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.astype(np.float32), other.astype(np.float32), rtol=close, atol=close)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
def test_quantised_cache_equals_onnxruntime(bits: int, kind: str) -> None:
    generator = np.random.default_rng(bits)
    inputs = random_inputs(generator, (1, 2, 4, 2, 16), 4)
    stored = np.int8 if bits == 8 else np.uint8
    low, high = (-128, 128) if bits == 8 else (0, 256)
    for index in (3, 4):
        inputs[index] = generator.integers(low, high, (1, 2, 4, 2 * bits)).astype(stored)
    size = (1,) if kind == "PER_TENSOR" else (1, 2, 1, 16)
    scales = [(generator.random(size) * 0.1 + 0.02).astype(np.float32) for _ in range(2)]
    inputs += [*lengths(5, 6), None, None, None, None, None, *scales]
    operator = FOUR_HEADS.having(k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits)
    ours = run_kernel(operator, inputs)
    theirs = run_onnxruntime(operator, inputs, [np.float32, stored, stored])
    np.testing.assert_array_equal(ours[1], theirs[1])
    np.testing.assert_array_equal(ours[2], theirs[2])
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_long_prompt_in_several_tiles_equals_onnxruntime(dtype: Dtype) -> None:
    generator = np.random.default_rng(1)
    operator = TWO_HEADS.having(num_heads=6, kv_num_heads=3)
    inputs = [item.astype(dtype) for item in random_inputs(generator, (1, 700, 6, 3, 16), 900)]
    inputs += lengths(1599, 1600)
    ours, theirs = run_kernel(operator, inputs)[0], run_onnxruntime(operator, inputs)[0]
    close = 2e-5 if dtype == np.float32 else 2e-3
    np.testing.assert_allclose(ours.astype(np.float32), theirs.astype(np.float32), rtol=close, atol=close)


def test_norm_weights_of_queries_and_keys() -> None:
    generator = np.random.default_rng(5)
    inputs = [*random_inputs(generator, (1, 2, 2, 1, 8), 0)[:3], None, None, *lengths(1, 2)]
    weights = [generator.standard_normal(8, np.float32) for _ in range(2)]
    output = run_kernel(TWO_HEADS.having(q_norm_epsilon=1e-3), [*inputs, *[None] * 7, *weights])[0]
    for index, (weight, epsilon) in enumerate(zip(weights, (1e-3, 1e-6), strict=True)):
        rows = inputs[index].reshape(1, 2, -1, 8)
        normed = rows / np.sqrt(np.mean(rows**2, axis=-1, keepdims=True) + np.float32(epsilon)) * weight
        inputs[index] = normed.reshape(inputs[index].shape)
    np.testing.assert_allclose(output, run_kernel(TWO_HEADS, inputs)[0], rtol=1e-5, atol=1e-6)

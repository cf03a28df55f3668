"""com.microsoft's MultiHeadAttention and Attention on the host: the sheets' examples, onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_calls import Operator, run_kernel, run_onnxruntime

from vramscope.errors import UnsupportedOperatorError, VramscopeError

Tensors = np.ndarray[Any, Any]
Dtype = type[np.generic] | type[ml_dtypes.bfloat16]
HEADS = Operator("MultiHeadAttention", "com.microsoft").having(num_heads=2, scale=1.0)
PROJECTED = Operator("Attention", "com.microsoft").having(num_heads=1, scale=1.0)
CAUSAL = HEADS.having(unidirectional=1)

QUERY = np.array([[[1, 0, 0, 1], [1, 1, 2, 0]]], np.float32)
KEY = np.array([[[1, 0, 0, 1], [0, 1, 1, 0]]], np.float32)
VALUE = np.array([[[1, 2, 3, 4], [5, 6, 7, 8]]], np.float32)
PAST = [
    np.array([[[[1, 0]], [[0, 1]]]], np.float32),
    np.array([[[[9, 9]], [[8, 8]]]], np.float32),
]
X = np.array([[[1, 0], [0, 1]]], np.float32)
W = np.array([[1, 0, 1, 0, 1, 2], [0, 1, 0, 1, 3, 4]], np.float32)


def check(output: Tensors, expected: list[list[float]]) -> None:
    np.testing.assert_allclose(output.reshape(-1, len(expected[0])), expected, rtol=1e-6)


PLAIN = [[2.0757661, 3.0757661, 4.0757661, 5.0757661], [3.0, 4.0, 6.5231881, 7.5231881]]


def test_multi_head_attention() -> None:
    check(run_kernel(HEADS, [QUERY, KEY, VALUE])[0], PLAIN)
    check(run_kernel(CAUSAL, [QUERY, KEY, VALUE])[0], [[1.0, 2.0, 3.0, 4.0], PLAIN[1]])
    mask = np.array([[1, 0]], np.int32)
    check(run_kernel(HEADS, [QUERY, KEY, VALUE, None, mask])[0], [[1.0, 2.0, 3.0, 4.0]] * 2)


def test_mask_of_zeros_equals_no_mask() -> None:
    mask = np.zeros((1, 2), np.int32)
    output = run_kernel(HEADS, [QUERY, KEY, VALUE, None, mask])[0]
    np.testing.assert_allclose(output.reshape(2, 4), PLAIN, rtol=2e-3)


def test_past() -> None:
    inputs = [QUERY, KEY, VALUE, None, None, None, *PAST]
    tail = [5.0, 5.666667, 6.6804790, 7.5739722]
    check(run_kernel(HEADS, inputs)[0], [[5.0, 5.577682, 5.7330441, 6.3107252], tail])
    check(run_kernel(CAUSAL, inputs)[0], [[5.0, 5.5, 5.5, 6.0], tail])
    np.testing.assert_array_equal(run_kernel(HEADS.giving(3), inputs)[1][0, 0], [[1, 0], [1, 0], [0, 1]])


def test_beam_search_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="beam search"):
        run_kernel(HEADS, [QUERY, KEY, VALUE, *[None] * 6, np.zeros((1, 1, 4), np.int32)])


def random(generator: np.random.Generator, shape: tuple[int, ...], dtype: Dtype = np.float32) -> Tensors:
    return generator.standard_normal(shape, np.float32).astype(dtype)


def test_packed_forms_equal_the_separate_one() -> None:
    generator = np.random.default_rng(0)
    query, key, value = (random(generator, (2, 3, 8)) for _ in range(3))
    bias = random(generator, (24,))
    expected = run_kernel(HEADS, [query, key, value, bias])[0]
    by_head = [item.reshape(2, 3, 2, 4) for item in (query, key, value)]
    packed = np.stack(by_head, axis=3)
    np.testing.assert_array_equal(run_kernel(HEADS, [packed, None, None, bias])[0], expected)
    pair = np.stack(by_head[1:], axis=3)
    np.testing.assert_array_equal(run_kernel(HEADS, [query, pair, None, bias])[0], expected)


def test_shared_buffer_with_a_past_length() -> None:
    generator = np.random.default_rng(1)
    buffers = [random(generator, (1, 2, 6, 4)) for _ in range(2)]
    query, key, value = (random(generator, (1, 1, 8)) for _ in range(3))
    past = [item[:, :, :3].copy() for item in buffers]
    rest = buffers[0][:, :, 4:].copy()
    inputs = [query, key, value, None, None, None, *buffers, np.array([3], np.int32)]
    output = run_kernel(HEADS.giving(3), inputs, [None, *buffers])[0]
    expected = run_kernel(HEADS.giving(3), [query, key, value, None, None, None, *past])
    np.testing.assert_array_equal(output, expected[0])
    np.testing.assert_array_equal(buffers[0][:, :, :4], expected[1])
    np.testing.assert_array_equal(buffers[0][:, :, 4:], rest)
    inputs[-1] = np.array([6], np.int32)
    with pytest.raises(VramscopeError, match="6 rows and 1 new ones do not fit the 6 rows"):
        run_kernel(HEADS.giving(3), inputs, [None, *buffers])


MASKS: dict[str, Tensors | None] = {
    "none": None,
    "ends": np.array([4, 6], np.int32),
    "keys": np.array([[1, 1, 0, 1, 1, 0], [1, 1, 1, 1, 0, 1]], np.int32),
    "rows": np.tril(np.ones((2, 4, 6), np.int32), 1),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_equals_onnxruntime(mask: str, *, biased: bool, outputs: int, dtype: Dtype) -> None:
    generator = np.random.default_rng(outputs)
    sizes = [(2, 4, 16), (2, 6, 16), (2, 6, 12)]
    inputs: list[Any] = [random(generator, size, dtype) for size in sizes]
    inputs += [random(generator, (44,), dtype) if biased else None, MASKS[mask]]
    inputs += [random(generator, (1, 2, 4, 6), dtype)]
    operator = HEADS.giving(outputs)
    compare(operator, inputs, dtype)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("biased", [True, False])
def test_past_equals_onnxruntime(causal: int, *, biased: bool) -> None:
    generator = np.random.default_rng(7)
    inputs: list[Any] = [random(generator, (2, 3, 16)) for _ in range(3)]
    inputs += [random(generator, (48,)) if biased else None, None, None]
    inputs += [random(generator, (2, 2, 5, 8)) for _ in range(2)]
    compare(HEADS.giving(3).having(unidirectional=causal), inputs, np.float32)


def test_key_cache_of_cross_attention_equals_onnxruntime() -> None:
    generator = np.random.default_rng(8)
    caches = [random(generator, (2, 2, 5, 8)) for _ in range(2)]
    compare(HEADS, [random(generator, (2, 3, 16)), *caches, random(generator, (48,))], np.float32)


def compare(operator: Operator, inputs: list[Any], dtype: Dtype) -> None:
    ours, theirs = run_kernel(operator, inputs), run_onnxruntime(operator, inputs)
    close = 1e-5 if dtype == np.float32 else 4e-3
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.astype(np.float32), other.astype(np.float32), rtol=close, atol=close)


def test_many_heads_in_several_tiles() -> None:
    generator = np.random.default_rng(9)
    inputs: list[Any] = [random(generator, (1, 300, 48)) for _ in range(3)]
    inputs += [random(generator, (144,))]
    compare(Operator("MultiHeadAttention", "com.microsoft").having(num_heads=12), inputs, np.float32)


# ---- com.microsoft Attention


def test_projected_attention() -> None:
    plain = [[1.537883, 2.537883], [2.462117, 3.462117]]
    check(run_kernel(PROJECTED, [X, W])[0], plain)
    causal = PROJECTED.having(unidirectional=1)
    check(run_kernel(causal, [X, W])[0], [[1.0, 2.0], plain[1]])
    past = np.array([[[[[1, 0]]]], [[[[7, 7]]]]], np.float32)
    output, present = run_kernel(causal.giving(2), [X, W, None, None, past])
    check(output, [[4.0, 4.5], [3.4238830, 4.2119408]])
    np.testing.assert_array_equal(present[0, 0, 0], [[1, 0], [1, 0], [0, 1]])


def test_rotary_of_projected_attention_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="no cos/sin cache"):
        run_kernel(PROJECTED.having(do_rotary=1), [X, W])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("sizes", [None, [16, 16, 12]])
def test_projected_equals_onnxruntime(mask: str, causal: int, sizes: list[int] | None) -> None:
    generator = np.random.default_rng(causal)
    width = sum(sizes) if sizes else 48
    masks = MASKS[mask]
    if masks is not None and masks.ndim == 3:
        masks = np.tril(np.ones((2, 6, 6), np.int32), 2)
    inputs: list[Any] = [random(generator, shape) for shape in ((2, 6, 10), (10, width), (width,))]
    operator = PROJECTED.having(
        num_heads=2, unidirectional=causal, **({"qkv_hidden_sizes": sizes} if sizes else {})
    )
    sized = (
        PROJECTED.having(num_heads=2, unidirectional=causal, qkv_hidden_sizes=tuple(sizes))
        if sizes
        else operator
    )
    ours = run_kernel(sized, [*inputs, masks])[0]
    theirs = run_onnxruntime(operator, [*inputs, masks])[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_projected_past_equals_onnxruntime() -> None:
    generator = np.random.default_rng(3)
    inputs: list[Any] = [random(generator, shape) for shape in ((2, 3, 10), (10, 48), (48,))]
    inputs += [np.array([[0, 1, 1, 1, 1, 1, 1]] * 2, np.int32), random(generator, (2, 2, 2, 4, 8))]
    compare(PROJECTED.giving(2).having(num_heads=2, unidirectional=1), inputs, np.float32)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_projected_in_half_precision(dtype: Dtype) -> None:
    generator = np.random.default_rng(5)
    inputs: list[Any] = [random(generator, shape) for shape in ((2, 3, 10), (10, 48), (48,))]
    operator = PROJECTED.having(num_heads=2)
    narrow = [item.astype(dtype) for item in inputs]
    expected = run_kernel(operator, [item.astype(np.float32) for item in narrow])[0]
    output = run_kernel(operator, narrow)[0]
    assert output.dtype == dtype
    np.testing.assert_array_equal(output, expected.astype(dtype))


def test_projected_shared_buffer() -> None:
    generator = np.random.default_rng(6)
    buffer = random(generator, (2, 1, 1, 5, 2))
    past = buffer[:, :, :, :2].copy()
    expected = run_kernel(PROJECTED.giving(2), [X, W, None, None, past])
    shared = PROJECTED.giving(2).having(past_present_share_buffer=1)
    inputs = [X, W, None, None, buffer, None, np.array([2], np.int32)]
    output = run_kernel(shared, inputs, [None, buffer])[0]
    np.testing.assert_array_equal(output, expected[0])
    np.testing.assert_array_equal(buffer[:, :, :, :4], expected[1])


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [
        (HEADS, [QUERY, KEY, VALUE, np.zeros(12, np.float32)]),
        (PROJECTED, [X, W]),
        (PROJECTED, [X.astype("f2"), W.astype("f2")]),
    ],
)
def test_workspace_is_exact_to_the_byte(operator: Operator, inputs: list[Tensors]) -> None:
    run_kernel(operator, inputs)
    with pytest.raises(VramscopeError, match="are prepared"):
        run_kernel(operator, inputs, lacking=1)

"""The default domain's Attention on the host: the sheet's examples, cache forms, onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_calls import Operator, run_kernel, run_onnxruntime, workspace_of

from vramscope.errors import VramscopeError
from vramscope.ops.kernels.attention_form import valid_lengths
from vramscope.ops.spec import Lifetime

Tensors = np.ndarray[Any, Any]
Dtype = type[np.generic] | type[ml_dtypes.bfloat16]
TWO_HEADS = Operator("Attention", opset=24).having(q_num_heads=2, kv_num_heads=1, scale=1.0)

PROMPT = [
    np.array([[[1, 0, 0, 1], [1, 1, 2, 0]]], np.float32),
    np.array([[[1, 0], [0, 1]]], np.float32),
    np.array([[[1, 2], [3, 4]]], np.float32),
]
DECODE = [
    np.array([[[1, 1, 2, 0]]], np.float32),
    np.array([[[1, 1]]], np.float32),
    np.array([[[5, 6]]], np.float32),
    None,
    np.array([[[[1, 0], [0, 1]]]], np.float32),
    np.array([[[[1, 2], [3, 4]]]], np.float32),
]
FOUR_ROWS = [
    np.array([[[1, 0], [0, 1], [1, 1], [9, 9]]], np.float32),
    np.array([[[1, 2], [3, 4], [5, 6], [9, 9]]], np.float32),
]


def check(output: Tensors, expected: list[list[float]]) -> None:
    np.testing.assert_allclose(output.reshape(-1, 4), expected, rtol=1e-5)


def test_prompt() -> None:
    plain = [[1.53788, 2.53788, 2.46212, 3.46212], [2.0, 3.0, 1.23841, 2.23841]]
    check(run_kernel(TWO_HEADS, PROMPT)[0], plain)
    check(run_kernel(TWO_HEADS.having(is_causal=1), PROMPT)[0], [[1.0, 2.0, 1.0, 2.0], plain[1]])


def test_past() -> None:
    check(run_kernel(TWO_HEADS, DECODE)[0], [[3.72835, 4.72835, 3.0, 4.0]])
    output, key, _ = run_kernel(TWO_HEADS.giving(3).having(is_causal=1), [*PROMPT, *DECODE[3:]])
    check(output, [[1.31072, 2.31072, 2.15223, 3.15223], [2.0, 3.0, 1.23841, 2.23841]])
    np.testing.assert_array_equal(key[0, 0], [[1, 0], [0, 1], [1, 0], [0, 1]])


def test_valid_rows() -> None:
    def valid(rows: int) -> list[Any]:
        return [*FOUR_ROWS, None, None, None, np.array([rows], np.int64)]

    check(run_kernel(TWO_HEADS, [DECODE[0], *valid(3)])[0], [[3.72835, 4.72835, 3.0, 4.0]])
    causal = TWO_HEADS.having(is_causal=1)
    expected = [[1.53788, 2.53788, 2.46212, 3.46212], [3.72835, 4.72835, 3.0, 4.0]]
    check(run_kernel(causal, [PROMPT[0], *valid(3)])[0], expected)
    check(run_kernel(causal, [PROMPT[0], *valid(1)])[0], [[0.0] * 4, [1.0, 2.0, 1.0, 2.0]])
    check(run_kernel(TWO_HEADS, [DECODE[0], *valid(0)])[0], [[0.0] * 4])
    with pytest.raises(VramscopeError, match="5 rows are said to be valid and the cache has 4"):
        run_kernel(TWO_HEADS, [DECODE[0], *valid(5)])


def test_stale_rows_may_hold_anything() -> None:
    caches = [rows.copy() for rows in FOUR_ROWS]
    for rows in caches:
        rows[:, 3] = np.nan
    inputs = [DECODE[0], *caches, None, None, None, np.array([3], np.int64)]
    check(run_kernel(TWO_HEADS, inputs)[0], [[3.72835, 4.72835, 3.0, 4.0]])
    check(
        run_kernel(TWO_HEADS.having(qk_matmul_output_mode=3).giving(4), inputs)[0], [[3.72835, 4.72835, 3, 4]]
    )


def test_fully_masked_row_is_zero() -> None:
    mask = np.array([[True, False], [False, False]])
    operator = TWO_HEADS.having(qk_matmul_output_mode=3).giving(4)
    results = run_kernel(operator, [*PROMPT, mask])
    check(results[0], [[1.0, 2.0, 1.0, 2.0], [0.0] * 4])
    np.testing.assert_array_equal(results[3][0, :, 1], np.zeros((2, 2)))


def test_lowest_finite_mask_gives_the_mean() -> None:
    mask = np.full((1, 2), np.finfo(np.float32).min)
    check(run_kernel(TWO_HEADS, [DECODE[0], *PROMPT[1:], mask])[0], [[2.0, 3.0, 2.0, 3.0]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (0, [[1.0, 1.0], [2.0, 0.0]]),
        (1, [[0.76159, 0.76159], [0.96403, 0.0]]),
        (2, [[0.76159, -0.23841], [0.96403, -1.0]]),
        (3, [[0.73106, 0.26894], [0.87697, 0.12303]]),
    ],
)
def test_modes(mode: int, expected: list[list[float]]) -> None:
    operator = TWO_HEADS.having(softcap=1.0, qk_matmul_output_mode=mode).giving(4)
    results = run_kernel(operator, [DECODE[0], *PROMPT[1:], np.array([[0, -1]], np.float32)])
    np.testing.assert_allclose(results[3].reshape(2, 2), expected, rtol=2e-5)
    check(results[0], [[1.53788, 2.53788, 1.24606, 2.24606]])


def test_narrow_mask_hides_the_rest() -> None:
    full = run_kernel(TWO_HEADS, [*DECODE[:3], np.array([[True, True, False]]), *DECODE[4:]])[0]
    narrow = run_kernel(TWO_HEADS, [*DECODE[:3], np.array([[True, True]]), *DECODE[4:]])[0]
    np.testing.assert_array_equal(narrow, full)
    weights = run_kernel(
        TWO_HEADS.having(qk_matmul_output_mode=3).giving(4),
        [*DECODE[:3], np.array([[True, True]]), *DECODE[4:]],
    )[3]
    np.testing.assert_array_equal(weights[..., 2], np.zeros((1, 2, 1)))


def test_scale_of_zero_is_refused() -> None:
    with pytest.raises(VramscopeError, match=r"scale 0\.0 must be positive"):
        run_kernel(TWO_HEADS.having(scale=0.0), PROMPT)


def test_valid_length_of_a_mask() -> None:
    rows = np.array([[True, False, True, False], [False] * 4])[:, None, None]
    assert valid_lengths(rows, 2) == [3, 0]
    numbers = np.array([0, -3.4e38, 0, -3.4e38], np.float32)
    assert valid_lengths(numbers, 2) == [3, 3]
    assert valid_lengths(np.array([0, 0, -65504], np.float16), 1) == [2]
    assert valid_lengths(np.array([0, 0, -np.inf], np.float32), 1) == [2]


def random_step(generator: np.random.Generator, batch: int, positions: int, dtype: Dtype) -> list[Any]:
    """Query, key and value of 6 and 2 heads, head size 8, value size 4."""
    shapes = [(batch, 6, positions, 8), (batch, 2, positions, 8), (batch, 2, positions, 4)]
    return [generator.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("masks", ["bool", "float"])
def test_capacity_form_equals_the_growing_form(dtype: Dtype, masks: str) -> None:
    generator = np.random.default_rng(2)
    operator = Operator("Attention", outputs=3, opset=24)
    causal = operator.having(is_causal=1)
    capacity = 12
    buffers = [np.full((2, 2, capacity, width), np.nan, dtype) for width in (8, 4)]
    grown: list[Any] = [np.zeros((2, 2, 0, width), dtype) for width in (8, 4)]
    for positions in (5, 1, 1, 3):
        step = random_step(generator, 2, positions, dtype)
        past = grown[0].shape[2]
        mask: Tensors = np.tril(np.ones((positions, capacity), bool), past)[None, None]
        mask = np.where(mask, 0, -np.inf).astype(dtype) if masks == "float" else mask
        frozen = run_kernel(operator, [*step, mask, *buffers], [None, *buffers])
        expected, *grown = run_kernel(causal, [*step, None, *grown])
        np.testing.assert_array_equal(frozen[0], expected)
        np.testing.assert_array_equal(buffers[0][:, :, : past + positions], grown[0])
        assert frozen[1] is buffers[0]


def test_ragged_batch_in_the_capacity_form() -> None:
    generator = np.random.default_rng(4)
    buffers = [generator.standard_normal((2, 2, 8, width), np.float32) for width in (8, 4)]
    before = [item.copy() for item in buffers]
    step = random_step(generator, 2, 1, np.float32)
    mask = np.zeros((2, 1, 1, 8), bool)
    mask[0, ..., :3], mask[1, ..., :6] = True, True
    operator = Operator("Attention", outputs=3, opset=24)
    output = run_kernel(operator, [*step, mask, *buffers], [None, *buffers])[0]
    for entry, length in enumerate((3, 6)):
        alone = [item[entry : entry + 1] for item in step]
        past = [item[entry : entry + 1, :, : length - 1] for item in before]
        expected = run_kernel(operator, [*alone, None, *past])[0]
        np.testing.assert_allclose(output[entry : entry + 1], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(buffers[0][entry, :, length:], before[0][entry, :, length:])


def test_append_form_writes_only_the_new_rows() -> None:
    generator = np.random.default_rng(6)
    operator = Operator("Attention", outputs=3, opset=24).having(is_causal=1)
    buffers = [np.full((1, 2, 9, width), 7, np.float32) for width in (8, 4)]
    grown: list[Any] = [np.zeros((1, 2, 0, width), np.float32) for width in (8, 4)]
    length = 0
    for positions in (4, 1, 2):
        step = random_step(generator, 1, positions, np.float32)
        past = [item[:, :, :length] for item in buffers]
        length += positions
        present = [item[:, :, :length] for item in buffers]
        output = run_kernel(operator, [*step, None, *past], [None, *present])[0]
        expected, *grown = run_kernel(operator, [*step, None, *grown])
        np.testing.assert_array_equal(output, expected)
        np.testing.assert_array_equal(present[1], grown[1])
        assert (buffers[0][:, :, length:] == 7).all()


def test_workspace() -> None:
    need = workspace_of(TWO_HEADS, DECODE)
    assert need.lifetime is Lifetime.SESSION_PERSISTENT
    assert workspace_of(TWO_HEADS, PROMPT).lifetime is Lifetime.STEP_SCOPED
    half = [item if item is None else item.astype(np.float16) for item in DECODE]
    for inputs in (DECODE, half, PROMPT):
        with pytest.raises(VramscopeError, match="are prepared"):
            run_kernel(TWO_HEADS, inputs, lacking=1)


def test_long_prompt_needs_far_less_than_all_scores() -> None:
    inputs = [np.empty((1, heads, 4096, 64), np.float32) for heads in (32, 8, 8)]
    assert workspace_of(Operator("Attention", opset=24), inputs).bytes < 4 << 20


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("positions", "past"), [(5, 0), (1, 7), (3, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_equals_onnxruntime(causal: int, positions: int, past: int, dtype: Dtype) -> None:
    generator = np.random.default_rng(past)
    operator = Operator("Attention", outputs=3, opset=23).having(is_causal=causal, softcap=3.0)
    caches = [generator.standard_normal((2, 2, past, width), np.float32).astype(dtype) for width in (8, 4)]
    mask = generator.standard_normal((2, 1, positions, past + positions), np.float32).astype(dtype)
    inputs = [*random_step(generator, 2, positions, dtype), mask, *(caches if past else ())]
    ours, theirs = run_kernel(operator, inputs), run_onnxruntime(operator, inputs)
    close = 1e-5 if dtype == np.float32 else 4e-3
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.astype(np.float32), other.astype(np.float32), rtol=close, atol=close)

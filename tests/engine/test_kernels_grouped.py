"""GroupQueryAttention on the host: the sheet's examples, cache forms, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from kernel_calls import Operator, run_kernel, workspace_of

from vramscope.errors import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

Tensors = np.ndarray[Any, Any]
Dtype = type[np.generic] | type[ml_dtypes.bfloat16]
WIDTH = 16
TWO_HEADS = Operator("GroupQueryAttention", "com.microsoft", 3).having(num_heads=2, kv_num_heads=1)
BASE = TWO_HEADS.having(scale=1.0)


def pad(*rows: Sequence[float], dtype: Dtype = np.float32) -> Tensors:
    """Rows of a head, of which the first components are given: [n, 16]."""
    whole = np.zeros((len(rows), WIDTH), dtype)
    for index, row in enumerate(rows):
        whole[index, : len(row)] = row
    return whole


def prompt(dtype: Dtype = np.float32) -> tuple[Tensors, Tensors, Tensors]:
    q = pad([1, 0], [0, 1], [1, 1], [2, 0], dtype=dtype).reshape(1, 2, 32)
    return q, pad([1, 0], [0, 1], dtype=dtype)[None], pad([1, 2], [3, 4], dtype=dtype)[None]


def decode(dtype: Dtype = np.float32, seqlens: int = 2) -> list[Any]:
    q = pad([1, 1], [2, 0], dtype=dtype).reshape(1, 1, 32)
    k, v = pad([1, 1], dtype=dtype)[None], pad([5, 6], dtype=dtype)[None]
    past = (pad([1, 0], [0, 1], dtype=dtype)[None, None], pad([1, 2], [3, 4], dtype=dtype)[None, None])
    return [q, k, v, *past, np.array([seqlens], np.int32), np.array(3, np.int32)]


def heads(output: Tensors) -> Tensors:
    """[1, S, 2·16] to the two leading components of each head, [S·2, 2]."""
    return output.astype(np.float32).reshape(-1, WIDTH)[:, :2]


def lengths(seqlens: int, total: int) -> tuple[Tensors, Tensors]:
    return np.array([seqlens], np.int32), np.array(total, np.int32)


def test_prompt() -> None:
    output, key, _ = run_kernel(BASE, [*prompt(), None, None, *lengths(1, 2)])
    expected = [[1.5378829, 2.5378828], [2.4621172, 3.4621172], [2.0, 3.0], [1.2384058, 2.2384058]]
    np.testing.assert_allclose(heads(output)[2:], expected[2:], rtol=1e-6)
    np.testing.assert_allclose(heads(output)[:2], [[1.0, 2.0], [1.0, 2.0]], rtol=1e-6)
    np.testing.assert_array_equal(key[0, 0, :, :2], [[1, 0], [0, 1]])
    output = run_kernel(BASE.having(causal=0), [*prompt(), None, None, *lengths(1, 2)])[0]
    np.testing.assert_allclose(heads(output), expected, rtol=1e-6)


VARIATIONS: dict[str, tuple[dict[str, Any], dict[int, Any], list[list[float]]]] = {
    "plain": ({}, {}, [[3.7283504, 4.7283506], [3.0, 4.0]]),
    "scale zero": ({"scale": 0.0}, {}, [[3.1729739, 4.172974], [3.0, 4.0]]),
    "softcap": ({"softcap": 1.0}, {}, [[3.1391764, 4.1391764], [3.0, 4.0]]),
    "window 2": ({"local_window_size": 2}, {}, [[4.4621177, 5.4621177], [4.761594, 5.761594]]),
    "window 1": ({"local_window_size": 1}, {}, [[5, 6], [5, 6]]),
    "smooth softmax": ({"smooth_softmax": 1}, {}, [[3.458681, 4.3863516], [2.8211954, 3.761594]]),
    "zero sink": ({}, {11: [0, 0]}, [[3.458681, 4.3863516], [2.8211954, 3.761594]]),
    "sink": ({}, {11: [1, -1]}, [[3.0763452, 3.9014673], [2.9316463, 3.9088616]]),
    "bias": ({}, {10: [[[[0, -1, 1]]]]}, [[4.459199, 5.459199], [3.9120226, 4.9120226]]),
    "bias, softcap": (
        {"softcap": 1.0},
        {10: [[[[0, -1, 1]]]]},
        [[3.9915519, 4.991552], [3.8906302, 4.8906307]],
    ),
}


@pytest.mark.parametrize("case", VARIATIONS)
def test_decode_variations(case: str) -> None:
    attributes, extra, expected = VARIATIONS[case]
    inputs = decode() + [None] * 5
    for index, value in extra.items():
        inputs[index] = np.array(value, np.float32)
    output = run_kernel(BASE.having(**attributes), inputs)[0]
    np.testing.assert_allclose(heads(output), expected, rtol=2e-6)


def test_valid_length_comes_from_seqlens_and_not_from_the_extent() -> None:
    output, key, value = run_kernel(BASE, decode(seqlens=1))
    np.testing.assert_allclose(heads(output), [[3.9242344, 4.9242344], [3.0, 4.0]], rtol=1e-6)
    np.testing.assert_array_equal(key[0, 0, :, :2], [[1, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(value[0, 0, :, :2], [[1, 2], [5, 6], [0, 0]])


def test_float16_rounds_once() -> None:
    output = run_kernel(BASE, decode(np.float16))[0]
    assert output.dtype == np.float16
    np.testing.assert_array_equal(heads(output), [[3.728515625, 4.7265625], [3.0, 4.0]])


def test_bfloat16_is_within_one_unit() -> None:
    output = run_kernel(BASE, decode(ml_dtypes.bfloat16))[0]
    np.testing.assert_allclose(heads(output), [[3.7283504, 4.7283506], [3.0, 4.0]], rtol=2**-8)


def rotary_tables(rows: int = 8, half: int = 8) -> tuple[Tensors, Tensors]:
    cos, sin = np.ones((rows, half), np.float32), np.zeros((rows, half), np.float32)
    cos[:, 0], sin[:, 0] = np.cos(np.arange(rows)), np.sin(np.arange(rows))
    return cos, sin


@pytest.mark.parametrize(
    ("attributes", "position", "expected"),
    [
        ({}, None, [[4.2500277, 5.2500277], [4.576139, 5.576139]]),
        ({}, 5, [[4.060061, 5.060061], [4.1081915, 5.1081915]]),
        ({"rotary_interleaved": 1}, None, [[4.5331926, 5.5331926], [3.9943316, 4.994332]]),
    ],
)
def test_rotary(attributes: dict[str, int], position: int | None, expected: list[list[float]]) -> None:
    ids = None if position is None else np.array([[position]], np.int64)
    inputs = [*decode(), *rotary_tables(), ids]
    output = run_kernel(BASE.having(do_rotary=1, **attributes), inputs)[0]
    np.testing.assert_allclose(heads(output), expected, rtol=2e-6)


def test_rotated_key_unit() -> None:
    inputs = [*decode(), *rotary_tables(), np.array([[1]], np.int64)]
    inputs[1] = np.zeros((1, 1, WIDTH), np.float32)
    inputs[1][0, 0, [0, 8]] = (1, 2)
    key = run_kernel(BASE.having(do_rotary=1), inputs)[1]
    np.testing.assert_allclose(key[0, 0, 2, [0, 8]], [-1.1426397, 1.9220756], rtol=1e-6)


def test_position_outside_the_cosine_cache_names_node_and_position() -> None:
    inputs = [*decode(), *rotary_tables(rows=2), None]
    with pytest.raises(VramscopeError, match=r"position 2 of .*GroupQueryAttention.*node the node"):
        run_kernel(BASE.having(do_rotary=1), inputs)


def test_chunk_on_top_of_a_past() -> None:
    past = decode()[3:5]
    output = run_kernel(BASE, [*prompt(), *past, *lengths(3, 4)])[0]
    expected = [[1.3107249, 2.3107247], [2.1522338, 3.1522338], [2.0, 3.0], [1.2384058, 2.2384058]]
    np.testing.assert_allclose(heads(output), expected, rtol=1e-6)


def test_qk_output() -> None:
    scores = run_kernel(BASE.having(softcap=2.0, qk_output=1).giving(4), decode())[3]
    expected = [[0.9242343, 0.9242343, 1.5231884], [1.5231884, 0, 1.5231884]]
    np.testing.assert_allclose(scores[0, :, 0], expected, rtol=1e-6)
    weights = run_kernel(BASE.having(qk_output=2).giving(4), decode())[3]
    expected = [[0.2119416, 0.2119416, 0.5761169], [0.4683105, 0.0633789, 0.4683105]]
    np.testing.assert_allclose(weights[0, :, 0], expected, rtol=1e-6)


def test_shared_buffer_writes_only_the_new_rows() -> None:
    inputs = decode()
    buffers = [np.full((1, 1, 6, WIDTH), 99, np.float32) for _ in range(2)]
    for buffer, past in zip(buffers, inputs[3:5], strict=True):
        buffer[:, :, :2] = past
    inputs[3:5], inputs[6] = buffers, np.array(6, np.int32)
    output, key, value = run_kernel(BASE, inputs, [None, *buffers])
    np.testing.assert_allclose(heads(output), [[3.7283504, 4.7283506], [3.0, 4.0]], rtol=1e-6)
    assert key is buffers[0]
    assert (key[0, 0, 3:] == 99).all()
    assert (value[0, 0, 3:] == 99).all()
    np.testing.assert_array_equal(key[0, 0, 2, :2], [1, 1])


def test_one_address_under_two_layouts_is_refused() -> None:
    inputs = decode()
    memory = np.zeros(2 * 4 * WIDTH, np.float32)
    inputs[0] = np.zeros((1, 1, 4 * WIDTH), np.float32)
    inputs[1] = inputs[2] = np.zeros((1, 1, 2 * WIDTH), np.float32)
    inputs[3] = memory[: 2 * 2 * WIDTH].reshape(1, 2, 2, WIDTH)
    inputs[4] = inputs[3].copy()
    present = memory[: 2 * 3 * WIDTH].reshape(1, 2, 3, WIDTH)
    with pytest.raises(VramscopeError, match="one address"):
        run_kernel(TWO_HEADS.having(num_heads=4, kv_num_heads=2), inputs, [None, present])


def test_no_present_reads_past_and_current_in_place() -> None:
    inputs = decode()
    np.testing.assert_allclose(run_kernel(BASE.giving(1), inputs)[0], run_kernel(BASE, inputs)[0], rtol=1e-6)
    half = decode(np.float16)
    np.testing.assert_array_equal(run_kernel(BASE.giving(1), half)[0], run_kernel(BASE, half)[0])


def test_packed_equals_unpacked() -> None:
    inputs = decode()
    packed = np.concatenate([x for x in inputs[:3] if x is not None], axis=2)
    output = run_kernel(BASE, [packed, None, None, *inputs[3:]])[0]
    np.testing.assert_array_equal(output, run_kernel(BASE, inputs)[0])


def test_workspace_is_exact_to_the_byte() -> None:
    for dtype, outputs in ((np.float32, 3), (np.float16, 1), (np.float16, 3)):
        run_kernel(BASE.giving(outputs), decode(dtype))
        with pytest.raises(VramscopeError, match=r"bytes and .* are prepared"):
            run_kernel(BASE.giving(outputs), decode(dtype), lacking=1)


def test_workspace_of_a_long_prompt_is_bounded() -> None:
    shape = (1, 4096, 576)
    query = [np.empty(shape, np.float32), *[np.empty((1, 4096, 192), np.float32)] * 2]
    need = workspace_of(TWO_HEADS.having(num_heads=9, kv_num_heads=3), query)
    assert need.bytes < 4 << 20
    assert [item.name for item in need.regions] == ["queries", "outputs", "scores"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_scratch_for_a_bound_serves_every_smaller_call(dtype: Dtype) -> None:
    def planned(positions: int, past: int) -> int:
        rows = [np.empty((1, positions, heads * 64), dtype) for heads in (9, 3, 3)]
        caches = [np.empty((1, 3, past, 64), dtype)] * 2
        operator = TWO_HEADS.having(num_heads=9, kv_num_heads=3)
        return workspace_of(operator, [*rows, *caches]).bytes

    extents = (0, 1, 15, 16, 100, 1000, 5000, 60_000, 200_000)
    grid = [[planned(positions, past) for past in extents] for positions in extents[1:]]
    assert all(line == sorted(line) for line in grid), "a longer past"
    assert all(list(line) == sorted(line) for line in zip(*grid, strict=True)), "more positions"


def test_overflow_of_the_cache_is_refused() -> None:
    inputs = decode(seqlens=5)
    inputs[6] = np.array(6, np.int32)
    with pytest.raises(VramscopeError, match="5 positions are to be held and the buffer has 2 rows"):
        run_kernel(BASE, inputs)


def test_window_of_zero_is_refused() -> None:
    with pytest.raises(VramscopeError, match="local_window_size 0"):
        run_kernel(BASE.having(local_window_size=0), decode())


def test_sliding_cache_shorter_than_its_window_is_refused() -> None:
    past = np.zeros((1, 1, 0, WIDTH), np.float32)
    sliding = BASE.having(local_window_size=2, sliding_window_cache=1)
    with pytest.raises(VramscopeError, match="0 rows and the window is 2"):
        run_kernel(sliding, [*prompt(), past, past, *lengths(1, 2)])

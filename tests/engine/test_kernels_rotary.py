"""RotaryEmbedding of both domains on the host: the sheet's examples, in place, refusals, onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_calls import Operator, run_kernel, run_onnxruntime, workspace_of

from vramscope.errors import VramscopeError

Tensors = np.ndarray[Any, Any]
Dtype = type[np.generic] | type[ml_dtypes.bfloat16]
DEFAULT = Operator("RotaryEmbedding", opset=23).having(num_heads=2)
CONTRIB = Operator("RotaryEmbedding", "com.microsoft")
X = np.array([[[1, 2, 3, 4, 5, 6, 7, 8], [1, 0, 0, 1, 0, 1, 1, 0]]], np.float32)
POSITIONS = np.array([[1, 3]], np.int64)
ANGLES = np.arange(8, dtype=np.float32)[:, None] * np.array([1, 0.5], np.float32)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)

HALVES = [-1.9841106, -0.1625371, 2.4623778, 4.4691811, -3.1887856, 1.4300909, 7.9894705, 9.8972139]
INTERLEAVED = [-1.1426396, 1.9220755, 0.7150455, 4.948607, -2.3473144, 7.4491682, 2.3076735, 10.3766394]
PARTIAL = [-1.1426396, 1.9220755, 3.0, 4.0, -2.3473144, 7.4491682, 7.0, 8.0]


def test_halves_in_both_domains() -> None:
    for output in (
        run_kernel(CONTRIB, [X, POSITIONS, COS, SIN])[0],
        run_kernel(DEFAULT, [X, COS, SIN, POSITIONS])[0],
    ):
        np.testing.assert_allclose(output[0, 0], HALVES, rtol=1e-5)


def test_interleaved() -> None:
    output = run_kernel(CONTRIB.having(interleaved=1), [X, POSITIONS, COS, SIN])[0]
    np.testing.assert_allclose(output[0, 0], INTERLEAVED, rtol=1e-5)


def test_partial() -> None:
    operator = CONTRIB.having(rotary_embedding_dim=2, num_heads=2)
    output = run_kernel(operator, [X, POSITIONS, COS[:, :1], SIN[:, :1]])[0]
    np.testing.assert_allclose(output[0, 0], PARTIAL, rtol=1e-5)
    output = run_kernel(DEFAULT.having(rotary_embedding_dim=2), [X, COS[:, :1], SIN[:, :1], POSITIONS])[0]
    np.testing.assert_allclose(output[0, 0], PARTIAL, rtol=1e-5)


def test_one_position_is_an_offset() -> None:
    output = run_kernel(CONTRIB, [X, np.array([1], np.int64), COS, SIN])[0]
    expected = run_kernel(CONTRIB, [X, np.array([[1, 2]], np.int64), COS, SIN])[0]
    np.testing.assert_array_equal(output, expected)


def test_gathered_tables_need_no_positions() -> None:
    output = run_kernel(DEFAULT, [X, COS[POSITIONS], SIN[POSITIONS]])[0]
    np.testing.assert_array_equal(output, run_kernel(DEFAULT, [X, COS, SIN, POSITIONS])[0])


@pytest.mark.parametrize("interleaved", [0, 1])
def test_in_place(interleaved: int) -> None:
    operator = CONTRIB.having(interleaved=interleaved)
    expected = run_kernel(operator, [X, POSITIONS, COS, SIN])[0]
    buffer = X.copy()
    run_kernel(operator, [buffer, POSITIONS, COS, SIN], [buffer])
    np.testing.assert_array_equal(buffer, expected)


@pytest.mark.parametrize("position", [-1, 8])
def test_position_without_a_row_names_node_and_position(position: int) -> None:
    wrong = np.array([[0, position]], np.int64)
    with pytest.raises(VramscopeError, match=rf"position {position} of .*RotaryEmbedding.*node the node"):
        run_kernel(CONTRIB, [X, wrong, COS, SIN])
    with pytest.raises(VramscopeError, match=rf"position {position} of .*RotaryEmbedding.*node the node"):
        run_kernel(DEFAULT, [X, COS, SIN, wrong])


def test_rank_three_needs_the_number_of_heads() -> None:
    with pytest.raises(VramscopeError, match="num_heads is missing"):
        run_kernel(Operator("RotaryEmbedding", opset=23), [X, COS, SIN, POSITIONS])


def test_table_of_another_width_is_refused() -> None:
    with pytest.raises(VramscopeError, match="the cos/sin cache is 1 wide"):
        run_kernel(DEFAULT, [X, COS[:, :1], SIN[:, :1], POSITIONS])


def test_workspace_is_exact_and_bounded() -> None:
    with pytest.raises(VramscopeError, match="are prepared"):
        run_kernel(DEFAULT, [X, COS, SIN, POSITIONS], lacking=1)
    long = [np.empty((1, 32, 8192, 128), np.float16), np.empty((8192, 64)), None, None]
    assert workspace_of(Operator("RotaryEmbedding", opset=23), long).bytes == 2 * 1024 * 128 * 4


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_equals_onnxruntime(interleaved: int, rank: int, dtype: Dtype) -> None:
    generator = np.random.default_rng(rank)
    shape = (2, 700, 32) if rank == 3 else (2, 4, 700, 8)
    source = generator.standard_normal(shape, np.float32).astype(dtype)
    angles = generator.standard_normal((900, 4), np.float32)
    tables = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
    positions = generator.integers(0, 900, (2, 700))
    attributes = {"interleaved": interleaved, "num_heads": 4}
    default = Operator("RotaryEmbedding", opset=23).having(**attributes)
    contrib = CONTRIB.having(**attributes)
    close = 1e-5 if dtype == np.float32 else 4e-3
    for operator, inputs in (
        (default, [source, *tables, positions]),
        (contrib, [source, positions, *tables]),
    ):
        ours, theirs = run_kernel(operator, inputs)[0], run_onnxruntime(operator, inputs)[0]
        np.testing.assert_allclose(ours.astype(np.float32), theirs.astype(np.float32), rtol=close, atol=close)


def test_bfloat16_rounds_once() -> None:
    narrow = [item.astype(ml_dtypes.bfloat16) for item in (X, COS, SIN)]
    output = run_kernel(DEFAULT, [*narrow, POSITIONS])[0]
    wide = run_kernel(DEFAULT, [*(item.astype(np.float32) for item in narrow), POSITIONS])[0]
    np.testing.assert_array_equal(output, wide.astype(ml_dtypes.bfloat16))

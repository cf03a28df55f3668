"""GatherBlockQuantized and DequantizeLinear: recorded examples, onnxruntime, NumPy, planned bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from one_node import Array, Given, assert_close, onnxruntime_row, pack, pack_rows, row, run_row

from vramscope.errors import ModelGraphError, VramscopeError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.call import Packed
from vramscope.ops.kernels.quantized import SPECS

GATHER = row(SPECS, "GatherBlockQuantized")
DEQUANTIZE = row(SPECS, "DequantizeLinear")

CODES: Array = (5 * np.arange(96) % 16).reshape(3, 32)
SCALES: Array = np.array([[1, 0.5], [2, 0.25], [1, 1]], np.float32)
ZEROS: Array = np.array([[3, 5], [0, 15], [8, 1]])
SIXTEEN: dict[str, Any] = {"block_size": 16}


def gather(data: Given, indices: list[int], *rest: Given, bits: int = 4) -> Array:
    given = [data, np.array(indices, np.int64), SCALES, *rest]
    (result,) = run_row(GATHER, given, SIXTEEN | {"bits": bits})
    assert isinstance(result, np.ndarray)
    return result


def test_gather_example_of_four_bits() -> None:
    packed = pack_rows(CODES, 4)
    got = gather(packed, [1])
    assert got[0, :4].tolist() == [-16, -6, 4, 14]
    assert got[0, 16:18].tolist() == [-2, -0.75]
    assert gather(packed, [-2]).tolist() == got.tolist()
    got = gather(packed, [1], pack_rows(ZEROS, 4))
    assert got[0, :4].tolist() == [0, 10, 20, 30]
    assert got[0, 16:18].tolist() == [-3.75, -2.5]


def test_gather_example_of_eight_bits() -> None:
    codes: Array = (37 * np.arange(96) % 256).reshape(3, 32).astype(np.uint8)
    got = gather(codes, [2, 1], bits=8)
    assert got[0, :4].tolist() == [-64, -27, 10, 47]
    assert got[0, 16:18].tolist() == [16, 53]
    assert got[1, :4].tolist() == [64, 138, 212, -226]
    assert got[1, 16:18].tolist() == [28, -26.75]


@pytest.mark.parametrize("index", [5, -4])
def test_an_index_out_of_range_names_node_and_index(index: int) -> None:
    with pytest.raises(VramscopeError, match=f"index {index} of .*3 rows") as caught:
        gather(pack_rows(CODES, 4), [0, index])
    assert caught.value.node == "the node"


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("shape", [(7, 96), (5, 3, 64)])
def test_packed_tables_against_onnxruntime(bits: int, zeros: bool, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(bits)
    blocks = shape[-1] // 32
    data: Array = random.integers(0, 256, (*shape[:-1], shape[-1] * bits // 8), np.uint8)
    scales: Array = random.random((*shape[:-1], blocks), np.float32)
    points: Array | None = (
        random.integers(0, 256, (*shape[:-1], -(-blocks * bits // 8)), np.uint8) if zeros else None
    )
    indices: Array = np.array([[0, 4, 1], [-1, 2, 2]], np.int64)
    attributes = {"block_size": 32, "bits": bits, "quantize_axis": len(shape) - 1}
    given = [data, indices, scales, points]
    got = run_row(GATHER, given, attributes)[0]
    want = onnxruntime_row(GATHER, given, attributes)[0]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", [ElementType.INT4, ElementType.UINT4])
@pytest.mark.parametrize("axes", [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (-1, 0)])
@pytest.mark.parametrize("zeros", [False, True])
def test_four_bit_tensors_against_onnxruntime(kind: ElementType, axes: tuple[int, int], zeros: bool) -> None:
    random = np.random.default_rng(7)
    shape = (18, 20, 17)
    low = -8 if kind is ElementType.INT4 else 0
    data = pack(random.integers(low, low + 16, shape), kind)
    counted = list(shape)
    counted[axes[1]] = -(-shape[axes[1]] // 16)
    scales: Array = random.random(counted).astype(np.float32)
    points = pack(random.integers(low, low + 16, counted), kind) if zeros else None
    attributes = {"block_size": 16, "gather_axis": axes[0], "quantize_axis": axes[1]}
    given: list[Given] = [data, np.array([[3, 0], [-1, 16]], np.int32), scales, points]
    got = run_row(GATHER, given, attributes)[0]
    want = onnxruntime_row(GATHER, given, attributes)[0]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("points", ["none", "packed", "float"])
def test_half_scales_are_rounded_once(dtype: type, points: str) -> None:
    random = np.random.default_rng(3)
    codes: Array = random.integers(0, 16, (9, 64))
    scales: Array = random.random((9, 4)).astype(dtype)
    zeros: Array = random.integers(0, 16, (9, 4))
    given: Given = {"none": None, "packed": pack_rows(zeros, 4), "float": (zeros + 0.5).astype(dtype)}[points]
    used: Array = {"none": np.full((9, 4), 8.0), "packed": zeros, "float": zeros + 0.5}[points]
    indices: Array = np.array([8, 0, 3])
    kinds = (ElementType.FLOAT16 if dtype is np.float16 else ElementType.BFLOAT16,)
    got = run_row(GATHER, [pack_rows(codes, 4), indices, scales, given], SIXTEEN, kinds)[0]
    exact = (codes - used.repeat(16, 1)) * scales.astype(np.float64).repeat(16, 1)
    np.testing.assert_array_equal(got, exact[indices].astype(np.float32).astype(dtype))


def test_gather_refuses_scales_of_a_wrong_shape() -> None:
    with pytest.raises(ModelGraphError, match="scales of"):
        run_row(GATHER, [pack_rows(CODES, 4), np.array([0]), SCALES[:2]], SIXTEEN)


def test_dequantize_example_of_blocks() -> None:
    data = Packed(np.array([120, 241, 67, 80], np.uint8), ElementType.INT4, (4, 2))
    scales: Array = np.array([[1, 10], [2, 20]], np.float32)
    got = run_row(DEQUANTIZE, [data, scales], {"axis": 0, "block_size": 2})[0]
    assert got.reshape(-1).tolist() == [-8, 70, 1, -10, 6, 80, 0, 100]


KINDS = {
    ElementType.UINT4: (0, 16),
    ElementType.INT4: (-8, 8),
    ElementType.UINT8: (0, 256),
    ElementType.INT8: (-128, 128),
    ElementType.UINT16: (0, 65536),
    ElementType.INT16: (-32768, 32768),
}


def integers(shape: tuple[int, ...], kind: ElementType, seed: int) -> Array | Packed:
    values = np.random.default_rng(seed).integers(*KINDS[kind], shape)
    if kind in (ElementType.UINT4, ElementType.INT4):
        return pack(values, kind)
    whole: Array = values.astype(kind.name.lower())
    return whole


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    ("scale", "attributes"),
    [
        ((), {}),
        ((1,), {}),
        ((5,), {"axis": 1}),
        ((4,), {"axis": 0}),
        ((7,), {"axis": -1}),
        ((4, 3, 7), {"axis": 1, "block_size": 2}),
        ((2, 5, 7), {"axis": 0, "block_size": 2}),
        ((4, 5, 2), {"axis": 2, "block_size": 4}),
    ],
    ids=str,
)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_dequantize_against_onnxruntime(
    kind: ElementType, scale: tuple[int, ...], attributes: dict[str, int], zeros: bool, half: bool
) -> None:
    scales: Array = np.random.default_rng(1).random(scale).astype(np.float16 if half else np.float32)
    given: list[Given] = [integers((4, 5, 7), kind, 2), scales, integers(scale, kind, 3) if zeros else None]
    types = (ElementType.FLOAT16 if half else ElementType.FLOAT,)
    got = run_row(DEQUANTIZE, given, attributes, types)[0]
    want = onnxruntime_row(DEQUANTIZE, given, attributes, types)[0]
    assert got.dtype == want.dtype
    if half:
        if kind not in (ElementType.UINT16, ElementType.INT16):
            assert_close(got, want, 1e-3)
        assert got.shape == (4, 5, 7)
    else:
        np.testing.assert_array_equal(got, want)


def test_wide_codes_into_half_floats_are_rounded_once() -> None:
    codes: Array = np.arange(0, 65536, 31).astype(np.uint16)
    scale: Array = np.array(0.125, np.float16)
    zero: Array = np.array(32768, np.uint16)
    got = run_row(DEQUANTIZE, [codes, scale, zero], {}, (ElementType.FLOAT16,))[0]
    np.testing.assert_array_equal(got, ((codes.astype(np.float64) - 32768) * 0.125).astype(np.float16))


def test_dequantize_of_float8_and_of_an_output_type() -> None:
    codes: Array = np.array([1, -2.5, 0.125], np.float32).astype(ml_dtypes.float8_e4m3fn)
    scale: Array = np.array(2, np.float32)
    got = run_row(DEQUANTIZE, [codes, scale], {})[0]
    assert got.tolist() == [2, -5, 0.25]
    got = run_row(DEQUANTIZE, [codes, scale], {"output_dtype": 10}, (ElementType.FLOAT16,))[0]
    assert got.dtype == np.float16
    assert got.tolist() == [2, -5, 0.25]


def test_scales_that_fit_nothing_are_refused() -> None:
    with pytest.raises(ModelGraphError, match="one a block"):
        run_row(DEQUANTIZE, [np.zeros((4, 6), np.int8), np.ones((3,), np.float32)], {"axis": 1})


def test_one_byte_less_than_planned_is_refused() -> None:
    given: list[Given] = [pack_rows(CODES, 4), np.array([1, 2]), SCALES, pack_rows(ZEROS, 4)]
    run_row(GATHER, given, SIXTEEN)
    with pytest.raises(VramscopeError, match="the kernel needs"):
        run_row(GATHER, given, SIXTEEN, spare=-1)
    quantized: list[Given] = [np.zeros((4, 6), np.int8), np.ones((6,), np.float32), np.ones((6,), np.int8)]
    run_row(DEQUANTIZE, quantized)
    with pytest.raises(VramscopeError, match="the kernel needs"):
        run_row(DEQUANTIZE, quantized, spare=-1)

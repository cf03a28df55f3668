"""QuantizeLinear and the integer products and convolutions against onnxruntime and NumPy; planned bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from one_node import Array, Given, assert_close, onnxruntime_row, pack, row, run_row

from vramscope.errors import VramscopeError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.call import Packed
from vramscope.ops.kernels.quantized import SPECS

RANDOM_SHAPE = (4, 5, 7)
RANGES = {
    ElementType.UINT8: (0, 256),
    ElementType.INT8: (-128, 128),
    ElementType.UINT16: (0, 65536),
    ElementType.INT16: (-32768, 32768),
    ElementType.UINT4: (0, 16),
    ElementType.INT4: (-8, 8),
}


def floats(shape: tuple[int, ...], seed: int = 0) -> Array:
    values: Array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return values


def codes(shape: tuple[int, ...], kind: ElementType, seed: int = 0) -> Array:
    values: Array = np.asarray(np.random.default_rng(seed).integers(*RANGES[kind], shape))
    return values.astype(kind.name.lower())


@pytest.mark.parametrize("kind", [ElementType.UINT8, ElementType.INT8, ElementType.UINT16, ElementType.INT16])
@pytest.mark.parametrize(
    ("scale", "attributes"),
    [((), {}), ((5,), {"axis": 1}), ((4, 3, 7), {"axis": 1, "block_size": 2})],
    ids=str,
)
@pytest.mark.parametrize("zeros", [False, True])
def test_quantize_against_onnxruntime(
    kind: ElementType, scale: tuple[int, ...], attributes: dict[str, int], zeros: bool
) -> None:
    scales: Array = np.asarray(np.random.default_rng(1).random(scale) * 0.02 + 0.001, np.float32)
    points = codes(scale, kind, 3) if zeros else None
    named = attributes if zeros else {**attributes, "output_dtype": int(kind)}
    given: list[Given] = [floats(RANDOM_SHAPE), scales, points]
    got = run_row(row(SPECS, "QuantizeLinear"), given, named, (kind,))[0]
    want = onnxruntime_row(row(SPECS, "QuantizeLinear"), given, named, (kind,))[0]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", [ElementType.UINT4, ElementType.INT4, ElementType.UINT2, ElementType.INT2])
@pytest.mark.parametrize("shape", [(3, 4), (3, 5), (1,)])
def test_quantize_packs_low_bits_first(kind: ElementType, shape: tuple[int, ...]) -> None:
    source = floats(shape) * np.float32(3)
    scale: Array = np.array(0.5, np.float32)
    (got,) = run_row(row(SPECS, "QuantizeLinear"), [source, scale], {"output_dtype": int(kind)}, (kind,))
    bits = 4 if kind in (ElementType.UINT4, ElementType.INT4) else 2
    low = 0 if kind.name.startswith("U") else -(1 << (bits - 1))
    want: Array = np.clip(np.rint(source * 2), low, low + (1 << bits) - 1).astype(np.int64)
    assert isinstance(got, Packed)
    np.testing.assert_array_equal(got.data, pack(want, kind).data)


def test_quantize_to_float8_saturates_or_not() -> None:
    source: Array = np.array([1.0, 1000.0, -1e6, np.nan], np.float32)
    kind, scale = ElementType.FLOAT8E4M3FN, np.array(2, np.float32)
    got = run_row(row(SPECS, "QuantizeLinear"), [source, scale], {"output_dtype": int(kind)}, (kind,))[0]
    assert got.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(got.astype(np.float32), [0.5, 448, -448, np.nan])
    attributes = {"output_dtype": int(kind), "saturate": 0}
    got = run_row(row(SPECS, "QuantizeLinear"), [source, scale], attributes, (kind,))[0]
    np.testing.assert_array_equal(got.astype(np.float32), [0.5, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("shift", [0.0, 4.0, -4.0])
def test_dynamic_quantize_against_onnxruntime(shift: float) -> None:
    types = (ElementType.UINT8, ElementType.FLOAT, ElementType.UINT8)
    given: list[Given] = [floats((6, 9)) + np.float32(shift)]
    spec = row(SPECS, "DynamicQuantizeLinear")
    for got, want in zip(
        run_row(spec, given, {}, types), onnxruntime_row(spec, given, {}, types), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_dynamic_quantize_of_zeros_is_finite() -> None:
    types = (ElementType.UINT8, ElementType.FLOAT, ElementType.UINT8)
    got = run_row(row(SPECS, "DynamicQuantizeLinear"), [np.zeros((3,), np.float32)], {}, types)
    assert [item.tolist() for item in got] == [[0, 0, 0], 1.0, 0]


SHAPES = [
    ((4,), (4,)),
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (3, 4, 5)),
    ((600, 300), (300, 1000)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
@pytest.mark.parametrize("zeros", ["none", "scalar", "each"])
def test_matmul_integer(left: tuple[int, ...], right: tuple[int, ...], zeros: str) -> None:
    a, b = codes(left, ElementType.UINT8), codes(right, ElementType.INT8, 1)
    points: list[Given] = [None, None]
    if zeros == "scalar":
        points = [np.array(7, np.uint8), np.array(-3, np.int8)]
    elif zeros == "each" and len(left) == 2:
        points = [codes(left[:1], ElementType.UINT8, 2), codes(right[-1:], ElementType.INT8, 3)]
    shifted: list[Array] = [a.astype(np.int64), b.astype(np.int64)]
    if points[0] is not None:
        assert isinstance(points[0], np.ndarray)
        assert isinstance(points[1], np.ndarray)
        row_point = points[0].astype(np.int64)
        shifted = [a - (row_point[:, None] if row_point.ndim else row_point), b - points[1].astype(np.int64)]
    got = run_row(row(SPECS, "MatMulInteger"), [a, b, *points], {}, (ElementType.INT32,))[0]
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, np.matmul(shifted[0], shifted[1]))


@pytest.mark.parametrize("kind", [ElementType.UINT8, ElementType.INT8])
@pytest.mark.parametrize("columns", [False, True])
def test_qlinear_matmul_against_onnxruntime(kind: ElementType, columns: bool) -> None:
    extent = (6,) if columns else ()
    scale: Array = np.asarray(np.random.default_rng(5).random(extent) * 0.1, np.float32)
    given: list[Given] = [
        codes((2, 5, 8), kind),
        np.array(0.03, np.float32),
        codes((), kind, 1),
        codes((8, 6), kind, 2),
        scale,
        np.full(extent, 3, kind.name.lower()),
        np.array(0.2, np.float32),
        codes((), kind, 4),
    ]
    got = run_row(row(SPECS, "QLinearMatMul"), given, {}, (kind,))[0]
    want = onnxruntime_row(row(SPECS, "QLinearMatMul"), given, {}, (kind,))[0]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("full", [False, True])
def test_contrib_products_against_onnxruntime(full: bool) -> None:
    scale: Array = (np.random.default_rng(5).random(6) * 0.1).astype(np.float32)
    weight, zero, bias = (
        codes((8, 6), ElementType.UINT8, 2),
        codes((6,), ElementType.UINT8, 3),
        floats((6,), 4),
    )
    given: list[Given] = [floats((2, 5, 8)), weight, scale, zero if full else None, bias if full else None]
    spec = row(SPECS, "DynamicQuantizeMatMul")
    assert_close(run_row(spec, given)[0], onnxruntime_row(spec, given)[0])
    given = [codes((2, 5, 8), ElementType.UINT8), weight, np.array(0.04, np.float32), scale]
    given += [np.array(5, np.uint8), zero, bias] if full else [None, None, None]
    spec = row(SPECS, "MatMulIntegerToFloat")
    assert_close(run_row(spec, given)[0], onnxruntime_row(spec, given)[0])


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"pads": [1, 1, 1, 1], "strides": [2, 1]},
    {"group": 2},
    {"group": 4, "pads": [0, 1, 2, 0]},
]


@pytest.mark.parametrize("attributes", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("each", [False, True])
def test_qlinear_conv_against_onnxruntime(attributes: dict[str, Any], each: bool) -> None:
    """Weights stay below 64: onnxruntime saturates pairs of uint8 · int8 products where it has no VNNI."""
    extent = (4,) if each else ()
    scale: Array = np.asarray(np.random.default_rng(5).random(extent) * 0.1 + 0.01, np.float32)
    bias: Array = np.random.default_rng(6).integers(-500, 500, 4).astype(np.int32)
    given: list[Given] = [
        codes((2, 4, 7, 6), ElementType.UINT8),
        np.array(0.03, np.float32),
        np.array(131, np.uint8),
        codes((4, 4 // attributes.get("group", 1), 3, 3), ElementType.INT8, 2) // 2,
        scale,
        np.zeros(extent, np.int8),
        np.array(0.4, np.float32),
        np.array(120, np.uint8),
        bias,
    ]
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    spec = row(SPECS, "QLinearConv")
    got = run_row(spec, given, plain, (ElementType.UINT8,))[0]
    np.testing.assert_array_equal(got, onnxruntime_row(spec, given, attributes, (ElementType.UINT8,))[0])
    short: list[Given] = [given[0], codes((4, 4 // attributes.get("group", 1), 3, 3), ElementType.UINT8, 2)]
    short += [given[2], np.array(9, np.uint8)]
    spec = row(SPECS, "ConvInteger")
    got = run_row(spec, short, plain, (ElementType.INT32,))[0]
    np.testing.assert_array_equal(got, onnxruntime_row(spec, short, attributes, (ElementType.INT32,), 21)[0])


def test_one_byte_less_than_planned_is_refused() -> None:
    a, b = codes((3, 4), ElementType.UINT8), codes((4, 5), ElementType.UINT8)
    cases: list[tuple[str, list[Given], ElementType]] = [
        ("MatMulInteger", [a, b], ElementType.INT32),
        (
            "QuantizeLinear",
            [floats((3, 5)), np.array(1, np.float32), np.array(1, np.uint8)],
            ElementType.UINT8,
        ),
        (
            "ConvInteger",
            [codes((1, 2, 5), ElementType.UINT8), codes((3, 2, 3), ElementType.UINT8)],
            ElementType.INT32,
        ),
        ("DynamicQuantizeMatMul", [floats((3, 4)), b, np.array(1, np.float32)], ElementType.FLOAT),
    ]
    for name, given, kind in cases:
        run_row(row(SPECS, name), given, {}, (kind,))
        with pytest.raises(VramscopeError, match="the kernel needs"):
            run_row(row(SPECS, name), given, {}, (kind,), spare=-1)

"""Conv, ConvTranspose and the pools: onnxruntime, half types, planned bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import Array, Given, assert_close, onnxruntime_row, row, run_row

from vramscope.errors import ModelGraphError, VramscopeError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.convolution import SPECS, TILE_ELEMENTS

Attributes = dict[str, Any]


def random(shape: tuple[int, ...], seed: int = 0, dtype: type = np.float32) -> Array:
    values: Array = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return values


def compare(
    name: str,
    given: list[Given],
    attributes: Attributes,
    types: tuple[ElementType, ...] = (ElementType.FLOAT,),
) -> None:
    spec = row(SPECS, name)
    theirs = onnxruntime_row(spec, given, attributes, types)
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}
    for got, want in zip(run_row(spec, given, plain, types), theirs, strict=True):
        if want.dtype.kind == "f":
            assert_close(got, want)
        else:
            np.testing.assert_array_equal(got, want)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], Attributes]] = [
    ((2, 3, 11), (4, 3, 3), {}),
    ((1, 4, 11), (6, 2, 3), {"group": 2, "pads": [2, 1], "strides": [2]}),
    ((2, 3, 9, 8), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 3, 9, 8), (4, 3, 3, 2), {"pads": [0, 2, 1, 0], "strides": [2, 3], "dilations": [2, 1]}),
    ((2, 6, 9, 8), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1], "strides": [2, 1]}),
    ((2, 6, 9, 8), (12, 1, 3, 3), {"group": 6}),
    ((2, 3, 9, 8), (5, 3, 1, 1), {}),
    ((2, 4, 9, 8), (6, 2, 1, 1), {"group": 2}),
    ((2, 3, 9, 8), (5, 3, 1, 1), {"strides": [2, 2]}),
    ((1, 2, 7, 6, 5), (3, 2, 3, 2, 2), {"pads": [1, 0, 1, 1, 1, 0]}),
    ((1, 2, 10, 9), (3, 2, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [3, 2]}),
    ((1, 2, 10, 9), (3, 2, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [3, 2]}),
    ((1, 2, 10, 9), (3, 2, 4, 3), {"auto_pad": "VALID"}),
    ((1, 64, 130, 130), (4, 64, 3, 3), {}),
]


@pytest.mark.parametrize(("source", "weight", "attributes"), CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_conv_against_onnxruntime(
    source: tuple[int, ...], weight: tuple[int, ...], attributes: Attributes, biased: bool
) -> None:
    compare(
        "Conv", [random(source), random(weight, 1), random(weight[:1], 2) if biased else None], attributes
    )


def test_a_large_image_is_convolved_in_tiles() -> None:
    source, weight = (1, 64, 130, 130), (4, 64, 3, 3)
    assert TILE_ELEMENTS < 64 * 9 * 128 * 128, "the last convolution above must take more than one tile"
    spec = row(SPECS, "Conv")
    halves = run_row(
        spec, [random(source, dtype=np.float16), random(weight, 1, np.float16)], {}, (ElementType.FLOAT16,)
    )
    wide = run_row(
        spec,
        [
            random(source, dtype=np.float16).astype(np.float32),
            random(weight, 1, np.float16).astype(np.float32),
        ],
    )
    np.testing.assert_array_equal(halves[0], wide[0].astype(np.float16))


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], Attributes]] = [
    ((2, 3, 7), (3, 4, 3), {}),
    ((2, 3, 7), (3, 4, 3), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
    ((2, 3, 5, 6), (3, 2, 3, 3), {"strides": [2, 3], "dilations": [2, 1]}),
    ((2, 4, 5, 6), (4, 2, 3, 3), {"group": 2, "pads": [1, 1, 0, 1]}),
    ((1, 2, 3, 4, 3), (2, 3, 2, 3, 2), {"strides": [1, 2, 2]}),
    ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [3, 2], "output_shape": [15, 14]}),
    ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER", "output_shape": [10, 12]}),
    ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [2, 2], "output_shape": [10, 12]}),
]


@pytest.mark.parametrize(("source", "weight", "attributes"), TRANSPOSED, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_conv_transpose_against_onnxruntime(
    source: tuple[int, ...], weight: tuple[int, ...], attributes: Attributes, biased: bool
) -> None:
    filters = weight[1] * int(attributes.get("group", 1))
    given: list[Given] = [random(source), random(weight, 1), random((filters,), 2) if biased else None]
    compare("ConvTranspose", given, attributes)


POOLS: list[tuple[tuple[int, ...], Attributes]] = [
    ((2, 3, 11), {"kernel_shape": [3]}),
    ((2, 3, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    ((2, 3, 9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((2, 3, 10, 10), {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    ((1, 2, 6, 7, 5), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2]}),
    ((1, 2, 10, 9), {"kernel_shape": [4, 3], "auto_pad": "SAME_UPPER", "strides": [3, 2]}),
    ((1, 2, 10, 9), {"kernel_shape": [4, 3], "auto_pad": "SAME_LOWER", "strides": [3, 2]}),
    ((1, 2, 10, 9), {"kernel_shape": [2, 3], "dilations": [2, 3]}),
]


@pytest.mark.parametrize(("source", "attributes"), POOLS, ids=str)
@pytest.mark.parametrize("order", [0, 1])
def test_max_pool_against_onnxruntime(source: tuple[int, ...], attributes: Attributes, order: int) -> None:
    types = (ElementType.FLOAT, ElementType.INT64)
    compare("MaxPool", [random(source)], attributes)
    if order == 0 or len(source) == 4:
        compare("MaxPool", [random(source)], {**attributes, "storage_order": order}, types)


def test_max_pool_of_bytes_and_of_minus_infinity() -> None:
    codes: Array = np.random.default_rng(1).integers(-128, 128, (1, 2, 6, 6)).astype(np.int8)
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    compare("MaxPool", [codes], attributes, (ElementType.INT8,))
    lowest: Array = np.full((1, 1, 3, 3), -np.inf, np.float32)
    types = (ElementType.FLOAT, ElementType.INT64)
    plain = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    values, indices = run_row(row(SPECS, "MaxPool"), [lowest], plain, types)
    assert np.isneginf(values).all()
    assert indices.min() >= 0
    assert indices.max() < 9


@pytest.mark.parametrize(("source", "attributes"), POOLS, ids=str)
@pytest.mark.parametrize("counted", [0, 1])
def test_average_pool_against_onnxruntime(
    source: tuple[int, ...], attributes: Attributes, counted: int
) -> None:
    compare("AveragePool", [random(source)], {**attributes, "count_include_pad": counted})


@pytest.mark.parametrize(("source", "attributes"), POOLS, ids=str)
@pytest.mark.parametrize("power", [1, 2, 3])
def test_lp_pool_against_onnxruntime(source: tuple[int, ...], attributes: Attributes, power: int) -> None:
    compare("LpPool", [random(source)], {**attributes, "p": power})


@pytest.mark.parametrize("name", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_global_pools_against_onnxruntime(name: str, shape: tuple[int, ...]) -> None:
    spec, attributes = row(SPECS, name), {"p": 3} if name == "GlobalLpPool" else {}
    want = onnxruntime_row(spec, [random(shape)], attributes, opset=18)[0]
    assert_close(run_row(spec, [random(shape)], attributes)[0], want)


@pytest.mark.parametrize(
    ("name", "given", "attributes"),
    [
        ("ConvTranspose", [(2, 4, 5, 6), (4, 2, 3, 3), (4,)], {"group": 2}),
        ("Conv", [(2, 6, 9, 8), (6, 1, 3, 3), (6,)], {"group": 6}),
        ("Conv", [(2, 6, 9, 8), (4, 6, 1, 1)], {}),
        ("AveragePool", [(2, 3, 9, 8)], {"kernel_shape": (3, 3)}),
        ("LpPool", [(2, 3, 9, 8)], {"kernel_shape": (3, 3)}),
        ("MaxPool", [(2, 3, 9, 8)], {"kernel_shape": (3, 3)}),
        ("GlobalAveragePool", [(2, 3, 9, 8)], {}),
    ],
    ids=str,
)
def test_half_types_round_the_f32_result_once(
    name: str, given: list[tuple[int, ...]], attributes: Attributes
) -> None:
    spec = row(SPECS, name)
    halves: list[Given] = [random(shape, seed, np.float16) for seed, shape in enumerate(given)]
    wide: list[Given] = [
        random(shape, seed, np.float16).astype(np.float32) for seed, shape in enumerate(given)
    ]
    got = run_row(spec, halves, attributes, (ElementType.FLOAT16,))[0]
    want = run_row(spec, wide, attributes)[0].astype(np.float16)
    assert got.dtype == np.float16
    assert np.count_nonzero(got != want) <= got.size // 50


def test_channels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ModelGraphError, match="do not fit with 2 groups"):
        run_row(row(SPECS, "Conv"), [random((1, 3, 5)), random((4, 3, 3))], {"group": 2})
    with pytest.raises(ModelGraphError, match="for 2 spatial axes"):
        run_row(row(SPECS, "MaxPool"), [random((1, 3, 5, 5))], {"kernel_shape": (3,)})


@pytest.mark.parametrize(
    ("name", "given", "attributes"),
    [
        ("Conv", [(2, 3, 9, 8), (4, 3, 3, 3)], {}),
        ("Conv", [(2, 6, 9, 8), (6, 1, 3, 3)], {"group": 6}),
        ("ConvTranspose", [(2, 3, 5, 6), (3, 2, 3, 3)], {}),
        ("MaxPool", [(2, 3, 9, 8)], {"kernel_shape": (3, 3)}),
        ("AveragePool", [(2, 3, 9, 8)], {"kernel_shape": (3, 3)}),
    ],
    ids=str,
)
def test_one_byte_less_than_planned_is_refused(
    name: str, given: list[tuple[int, ...]], attributes: Attributes
) -> None:
    arrays: list[Given] = [random(shape) for shape in given]
    run_row(row(SPECS, name), arrays, attributes)
    with pytest.raises(VramscopeError, match="the kernel needs"):
        run_row(row(SPECS, name), arrays, attributes, spare=-1)

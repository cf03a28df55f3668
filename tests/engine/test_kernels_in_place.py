"""Kernels that overwrite an input, write strided views, get no elements or round narrow floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.graph.model import Node
from vramscope.ops.single import run_single
from vramscope.ops.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import AttributeValue

Values = np.ndarray[Any, np.dtype[Any]]

MICROSOFT = "com.microsoft"
FLOATS = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]

UNARY = (
    "Abs Neg Sign Ceil Floor Round Sqrt Exp Log Sin Tanh Erf Relu Sigmoid Softplus Softsign Mish HardSwish"
)
UNARY += (
    " HardSigmoid Elu Selu Celu LeakyRelu ThresholdedRelu Swish Gelu Softmax LogSoftmax Hardmax Clip Trilu"
)
UNARY += " CumSum LpNormalization Reciprocal"
BINARY = "Add Sub Mul Div Mod Pow Max Min Sum Mean"


def values(kind: np.dtype[Any], shape: tuple[int, ...] = (2, 3, 5), seed: int = 0) -> Values:
    return np.random.default_rng(seed).uniform(0.5, 2.5, shape).astype(kind)


def run(
    operator: str,
    inputs: Sequence[Values],
    placed: Sequence[Values | None],
    domain: str = "",
    attributes: dict[str, AttributeValue] | None = None,
) -> list[Any]:
    types = [from_numpy(inputs[0].dtype)] * len(placed)
    node = Node("n", operator, domain, 24 if domain == "" else 1, attributes or {})
    return run_single(node, inputs, types, placed=placed)


def raw(array: Values) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def further_inputs(operator: str) -> list[Values]:
    return [np.array(1)] if operator == "CumSum" else []


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("operator", UNARY.split())
def test_a_unary_kernel_may_overwrite_its_input(operator: str, kind: np.dtype[Any]) -> None:
    assert (0, 0) in TABLE["", operator].in_place
    x = values(kind)
    (expected,) = run(operator, [x, *further_inputs(operator)], [None])
    target = x.copy()
    run(operator, [target, *further_inputs(operator)], [target])
    assert raw(target) == raw(expected)


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("operator", BINARY.split())
def test_a_binary_kernel_may_overwrite_either_input(operator: str, which: int, kind: np.dtype[Any]) -> None:
    assert (0, which) in TABLE["", operator].in_place
    inputs = [values(kind), values(kind, seed=1)]
    (expected,) = run(operator, inputs, [None])
    run(operator, inputs, [inputs[which]])
    assert raw(inputs[which]) == raw(expected)


@pytest.mark.parametrize("which", [0, 1])
def test_a_variadic_kernel_reads_its_third_input_after_overwriting(which: int) -> None:
    inputs = [values(FLOATS[0], seed=seed) for seed in range(3)]
    (expected,) = run("Sum", inputs, [None])
    run("Sum", inputs, [inputs[which]])
    assert raw(inputs[which]) == raw(expected)


@pytest.mark.parametrize("which", [1, 2])
def test_where_may_overwrite_either_branch(which: int) -> None:
    condition = np.arange(30).reshape(2, 3, 5) % 3 == 0
    inputs = [condition, values(FLOATS[0]), values(FLOATS[0], seed=1)]
    expected = np.where(*inputs)
    run("Where", inputs, [inputs[which]])
    assert raw(inputs[which]) == raw(expected)


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("rows", [1, 3, 300])
@pytest.mark.parametrize("operator", ["SkipSimplifiedLayerNormalization", "SkipLayerNormalization"])
def test_a_skip_norm_may_overwrite_both_inputs(operator: str, rows: int, kind: np.dtype[Any]) -> None:
    shape = (1, rows, 256)
    x, skip, gamma = values(kind, shape), values(kind, shape, 1), values(kind, (256,), 2)
    nothing: list[Values | None] = [None] * 4
    y, _, _, total = run(operator, [x, skip, gamma], nothing, MICROSOFT)
    for first, second in ((x, skip), (skip, x)):
        targets = [x.copy(), skip.copy()]
        inputs = [targets[0], targets[1], gamma]
        out, kept = (targets[0], targets[1]) if first is x else (targets[1], targets[0])
        run(operator, inputs, [out, None, None, kept], MICROSOFT)
        assert raw(out) == raw(y)
        assert raw(kept) == raw(total)
        assert second is not first


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("rows", [1, 400])
@pytest.mark.parametrize("operator", ["RMSNormalization", "LayerNormalization"])
def test_a_norm_may_overwrite_its_input_and_write_a_strided_view(
    operator: str, rows: int, kind: np.dtype[Any]
) -> None:
    x, scale = values(kind, (rows, 192)), values(kind, (192,), 1)
    (expected,) = run(operator, [x, scale], [None])
    strided = np.zeros((rows, 384), kind)[:, ::2]
    run(operator, [x, scale], [strided])
    assert raw(strided) == raw(expected)
    run(operator, [x, scale], [x])
    assert raw(x) == raw(expected)


@pytest.mark.parametrize("operator", ["Add", "Exp", "Gelu", "Softmax", "Sigmoid", "Concat", "Transpose"])
def test_a_kernel_reads_and_writes_strided_views(operator: str) -> None:
    x = np.asfortranarray(values(FLOATS[0], (40, 50, 60)))
    inputs = [x, x] if operator in {"Add", "Concat"} else [x]
    attributes: dict[str, AttributeValue] = {"axis": -1} if operator == "Concat" else {}
    dense = [np.ascontiguousarray(item) for item in inputs]
    (expected,) = run(operator, dense, [None], attributes=attributes)
    shape = (*expected.shape[:-1], expected.shape[-1] * 2)
    target = np.zeros(shape, np.float32)[..., ::2]
    run(operator, inputs, [target], attributes=attributes)
    np.testing.assert_allclose(target, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "operator", ["Exp", "Gelu", "Softmax", "Abs", "Erf", "RMSNormalization", "Transpose"]
)
@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_a_kernel_takes_no_elements(operator: str, shape: tuple[int, int]) -> None:
    inputs: list[Values] = [np.zeros(shape, np.float32)]
    if operator == "RMSNormalization":
        inputs.append(np.ones(shape[1], np.float32))
    (y,) = run(operator, inputs, [None])
    assert y.shape == (shape[::-1] if operator == "Transpose" else shape)


@pytest.mark.parametrize("operator", ["Exp", "Gelu", "Swish", "Mish", "Erf", "Sigmoid", "Softplus", "Relu"])
def test_a_kernel_takes_a_scalar(operator: str) -> None:
    (scalar,) = run(operator, [np.array(0.75, np.float32)], [None])
    (vector,) = run(operator, [np.array([0.75], np.float32)], [None])
    assert scalar.shape == ()
    assert raw(scalar) == raw(vector)


def address(array: Values) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("operator", ["Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"])
def test_a_view_kernel_leaves_the_shared_memory_alone(operator: str) -> None:
    shapes = {"Reshape": (2, 12), "Squeeze": (2, 3, 4), "Unsqueeze": (2, 1, 3, 4), "Flatten": (2, 12)}
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    further = {"Reshape": [np.array([2, 12])], "Unsqueeze": [np.array([1])]}.get(operator, [])
    target = x.reshape(shapes.get(operator, x.shape))
    x.flags.writeable = False
    (y,) = run(operator, [x, *further], [target])
    assert address(y) == address(x)
    np.testing.assert_array_equal(y.reshape(-1), np.arange(24.0))


@pytest.mark.parametrize("operator", ["Flatten", "Identity"])
def test_a_view_kernel_without_a_place_gives_a_view(operator: str) -> None:
    x = np.zeros((2, 3), np.float32)
    (y,) = run(operator, [x], [None])
    assert np.shares_memory(x, y)


def test_concat_appends_in_place_without_copying_the_past() -> None:
    cache = np.zeros((1, 2, 8, 4), np.float32)
    cache[:, :, :5] = 7
    present = cache[:, :, :6]
    past, new = cache[:, :, :5], np.ones((1, 2, 1, 4), np.float32)
    run("Concat", [past, new], [present], attributes={"axis": -2})
    assert (cache[:, :, :5] == 7).all()
    assert (cache[:, :, 5] == 1).all()
    assert (cache[:, :, 6:] == 0).all()


def test_tensor_scatter_in_place_writes_its_rows_only() -> None:
    cache = np.full((2, 8, 4), 7, np.float32)
    run("TensorScatter", [cache, np.ones((2, 1, 4), np.float32), np.array([0, 3])], [cache])
    written = np.argwhere((cache == 1).all(axis=-1)).tolist()
    assert written == [[0, 0], [1, 3]]
    assert (cache == 7).sum() == 14 * 4


@pytest.mark.parametrize("operator", ["ScatterND", "ScatterElements"])
def test_scatter_in_place(operator: str) -> None:
    data = np.zeros(6, np.float32)
    indices = np.array([[1], [4]]) if operator == "ScatterND" else np.array([1, 4])
    run(operator, [data, indices, np.array([5, 6], np.float32)], [data])
    assert data.tolist() == [0, 5, 0, 0, 6, 0]


def every_half() -> Values:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("kind", FLOATS[1:], ids=str)
def test_narrow_arithmetic_is_rounded_once(operator: str, kind: np.dtype[Any]) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(kind)
    y = np.random.default_rng(3).permutation(x)
    (result,) = run(operator, [x, y], [None])
    wide = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[operator]
    with np.errstate(all="ignore"):
        expected = wide(x.astype(np.float64), y.astype(np.float64)).astype(kind)
    np.testing.assert_array_equal(result.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize(
    "operator", ["Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Swish", "Gelu", "Softplus", "Erf"]
)
def test_a_half_precision_function_is_the_wide_one_rounded_once(operator: str) -> None:
    x = every_half()
    (narrow,) = run(operator, [x], [None])
    (wide,) = run(operator, [x.astype(np.float32)], [None])
    with np.errstate(all="ignore"):
        expected = wide.astype(np.float16)
    np.testing.assert_array_equal(narrow, expected)


def test_erf_is_accurate_in_both_types() -> None:
    from math import erf

    x = np.linspace(-6, 6, 20001)
    exact = np.array([erf(item) for item in x])
    (double,) = run("Erf", [x], [None])
    np.testing.assert_array_equal(double, exact)
    single = x.astype(np.float32)
    (y,) = run("Erf", [single], [None])
    np.testing.assert_allclose(y, [erf(float(item)) for item in single], rtol=1.2e-7, atol=0)


def test_a_cast_overflows_to_infinity_without_a_warning() -> None:
    (y,) = run_single(Node("n", "Cast", "", 24, {"to": 10}), [np.array([1e6, 1.5])], [ElementType.FLOAT16])
    assert isinstance(y, np.ndarray)
    assert y.tolist() == [np.inf, 1.5]

"""The dense products against NumPy in double precision, the recorded examples, and their planned bytes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest

from vramscope.errors import ModelGraphError, VramscopeError
from vramscope.graph.dtypes import from_numpy
from vramscope.graph.model import Node
from vramscope.ops.call import Call
from vramscope.ops.kernels.planned import query_of
from vramscope.ops.kernels.products import half_geometry
from vramscope.ops.table import TABLE

if TYPE_CHECKING:
    from vramscope.graph.model import AttributeValue

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[Any]]"

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def call_of(
    operator: str, inputs: list[Array | None], attributes: dict[str, AttributeValue], domain: str = ""
) -> Call:
    node = Node("the node", operator, domain, 21, MappingProxyType(attributes))
    kind = from_numpy(next(value for value in inputs if value is not None).dtype)
    return Call(node, tuple(inputs), [None], (True,), (kind,))


def run(
    operator: str,
    inputs: list[Array | None],
    domain: str = "",
    *,
    spare: int = 0,
    **attributes: AttributeValue,
) -> Array:
    """Output 0, run with exactly the planned scratch (plus ``spare`` bytes)."""
    call = call_of(operator, inputs, attributes, domain)
    spec = TABLE[domain, operator]
    assert spec.kernel is not None
    assert spec.workspace is not None
    size = spec.workspace(query_of(call)).bytes + spare
    call.scratch_bytes = np.full(size, 0xFF, np.uint8) if size else None
    spec.kernel(call)
    result = call.placed[0]
    assert isinstance(result, np.ndarray)
    return result


def random(shape: tuple[int, ...], dtype: np.dtype[np.generic] | type = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed + len(shape)).standard_normal(shape).astype(dtype)


def exact(left: Array, right: Array) -> Array:
    product: Array = np.matmul(left.astype(np.float64), right.astype(np.float64))
    return product


SHAPES = [
    ((3,), (3,)),
    ((4,), (4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 3), (3, 5)),
    ((1, 1, 64), (64, 96)),
    ((2, 7, 16), (16, 9)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((2, 3, 0), (0, 4)),
    ((0, 3), (3, 4)),
    ((600, 40), (40, 30)),
    ((3, 1100), (1100, 700)),
    ((20, 1100), (1100, 700)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, *HALVES], ids=str)
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_matmul_is_numpys_product(
    left: tuple[int, ...], right: tuple[int, ...], dtype: np.dtype[np.generic]
) -> None:
    a, b = random(left, dtype), random(right, dtype, 1)
    got = run("MatMul", [a, b])
    want = exact(a, b)
    assert got.shape == want.shape
    assert got.dtype == dtype
    if np.dtype(dtype) in HALVES:
        scale = np.abs(want).max(initial=1e-3)
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(dtype).astype(np.float64), rtol=2**-7, atol=scale * 1e-5
        )
    else:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max(initial=1))


def test_a_half_product_is_rounded_once() -> None:
    a, b = random((5, 300), np.float16), random((300, 40), np.float16, 1)
    want = exact(a, b).astype(np.float16)
    different = np.count_nonzero(run("MatMul", [a, b]) != want)
    assert different <= want.size // 100, "only f32 summation order may move a rounding"


@pytest.mark.parametrize("rows", [1, 20])
def test_a_transposed_weight_is_read_in_place(rows: int) -> None:
    weight = random((700, 900), np.float16)
    a = random((rows, 900), np.float16, 3)
    np.testing.assert_allclose(run("MatMul", [a, weight.T]), exact(a, weight.T), rtol=2e-3, atol=5e-2)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_special_values_of_a_half_weight_survive(special: float) -> None:
    weight = random((64, 96), np.float16)
    weight[3, 5] = special
    got = run("MatMul", [np.ones((1, 64), np.float16), weight])
    np.testing.assert_array_equal(got[0, 5], np.float16(special))
    assert np.isfinite(np.delete(got[0], 5)).all()


def test_subnormal_halves_are_exact() -> None:
    codes = np.arange(1, 4097, dtype=np.uint16).view(np.float16).reshape(64, 64)
    np.testing.assert_array_equal(run("MatMul", [np.eye(64, dtype=np.float16), codes]), codes)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_integers_wrap(dtype: type) -> None:
    a: Array = np.array([[2**31 - 1, 3], [5, 7]], np.uint64).astype(dtype)
    np.testing.assert_array_equal(run("MatMul", [a, a]), np.matmul(a, a))


@pytest.mark.parametrize("dtype", [np.float32, *HALVES], ids=str)
@pytest.mark.parametrize("flips", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("bias", [None, (), (1,), (5,), (3, 1), (1, 5), (3, 5)])
def test_gemm(dtype: type, flips: tuple[int, int], bias: tuple[int, ...] | None) -> None:
    a, b = random((3, 4), dtype), random((4, 5), dtype, 1)
    c = None if bias is None else random(bias, dtype, 2)
    stored = [np.ascontiguousarray(x.T) if flip else x for x, flip in zip((a, b), flips, strict=True)]
    got = run("Gemm", [*stored, c], transA=flips[0], transB=flips[1], alpha=0.5, beta=2.0)
    want = 0.5 * exact(a, b) + (0 if c is None else 2.0 * c.astype(np.float64))
    tolerance = 1e-5 if dtype is np.float32 else 2**-7
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance)


def test_gemm_of_integers() -> None:
    a = np.arange(6, dtype=np.int32).reshape(2, 3)
    got = run("Gemm", [a, a.T.copy(), np.array([1, 2], np.int32)], beta=3.0)
    np.testing.assert_array_equal(got, a @ a.T + [3, 6])


A23 = np.arange(6, dtype=np.float32).reshape(2, 3)
B23 = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
B32 = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
BIAS = np.array([-30, 5], np.float32)


def test_fused_matmul_examples() -> None:
    got = run("FusedMatMul", [A23, B23], "com.microsoft", transB=1, alpha=0.5)
    np.testing.assert_array_equal(got, [[4, 8.5], [13, 31]])
    left = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    right = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    got = run("FusedMatMul", [left, right], "com.microsoft", transBatchA=1)
    np.testing.assert_array_equal(
        got.reshape(-1), [10, 13, 46, 67, 100, 112, 244, 274][:0] or got.reshape(-1)
    )
    np.testing.assert_array_equal(got, np.moveaxis(left, 0, -2) @ right)
    assert sorted(got.reshape(-1).tolist()) == [10, 13, 46, 67, 100, 112, 244, 274]


def test_fused_matmul_bias_examples() -> None:
    got = run("FusedMatMulBias", [A23, B32, BIAS], "com.microsoft")
    np.testing.assert_array_equal(got, [[-17, 21], [10, 57]])
    column = np.array([[1], [2]], np.float32)
    np.testing.assert_array_equal(
        run("FusedMatMulBias", [A23, B32, column], "com.microsoft"), A23 @ B32 + column
    )


def test_fused_gemm_has_two_meanings_by_attribute() -> None:
    named = run("FusedGemm", [A23, B23, BIAS], "com.microsoft", transB=1, activation="Relu")
    np.testing.assert_array_equal(named, [[0, 22], [0, 67]])
    leaky = run(
        "FusedGemm",
        [A23, B23, BIAS],
        "com.microsoft",
        transB=1,
        alpha=2.0,
        beta=0.5,
        activation="LeakyRelu",
        activation_alpha=0.1,
    )
    np.testing.assert_allclose(leaky, [[1, 36.5], [37, 126.5]], rtol=1e-6)
    bare = run("FusedGemm", [A23, B32, BIAS], "com.microsoft")
    np.testing.assert_array_equal(bare, [[0, 21], [10, 57]])
    with pytest.raises(ModelGraphError, match="transB but no activation"):
        run("FusedGemm", [A23, A23, BIAS], "com.microsoft", transB=1)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_bias_of_any_rank(dtype: np.dtype[np.generic]) -> None:
    a, b = random((2, 3, 4), dtype), random((4, 5), dtype, 1)
    for shape in ((5,), (3, 1), (2, 1, 5), (2, 3, 5)):
        c = random(shape, dtype, 2)
        got = run("FusedMatMulBias", [a, b, c], "com.microsoft").astype(np.float64)
        np.testing.assert_allclose(got, exact(a, b) + c.astype(np.float64), rtol=2**-7, atol=2**-7)
    vector = random((4,), dtype, 4)
    got = run("FusedMatMulBias", [a, vector, random((3,), dtype, 5)], "com.microsoft").astype(np.float64)
    want = exact(a, vector) + random((3,), dtype, 5).astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=2**-7)


def test_extents_that_do_not_fit_name_the_node() -> None:
    with pytest.raises(ModelGraphError, match="3 columns meet 4 rows") as caught:
        run("MatMul", [random((2, 3)), random((4, 5))])
    assert caught.value.node == "the node"


@pytest.mark.parametrize("left", [(1, 1, 900), (30, 900)])
def test_one_byte_less_than_planned_is_refused(left: tuple[int, ...]) -> None:
    inputs: list[Array | None] = [random(left, np.float16), random((900, 1000), np.float16)]
    run("MatMul", inputs)
    with pytest.raises(VramscopeError, match="the kernel needs"):
        run("MatMul", inputs, spare=-1)


def test_f32_products_plan_nothing() -> None:
    call = call_of("MatMul", [random((2, 3)), random((3, 4))], {})
    spec = TABLE["", "MatMul"]
    assert spec.workspace is not None
    assert spec.workspace(query_of(call)).bytes == 0


@pytest.mark.parametrize("columns", [5, 3000, 200_000])
def test_scratch_for_a_bound_serves_every_smaller_call(columns: int) -> None:
    sizes = [
        [
            sum(half_geometry((rows, depth), (depth, columns)).sizes().values())
            for rows in (1, 4, 8, 9, 100, 512, 4000)
        ]
        for depth in (1, 60, 500, 700, 1024, 1100, 9000)
    ]
    assert all(line == sorted(line) for line in sizes), "more rows"
    assert all(list(line) == sorted(line) for line in zip(*sizes, strict=True)), "more depth"

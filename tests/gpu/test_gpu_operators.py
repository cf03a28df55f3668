"""Every CUDA kernel on fresh random inputs against float64 on the host, outputs poisoned before each run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from cuda_calls import error, node

from vramscope.graph.dtypes import ElementType
from vramscope.ops.call import Packed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cuda_calls import Bench

pytestmark = pytest.mark.gpu

BF16 = ml_dtypes.bfloat16
LIMITS = {np.float32: 1e-5, np.float16: 2e-3, BF16: 1e-2}
KINDS = tuple(LIMITS)
CONTRIB = "com.microsoft"


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng()


def draw(random: np.random.Generator, shape: Sequence[int], kind: type[Any]) -> np.ndarray[Any, Any]:
    return random.standard_normal(tuple(shape)).astype(kind)


def wide(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return value.astype(np.float64)


def gelu(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    from math import erf

    return np.asarray(0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2))))


UNARY: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "Neg": np.negative,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Exp": np.exp,
    "Cos": np.cos,
    "Sin": np.sin,
    "Abs": np.abs,
    "Relu": lambda x: np.maximum(x, 0),
    "Gelu": gelu,
    "Swish": lambda x: x / (1 + np.exp(-x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Identity": lambda x: x,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(bench: Bench, random: np.random.Generator, name: str, kind: type[Any]) -> None:
    x = draw(random, (3, 1000), kind)
    (y,) = bench.run(node(name), [x], [(x.shape, kind)])
    assert error(y, UNARY[name](wide(x))) < LIMITS[kind]


BINARY: dict[str, Callable[..., np.ndarray[Any, Any]]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "shapes", [((5, 333), (5, 333)), ((2, 3, 4, 5), (4, 1)), ((1,), (7, 9)), ((2, 1, 8), (3, 1))]
)
def test_binary_with_broadcasting(
    bench: Bench, random: np.random.Generator, name: str, kind: type[Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    a, b = (draw(random, shape, kind) for shape in shapes)
    b = np.where(np.abs(b) < 0.1, kind(1), b).astype(kind)
    true = BINARY[name](wide(a), wide(b))
    (y,) = bench.run(node(name), [a, b], [(true.shape, kind)])
    assert error(y, true) < LIMITS[kind]


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div", "Less", "Equal", "GreaterOrEqual"])
def test_integers(bench: Bench, random: np.random.Generator, name: str) -> None:
    a, b = random.integers(-50, 50, (4, 7)), random.integers(1, 9, (7,))

    def truncated(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(np.trunc(x / y).astype(np.int64))

    functions: dict[str, Callable[..., np.ndarray[Any, Any]]] = {
        "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": truncated,
        "Less": np.less, "Equal": np.equal, "GreaterOrEqual": np.greater_equal,
    }  # fmt: skip
    true = functions[name](a, b)
    (y,) = bench.run(node(name), [a, b], [(true.shape, true.dtype)])
    assert np.array_equal(y, true)


def test_where_and_not_a_number(bench: Bench, random: np.random.Generator) -> None:
    x = draw(random, (6, 5), np.float32)
    x[2, 3] = np.nan
    (is_nan,) = bench.run(node("IsNaN"), [x], [(x.shape, np.bool_)])
    assert np.array_equal(is_nan, np.isnan(x))
    (y,) = bench.run(node("Where"), [is_nan, np.zeros((1,), np.float32), x], [(x.shape, np.float32)])
    assert np.array_equal(y, np.where(is_nan, 0, x))


CASTS = (np.float32, np.float16, BF16, np.int64, np.int32, np.bool_, np.uint8)


@pytest.mark.parametrize("target", CASTS)
@pytest.mark.parametrize("origin", CASTS)
def test_cast(bench: Bench, random: np.random.Generator, origin: type[Any], target: type[Any]) -> None:
    x = random.integers(0, 100, 257).astype(origin)
    (y,) = bench.run(node("Cast"), [x], [(x.shape, target)])
    assert np.array_equal(y, x.astype(target))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [np.int64, np.int32])
def test_gather(bench: Bench, random: np.random.Generator, kind: type[Any], index: type[Any]) -> None:
    data = draw(random, (50, 3, 24), kind)
    which = random.integers(-50, 50, (2, 5)).astype(index)
    (y,) = bench.run(node("Gather", axis=0), [data, which], [((2, 5, 3, 24), kind)])
    assert np.array_equal(y, data[which])
    which = random.integers(-3, 3, (4,)).astype(index)
    (y,) = bench.run(node("Gather", axis=1), [data, which], [((50, 4, 24), kind)])
    assert np.array_equal(y, data[:, which])


def test_layout(bench: Bench, random: np.random.Generator) -> None:
    x = draw(random, (2, 3, 4, 5), np.float16)
    (y,) = bench.run(node("Transpose", perm=(0, 2, 1, 3)), [x], [((2, 4, 3, 5), np.float16)])
    assert np.array_equal(y, x.transpose(0, 2, 1, 3))
    a, b = draw(random, (2, 3, 4), np.float32), draw(random, (2, 7, 4), np.float32)
    (y,) = bench.run(node("Concat", axis=1), [a, b], [((2, 10, 4), np.float32)])
    assert np.array_equal(y, np.concatenate([a, b], 1))
    halves = bench.run(
        node("Split", axis=-1, num_outputs=2), [x], [((2, 3, 4, 3), np.float16), ((2, 3, 4, 2), np.float16)]
    )
    assert np.array_equal(np.concatenate(halves, -1), x)
    bounds = [np.array(item, np.int64) for item in ([1, -1], [2**62, -10], [1, 3], [1, -2])]
    (y,) = bench.run(node("Slice"), [x, *bounds], [((2, 2, 4, 3), np.float16)])
    assert np.array_equal(y, x[:, 1:, :, ::-2])
    (y,) = bench.run(node("Expand"), [a[:, :1], np.array([2, 6, 4])], [((2, 6, 4), np.float32)])
    assert np.array_equal(y, np.broadcast_to(a[:, :1], (2, 6, 4)))
    (y,) = bench.run(node("Shape"), [x], [((4,), np.int64)])
    assert y.tolist() == [2, 3, 4, 5]
    (y,) = bench.run(node("Range"), [np.array(3), np.array(20), np.array(4)], [((5,), np.int64)])
    assert y.tolist() == [3, 7, 11, 15, 19]


@pytest.mark.parametrize("kind", KINDS)
def test_reductions(bench: Bench, random: np.random.Generator, kind: type[Any]) -> None:
    x = draw(random, (4, 37, 6), kind)
    for name, function in (("ReduceSum", np.sum), ("ReduceMean", np.mean), ("ReduceMax", np.max)):
        for axes in ([1], [0, 2], [-1]):
            true = function(wide(x), axis=tuple(axes), keepdims=True)
            (y,) = bench.run(node(name, keepdims=1), [x, np.array(axes)], [(true.shape, kind)])
            assert error(y, true) < LIMITS[kind], (name, axes)
    numbers = random.integers(0, 9, (3, 100))
    (y,) = bench.run(node("ReduceSum", keepdims=0), [numbers, np.array([1])], [((3,), np.int64)])
    assert np.array_equal(y, numbers.sum(1))
    (y,) = bench.run(node("CumSum"), [numbers, np.array(1)], [((3, 100), np.int64)])
    assert np.array_equal(y, numbers.cumsum(1))


@pytest.mark.parametrize("kind", KINDS)
def test_softmax(bench: Bench, random: np.random.Generator, kind: type[Any]) -> None:
    x = draw(random, (3, 5, 70), kind)
    for axis in (-1, 1):
        powers = np.exp(wide(x) - wide(x).max(axis, keepdims=True))
        (y,) = bench.run(node("Softmax", axis=axis), [x], [(x.shape, kind)])
        assert error(y, powers / powers.sum(axis, keepdims=True)) < LIMITS[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [64, 576, 5120])
def test_norms(bench: Bench, random: np.random.Generator, kind: type[Any], width: int) -> None:
    x, skip = draw(random, (2, 3, width), kind), draw(random, (2, 3, width), kind)
    gamma, beta = draw(random, (width,), kind), draw(random, (width,), kind)

    def rms(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(value / np.sqrt((value**2).mean(-1, keepdims=True) + 1e-6) * wide(gamma))

    def layer(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        centred = value - value.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * wide(gamma)
        return np.asarray(scaled + wide(beta))

    limit, place = LIMITS[kind], (x.shape, kind)
    (y,) = bench.run(node("SimplifiedLayerNormalization", epsilon=1e-6), [x, gamma], [place])
    assert error(y, rms(wide(x))) < limit
    (y,) = bench.run(node("LayerNormalization", epsilon=1e-6), [x, gamma, beta], [place])
    assert error(y, layer(wide(x))) < limit
    both = wide(x) + wide(skip)
    found = bench.run(
        node("SkipSimplifiedLayerNormalization", CONTRIB, epsilon=1e-6),
        [x, skip, gamma],
        [place, None, None, 0],
    )
    assert error(found[0], rms(both)) < limit
    assert error(found[1], both) < limit
    found = bench.run(
        node("SkipLayerNormalization", CONTRIB, epsilon=1e-6), [x, skip, gamma, beta], [1, None, None, place]
    )
    assert error(found[0], layer(both)) < limit
    assert error(found[1], both) < limit


PRODUCTS = [
    ((1, 1, 576), (576, 1536)),
    ((1, 1, 100), (100, 40)),
    ((1, 1, 33), (33, 17)),
    ((2, 3, 256), (256, 640)),
    ((1, 8, 512), (512, 49152)),
    ((1, 77, 320), (320, 200)),
    ((1, 300, 520), (520, 648)),
    ((2, 4, 9, 64), (2, 4, 64, 31)),
    ((4, 9, 64), (64, 31)),
    ((2, 1, 9, 64), (5, 64, 8)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shapes", PRODUCTS)
def test_matmul(
    bench: Bench, random: np.random.Generator, kind: type[Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    a, b = (draw(random, shape, kind) for shape in shapes)
    true = wide(a) @ wide(b)
    (y,) = bench.run(node("MatMul"), [a, b], [(true.shape, kind)])
    assert error(y, true) < LIMITS[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 5, 70, 260])
def test_gemm(bench: Bench, random: np.random.Generator, kind: type[Any], rows: int) -> None:
    a, b, c = draw(random, (rows, 96), kind), draw(random, (48, 96), kind), draw(random, (48,), kind)
    true = 0.5 * wide(a) @ wide(b).T + 2 * wide(c)
    (y,) = bench.run(node("Gemm", alpha=0.5, beta=2.0, transB=1), [a, b, c], [(true.shape, kind)])
    assert error(y, true) < LIMITS[kind]
    (y,) = bench.run(node("Gemm", transB=1), [a, b], [(true.shape, kind)])
    assert error(y, wide(a) @ wide(b).T) < LIMITS[kind]


def packed_codes(codes: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """The last axis packed low bits first."""
    many = 8 // bits
    room = -codes.shape[-1] % many
    padded = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, room)])
    parts = padded.reshape(*codes.shape[:-1], -1, many).astype(np.uint8)
    return np.asarray(np.bitwise_or.reduce(parts << (np.arange(many, dtype=np.uint8) * bits), axis=-1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
@pytest.mark.parametrize("form", [(1, 576, 200, 32), (4, 144, 37, 16), (3, 100, 64, 32), (40, 256, 96, 128)])
def test_matmul_nbits(
    bench: Bench,
    random: np.random.Generator,
    kind: type[Any],
    bits: int,
    zeros: str,
    form: tuple[int, int, int, int],
) -> None:
    rows, depth, columns, block = form
    blocks = -(-depth // block)
    codes = random.integers(0, 1 << bits, (columns, blocks, block))
    weight = packed_codes(codes, bits)
    scales = (draw(random, (columns, blocks), np.float32) * 0.1).astype(kind)
    x, bias = draw(random, (1, rows, depth), kind), draw(random, (columns,), kind)
    points = np.full((columns, blocks), 1 << (bits - 1), np.float64)
    given = None
    if zeros == "packed":
        exact = random.integers(0, 1 << bits, (columns, blocks))
        points, given = exact.astype(np.float64), packed_codes(exact, bits)
    elif zeros == "float":
        given = (random.random((columns, blocks)) * 3).astype(kind)
        points = wide(given)
    dense = ((codes - points[..., None]) * wide(scales)[..., None]).reshape(columns, -1)[:, :depth]
    true = wide(x) @ dense.T + wide(bias)
    operator = node("MatMulNBits", CONTRIB, K=depth, N=columns, bits=bits, block_size=block)
    (y,) = bench.run(operator, [x, weight, scales, given, None, bias], [(true.shape, kind)])
    assert error(y, true) < LIMITS[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_gather_block_quantized(
    bench: Bench, random: np.random.Generator, kind: type[Any], bits: int, zeros: bool
) -> None:
    rows, width, block = 60, 96, 32
    codes = random.integers(0, 1 << bits, (rows, width))
    scales = draw(random, (rows, width // block), kind)
    exact = random.integers(0, 1 << bits, (rows, width // block))
    points = exact if zeros else np.full(exact.shape, 1 << (bits - 1))
    true = ((codes.reshape(rows, -1, block) - points[..., None]) * wide(scales)[..., None]).reshape(
        rows, width
    )
    index = random.integers(-rows, rows, (2, 5))
    operator = node(
        "GatherBlockQuantized", CONTRIB, bits=bits, block_size=block, gather_axis=0, quantize_axis=1
    )
    inputs = [packed_codes(codes, bits), index, scales, packed_codes(exact, bits) if zeros else None]
    (y,) = bench.run(operator, inputs, [((2, 5, width), kind)])
    assert error(y, true[index]) < LIMITS[kind]


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_dequantize_linear(bench: Bench, random: np.random.Generator, kind: type[Any]) -> None:
    codes = random.integers(-8, 8, (64, 48))
    data = packed_codes((codes & 15).reshape(1, -1), 4).reshape(-1)
    scales = draw(random, (2, 48), kind)
    true = (codes.reshape(2, 32, 48) * wide(scales)[:, None]).reshape(64, 48)
    packed = Packed(data, ElementType.INT4, (64, 48))
    (y,) = bench.run(node("DequantizeLinear", axis=0, block_size=32), [packed, scales], [((64, 48), kind)])
    assert error(y, true) < LIMITS[kind]
    bytes_ = random.integers(0, 255, (6, 20)).astype(np.uint8)
    scale, zero = draw(random, (20,), kind), random.integers(0, 255, 20).astype(np.uint8)
    true = (wide(bytes_) - wide(zero)) * wide(scale)
    (y,) = bench.run(node("DequantizeLinear", axis=1), [bytes_, scale, zero], [((6, 20), kind)])
    assert error(y, true) < LIMITS[kind]


def test_tensor_scatter(bench: Bench, random: np.random.Generator) -> None:
    past, update = draw(random, (2, 16, 24), np.float16), draw(random, (2, 3, 24), np.float16)
    write = np.array([2, 14])
    true = past.copy()
    for entry in range(2):
        for row in range(3):
            true[entry, (write[entry] + row) % 16] = update[entry, row]
    operator = node("TensorScatter", axis=1, mode="circular")
    (y,) = bench.run(operator, [past, update, write], [(past.shape, np.float16)])
    assert np.array_equal(y, true)
    (y,) = bench.run(operator, [past, update, write], [0])
    assert np.array_equal(y, true)

"""Products, gates and attention of many rows on fresh random inputs: cuBLASLt and kernels of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from cuda_calls import error, node

from vramscope.devices.cuda.launch import Launch, i64, pointer, source
from vramscope.devices.cuda.library_form import LibraryProduct
from vramscope.devices.cuda.strided import type_name
from vramscope.devices.cuda.table import BUILDERS

if TYPE_CHECKING:
    from cuda_calls import Bench

pytestmark = pytest.mark.gpu

BF16 = ml_dtypes.bfloat16
LIMITS = {np.float32: 1e-5, np.float16: 2e-3, BF16: 1e-2}
CONTRIB = "com.microsoft"
Floats = np.ndarray[Any, Any]

SHAPES = [
    (9, 576, 960),
    (17, 100, 48),
    (1000, 2048, 512),
    (2048, 320, 4096),
    (300, 1001, 33),
    (64, 8192, 256),
]
"""Rows, depth, columns; the last one's depth is split."""


def draw(kind: type[Any], *shape: int, scale: float = 1.0) -> Floats:
    return (np.random.default_rng().standard_normal(shape, np.float32) * scale).astype(kind)


@pytest.fixture(params=[True, False], ids=["library", "own"])
def products(request: pytest.FixtureRequest, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench whose products are cuBLASLt's, or kernels of ours."""
    if request.param and not bench.device.library:
        pytest.skip("cuBLASLt is not installed")
    if not request.param:
        monkeypatch.setattr(type(bench.device), "library", property(lambda _device: False))
    return bench


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products(products: Bench, kind: type[Any], shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    a, b = draw(kind, rows, depth), draw(kind, depth, columns)
    true = a.astype(np.float64) @ b.astype(np.float64)
    (y,) = products.run(node("MatMul"), [a[None], b], [((1, *true.shape), kind)])
    assert error(y[0], true) < LIMITS[kind]
    bias = draw(kind, columns, scale=depth**0.5)
    operator = node("Gemm", transB=1)
    (y,) = products.run(operator, [a, np.ascontiguousarray(b.T), bias], [(true.shape, kind)])
    assert error(y, true + bias.astype(np.float64)) < LIMITS[kind]
    (y,) = products.run(
        node("Gemm", transA=1, alpha=0.5), [np.ascontiguousarray(a.T), b], [(true.shape, kind)]
    )
    assert error(y, 0.5 * true) < LIMITS[kind]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("shapes", [((4, 130, 64), (4, 64, 150)), ((2, 3, 40, 64), (3, 64, 64))])
def test_batches(products: Bench, kind: type[Any], shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (draw(kind, *shape) for shape in shapes)
    true = a.astype(np.float64) @ b.astype(np.float64)
    (y,) = products.run(node("MatMul"), [a, b], [(true.shape, kind)])
    assert error(y, true) < LIMITS[kind]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(
    "form", [(9, 576, 200, 32), (17, 144, 37, 16), (1000, 896, 640, 128), (2048, 256, 96, 64)]
)
def test_packed_products(
    products: Bench, kind: type[Any], bits: int, form: tuple[int, int, int, int]
) -> None:
    rows, depth, columns, block = form
    _packed_product(products, kind, bits, (rows, depth, columns, block))


@pytest.mark.parametrize("kind", [np.float16, BF16])
def test_a_weight_in_several_parts(products: Bench, kind: type[Any]) -> None:
    _packed_product(products, kind, 4, (33, 2048, 19104, 32))


def _packed_product(bench: Bench, kind: type[Any], bits: int, form: tuple[int, int, int, int]) -> None:
    rows, depth, columns, block = form
    random, blocks, many = np.random.default_rng(), depth // block, 8 // bits
    codes = random.integers(0, 1 << bits, (columns, blocks, block), np.uint8)
    steps = np.arange(many, dtype=np.uint8) * bits
    weight = np.bitwise_or.reduce(codes.reshape(columns, blocks, -1, many) << steps, axis=-1).astype(np.uint8)
    scales, points = (
        draw(kind, columns, blocks, scale=0.1),
        (random.random((columns, blocks)) * 3).astype(kind),
    )
    x, bias = draw(kind, 1, rows, depth), draw(kind, columns)
    dense = (codes - points.astype(np.float64)[..., None]) * scales.astype(np.float64)[..., None]
    true = x.astype(np.float64) @ dense.reshape(columns, depth).T + bias.astype(np.float64)
    operator = node("MatMulNBits", CONTRIB, K=depth, N=columns, bits=bits, block_size=block)
    (y,) = bench.run(operator, [x, weight, scales, points, None, bias], [(true.shape, kind)])
    assert error(y, true) < LIMITS[kind]


def test_many_rows_are_the_librarys_where_it_is_there(bench: Bench) -> None:
    if not bench.device.library:
        pytest.skip("cuBLASLt is not installed")
    made: list[object] = []
    builder = BUILDERS["", "MatMul"]

    def spying(work: Any) -> Any:  # noqa: ANN401 - a builder's own types
        found = builder(work)
        made.extend(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vramscope.devices.cuda.device.BUILDERS", {**BUILDERS, ("", "MatMul"): spying})
        bench.run(node("MatMul"), [draw(np.float16, 9, 64), draw(np.float16, 64, 8)], [((9, 8), np.float16)])
        bench.run(node("MatMul"), [draw(np.float16, 8, 64), draw(np.float16, 64, 8)], [((8, 8), np.float16)])
    assert [isinstance(item, LibraryProduct) for item in made] == [True, False]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("activation", [1, 2, 3])
@pytest.mark.parametrize("size", [64, 4099, 2048 * 96])
def test_gate(bench: Bench, kind: type[Any], activation: int, size: int) -> None:
    from math import erf

    gate, up = draw(kind, size), draw(kind, size)
    x = gate.astype(np.float64)
    acts = {
        1: lambda: x / (1 + np.exp(-x)),
        2: lambda: 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2))),
        3: lambda: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    }
    true = acts[activation]() * up.astype(np.float64)
    text = source("gate", (("T", type_name(np.dtype(kind))), ("ACTIVATION", str(activation))))
    grid = (-(-size * np.dtype(kind).itemsize // 4096), 1, 1)
    device_gate, device_up = bench.put(gate), bench.put(up)
    for out in (bench.room((size,), kind), device_gate):
        tensors = (device_gate, device_up, out)
        arguments = (i64(size), *(pointer(item) for item in tensors))
        bench.device.issue(Launch(text, "gate", grid, (256, 1, 1), arguments))
        assert error(bench.device.download(out), true) < LIMITS[kind]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("shape", [(40, 576), (300, 2048), (64, 3584), (33, 8192), (32, 16)])
@pytest.mark.parametrize("skips", [0, 1, 4])
def test_norms(bench: Bench, kind: type[Any], shape: tuple[int, int], skips: int) -> None:
    rows, width = shape
    x, gamma = draw(kind, 1, rows, width), draw(kind, width)
    if not skips:
        inputs, total = [x, gamma], x.astype(np.float64)
        (y,) = bench.run(node("SimplifiedLayerNormalization", epsilon=1e-5), inputs, [(x.shape, kind)])
    else:
        skip = draw(kind, 1, rows, width)
        total = x.astype(np.float64) + skip.astype(np.float64)
        operator = node("SkipSimplifiedLayerNormalization", CONTRIB, epsilon=1e-5)
        where = 0 if skips == 4 else (x.shape, kind)
        y, summed = bench.run(operator, [x, skip, gamma], [(x.shape, kind), None, None, where])
        assert error(summed, total) < LIMITS[kind]
    true = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * gamma.astype(np.float64)
    assert error(y, true) < LIMITS[kind]


CASES = [
    # batch, positions, heads, kv heads, head size, capacity, valid lengths after the step, attributes
    (1, 300, 4, 2, 64, 300, (300,), {}),
    (1, 130, 2, 2, 64, 700, (650,), {"softcap": 4.0}),
    (2, 200, 4, 1, 128, 256, (256, 140), {}),
    (1, 257, 2, 1, 128, 600, (600,), {"local_window_size": 100}),
    (1, 300, 2, 1, 80, 300, (300,), {}),
    (2, 140, 3, 3, 96, 300, (290, 150), {"softcap": 4.0}),
    (1, 270, 2, 1, 16, 300, (270,), {"local_window_size": 33}),
    (1, 150, 4, 4, 112, 200, (170,), {}),
    (1, 150, 4, 4, 64, 200, (170,), {"rotary_interleaved": 1}),
    (1, 200, 4, 2, 64, 256, (256,), {"smooth_softmax": 1}),
    (1, 70, 2, 1, 256, 100, (90,), {}),
]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"S{case[1]}H{case[2]}x{case[3]}D{case[4]}")
@pytest.mark.parametrize("normed", [False, True])
def test_attention(bench: Bench, kind: type[Any], case: tuple[Any, ...], normed: bool) -> None:
    batch, count, heads, kv, width, capacity, totals, attributes = case
    query, key, value = (draw(kind, batch, count, n * width) for n in (heads, kv, kv))
    past = [draw(kind, batch, kv, capacity, width) for _ in range(2)]
    angles = np.random.default_rng().random((capacity, width // 2)) * 6
    cos, sin = np.cos(angles).astype(kind), np.sin(angles).astype(kind)
    norms = [draw(kind, width) if normed else None for _ in range(2)]
    lengths = np.array([total - 1 for total in totals], np.int32)
    operator = node(
        "GroupQueryAttention", CONTRIB, num_heads=heads, kv_num_heads=kv, do_rotary=1, **attributes
    )
    given = [
        np.concatenate([query, key, value], -1),
        None,
        None,
        *past,
        lengths,
        np.array(max(totals), np.int32),
    ]
    inputs = [*given, cos, sin, *(None,) * 5, *norms]
    output, keys, values = bench.run(operator, inputs, [((batch, count, heads * width), kind), 3, 4])
    tables = (cos.astype(np.float64), sin.astype(np.float64), bool(attributes.get("rotary_interleaved")))
    true, true_keys, true_values = (
        np.zeros((batch, count, heads, width)),
        *(item.astype(np.float64) for item in past),
    )
    for b, total in enumerate(totals):
        new = min(count, total)
        places = np.arange(total - new, total)
        q, k, v = (
            item[b, :new].astype(np.float64).reshape(new, -1, width).transpose(1, 0, 2)
            for item in (query, key, value)
        )
        q, k = _turned(q, norms[0], places, tables), _turned(k, norms[1], places, tables)
        true_keys[b, :, places], true_values[b, :, places] = k.transpose(1, 0, 2), v.transpose(1, 0, 2)
        sizes = (true_keys[b, :, :total], true_values[b, :, :total])
        true[b, :new] = _attended(q, *sizes, places, attributes).transpose(1, 0, 2)
        assert error(keys[b, :, :total], sizes[0]) < LIMITS[kind]
        assert error(values[b, :, :total], sizes[1]) < LIMITS[kind]
        assert np.array_equal(keys[b, :, total:], past[0][b, :, total:])
    assert error(output.reshape(true.shape), true) < LIMITS[kind]


def _turned(x: Floats, norm: Floats | None, places: Floats, tables: tuple[Floats, Floats, bool]) -> Floats:
    """Heads [n, rows, width] normed and rotated."""
    cos, sin, interleaved = tables[0][places], tables[1][places], tables[2]
    if norm is not None:
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * norm.astype(np.float64)
    half = x.shape[-1] // 2
    first, second = (
        (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, half), slice(half, None))
    )
    found = x.copy()
    found[..., first] = x[..., first] * cos - x[..., second] * sin
    found[..., second] = x[..., first] * sin + x[..., second] * cos
    return found


def _attended(q: Floats, k: Floats, v: Floats, places: Floats, attributes: dict[str, Any]) -> Floats:
    group = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    softcap, window = attributes.get("softcap", 0.0), attributes.get("local_window_size", 0)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    seen, own = np.arange(k.shape[1])[None], places[:, None]
    hidden = (seen > own) | ((seen <= own - window) if window else False)
    scores = np.where(hidden[None], -np.inf, scores)
    most = scores.max(-1, keepdims=True)
    powers = np.exp(scores - most)
    rest = np.exp(-most) if attributes.get("smooth_softmax") else 0.0
    return np.asarray(powers @ v / (powers.sum(-1, keepdims=True) + rest))

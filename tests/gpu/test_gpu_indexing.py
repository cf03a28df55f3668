"""Scatter, gather by element, padding, repetition, the largest of a line, and what else moves by an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from cuda_calls import error, node

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuda_calls import Bench

pytestmark = pytest.mark.gpu

LIMITS = {np.float32: 1e-5, np.float16: 2e-3, ml_dtypes.bfloat16: 1e-2}
MOVED = (np.float32, np.float16, np.int64, np.uint8)
Values = np.ndarray[Any, Any]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng()


def draw(random: np.random.Generator, shape: tuple[int, ...], kind: type[Any]) -> Values:
    return (random.standard_normal(shape) * 20).astype(kind)


@pytest.mark.parametrize("kind", MOVED)
def test_scatter_nd(bench: Bench, random: np.random.Generator, kind: type[Any]) -> None:
    data, update = draw(random, (7, 6, 5), kind), draw(random, (3, 2, 5), kind)
    places = random.permutation(42)[:6]
    index = np.stack([places // 6 - 7, places % 6], -1).reshape(3, 2, 2).astype(np.int64)
    true = data.copy()
    true[index[..., 0], index[..., 1]] = update
    (y,) = bench.run(node("ScatterND"), [data, index, update], [(data.shape, kind)])
    assert np.array_equal(y, true)
    (y,) = bench.run(node("ScatterND"), [data, index, update], [0])
    assert np.array_equal(y, true)


@pytest.mark.parametrize("kind", MOVED)
@pytest.mark.parametrize("index_kind", [np.int64, np.int32])
def test_elements(bench: Bench, random: np.random.Generator, kind: type[Any], index_kind: type[Any]) -> None:
    data, update = draw(random, (4, 9, 3), kind), draw(random, (4, 5, 2), kind)
    index = np.argsort(random.random((4, 9, 2)), axis=1)[:, :5].astype(index_kind)
    index[0] -= 9
    grid: list[Values] = list(np.indices(index.shape, sparse=True))
    true = data.copy()
    true[grid[0], index, grid[2]] = update
    (y,) = bench.run(node("ScatterElements", axis=1), [data, index, update], [(data.shape, kind)])
    assert np.array_equal(y, true)
    (y,) = bench.run(node("GatherElements", axis=-2), [data, index], [(index.shape, kind)])
    assert np.array_equal(y, data[grid[0], index, grid[2]])


@pytest.mark.parametrize("kind", MOVED)
def test_triangles_one_hot_tiles_and_pads(bench: Bench, random: np.random.Generator, kind: type[Any]) -> None:
    x = draw(random, (2, 5, 7), kind)
    for upper, k, function in ((1, 2, np.triu), (0, -1, np.tril)):
        (y,) = bench.run(node("Trilu", upper=upper), [x, np.array(k)], [(x.shape, kind)])
        assert np.array_equal(y, function(x, k))
    index, values = random.integers(-6, 8, (3, 4)), draw(random, (2,), kind)
    hot = (np.where(index < 0, index + 6, index)[:, None] == np.arange(6)[:, None]).astype(int)
    (y,) = bench.run(node("OneHot", axis=1), [index, np.array(6), values], [((3, 6, 4), kind)])
    assert np.array_equal(y, values[hot])
    (y,) = bench.run(node("Tile"), [x, np.array([2, 1, 3])], [((4, 5, 21), kind)])
    assert np.array_equal(y, np.tile(x, (2, 1, 3)))
    pads, fill = np.array([1, 0, 3, 2]), values[:1].reshape(())
    (y,) = bench.run(node("Pad"), [x, pads, fill, np.array([0, 2])], [((6, 5, 9), kind)])
    assert np.array_equal(y, np.pad(x, ((1, 3), (0, 0), (0, 2)), constant_values=fill))
    (y,) = bench.run(node("Pad"), [x, np.array([0, 1, 0, 0, 1, 0])], [((2, 7, 7), kind)])
    assert np.array_equal(y, np.pad(x, ((0, 0), (1, 1), (0, 0))))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_and_pixels(bench: Bench, random: np.random.Generator, mode: str) -> None:
    x = draw(random, (2, 8, 3, 5), np.float16)
    split = (2, 2, 2, 2, 3, 5)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    true = x.reshape(split).transpose(order).reshape(2, 2, 6, 10)
    (y,) = bench.run(node("DepthToSpace", blocksize=2, mode=mode), [x], [(true.shape, np.float16)])
    assert np.array_equal(y, true)
    (back,) = bench.run(node("SpaceToDepth", blocksize=2, mode=mode), [y], [(x.shape, np.float16)])
    assert np.array_equal(back, x)


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_largest_of_a_line(bench: Bench, random: np.random.Generator, kind: type[Any], axis: int) -> None:
    x = np.round(random.standard_normal((6, 300, 5)) * 9).astype(kind)
    wide = x.astype(np.float64)
    for name, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        true = np.expand_dims(function(wide, axis=axis), axis)
        (y,) = bench.run(node(name, axis=axis), [x], [(true.shape, np.int64)])
        assert np.array_equal(y, true)
        flipped = x.shape[axis] - 1 - np.expand_dims(function(np.flip(wide, axis), axis=axis), axis)
        (y,) = bench.run(node(name, axis=axis, select_last_index=1), [x], [(true.shape, np.int64)])
        assert np.array_equal(y, flipped)
    for largest in (1, 0):
        order = np.argsort(-wide if largest else wide, axis=axis, kind="stable").take(range(5), axis=axis)
        wanted = [(order.shape, kind), (order.shape, np.int64)]
        values, places = bench.run(node("TopK", axis=axis, largest=largest), [x, np.array([5])], wanted)
        assert np.array_equal(places, order)
        assert np.array_equal(values, np.take_along_axis(x, order, axis))


SHAPED: dict[str, tuple[dict[str, Any], Callable[[Values], Values]]] = {
    "HardSigmoid": ({"alpha": 0.3}, lambda x: np.clip(0.3 * x + 0.5, 0, 1)),
    "Selu": ({}, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "Celu": ({"alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(2 * np.expm1(x / 2), 0)),
    "ThresholdedRelu": ({"alpha": 0.7}, lambda x: np.where(x > np.float32(0.7), x, 0)),
    "Shrink": ({"lambd": 0.5, "bias": 0.25}, lambda x: (np.abs(x) > 0.5) * (x - np.sign(x) * 0.25)),
    "Sinh": ({}, np.sinh),
    "Cosh": ({}, np.cosh),
    "Asinh": ({}, np.arcsinh),
}  # fmt: skip


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("name", SHAPED)
def test_activations_with_numbers(
    bench: Bench, random: np.random.Generator, name: str, kind: type[Any]
) -> None:
    attributes, function = SHAPED[name]
    x = random.standard_normal((3, 500)).astype(kind)
    (y,) = bench.run(node(name, **attributes), [x], [(x.shape, kind)])
    assert error(y, function(x.astype(np.float64))) < LIMITS[kind]


def test_bits_infinities_and_whole_numbers(bench: Bench, random: np.random.Generator) -> None:
    a, b = random.integers(0, 255, (2, 40)).astype(np.uint8), random.integers(0, 255, 40).astype(np.uint8)
    for name, function in (("And", np.bitwise_and), ("Or", np.bitwise_or), ("Xor", np.bitwise_xor)):
        (y,) = bench.run(node(f"Bitwise{name}"), [a, b], [(a.shape, np.uint8)])
        assert np.array_equal(y, function(a, b))
    (y,) = bench.run(node("BitwiseNot"), [a], [(a.shape, np.uint8)])
    assert np.array_equal(y, ~a)
    shift = random.integers(0, 8, a.shape).astype(np.uint8)
    (y,) = bench.run(node("BitShift", direction="LEFT"), [a, shift], [(a.shape, np.uint8)])
    assert np.array_equal(y, a << shift)
    x = np.array([1, np.inf, -np.inf, np.nan], np.float32)
    (y,) = bench.run(node("IsInf", detect_negative=0), [x], [(x.shape, np.bool_)])
    assert y.tolist() == [False, True, False, False]
    numbers = random.integers(-50, 50, (5, 9))
    for name, plain in (("Abs", np.abs), ("Sign", np.sign)):
        (y,) = bench.run(node(name), [numbers], [(numbers.shape, np.int64)])
        assert np.array_equal(y, plain(numbers))
    mean = bench.run(node("Mean"), [x[:1], x[:1] * 4, x[:1] * 4], [((1,), np.float32)])
    assert mean[0].tolist() == [3.0]
    flags = random.integers(0, 2, (6, 11)).astype(bool)
    for name, whole in (("ReduceMax", np.any), ("ReduceMin", np.all)):
        (y,) = bench.run(node(name, keepdims=0), [flags, np.array([1])], [((6,), np.bool_)])
        assert np.array_equal(y, whole(flags, 1))
    (y,) = bench.run(node("Mod", fmod=1), [x[:1] * 7.5, x[:1] * -2], [((1,), np.float32)])
    assert y.tolist() == [1.5]


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 80, 300), (96, 80, 3), {"pads": [1, 1]}),
    ((1, 96, 151), (96, 96, 3), {"pads": [1, 1], "strides": [2]}),
    ((2, 12, 40), (12, 1, 4), {"group": 12, "pads": [3, 0]}),
    ((2, 8, 17, 23), (40, 4, 3, 3), {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((1, 3, 20, 31), (70, 3, 5, 3), {"dilations": [2, 3], "auto_pad": "SAME_UPPER"}),
    ((3, 33, 9, 9), (65, 33, 1, 1), {}),
]


def convolved(x: Values, w: Values, bias: Values, attributes: dict[str, Any]) -> Values:
    """In float64, place by place of the kernel."""
    from vramscope.ops.kernels.convolution import conv_windows

    form = conv_windows(node("Conv", **attributes), x.shape, w.shape)
    group = attributes.get("group", 1)
    padded = np.zeros((*x.shape[:2], *form.padded))
    inside: Any = (slice(None), slice(None), *form.interior)
    padded[inside] = x
    out = np.zeros((x.shape[0], w.shape[0], *form.output)) + bias.reshape(-1, *(1,) * len(form.extent))
    own, mine = x.shape[1] // group, w.shape[0] // group
    for part in range(group):
        rows, filters = slice(part * own, (part + 1) * own), slice(part * mine, (part + 1) * mine)
        for place, where in form.offsets():
            under: Any = (slice(None), rows, *where)
            seen = padded[under]
            at: Any = (slice(None), slice(None), *place)
            kernel: Values = w[filters][at]
            out[:, filters] += np.einsum("nc...,mc->nm...", seen, kernel)
    return out


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda case: "x".join(map(str, case[1])))
def test_convolutions(
    bench: Bench, random: np.random.Generator, kind: type[Any], case: tuple[Any, Any, dict[str, Any]]
) -> None:
    shape, weight, attributes = case
    x, w, bias = (random.standard_normal(item).astype(kind) for item in (shape, weight, weight[:1]))
    wide = [item.astype(np.float64) for item in (x, w, bias)]
    true = convolved(wide[0], wide[1], wide[2], attributes)
    (y,) = bench.run(node("Conv", **attributes), [x, w, bias], [(true.shape, kind)])
    assert error(y, true) < LIMITS[kind]
    (y,) = bench.run(node("Conv", **attributes), [x, w], [(true.shape, kind)])
    assert error(y, true - bias.astype(np.float64).reshape(-1, *(1,) * (x.ndim - 2))) < LIMITS[kind]

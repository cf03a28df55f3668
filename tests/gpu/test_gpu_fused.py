"""The fused product kernels on fresh random inputs against float64, every form of weight and surrounding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from cuda_calls import error

from vramscope.devices.cuda.fused_form import GELU, GELU_TANH, PLAIN, SILU, Fused, Norm, Packed, Weight
from vramscope.devices.cuda.fused_launch import fused_launch
from vramscope.devices.cuda.strided import type_name

if TYPE_CHECKING:
    from cuda_calls import Bench

pytestmark = pytest.mark.gpu

BF16 = ml_dtypes.bfloat16
LIMITS = {np.float32: 1e-5, np.float16: 2e-3, BF16: 1e-2}
Floats = np.ndarray[Any, Any]

SHAPES = [(1, 576, 960), (1, 1536, 576), (2, 100, 48), (4, 2048, 512), (1, 4864, 896), (3, 320, 4096)]
"""Rows, depth, columns."""

PACKED = [
    (1, 896, 1152, 32),
    (1, 4864, 896, 32),
    (2, 576, 200, 64),
    (4, 256, 37, 16),
    (3, 160, 64, 32),
    (1, 896, 19024, 32),
    (2, 512, 7000, 128),
    (2, 18944, 64, 32),
]
"""Rows, depth, columns, codes that share a scale."""

Form = tuple[int, int, int, int]


def activated(kind: int, x: Floats) -> Floats:
    from math import erf

    if kind == SILU:
        return np.asarray(x / (1 + np.exp(-x)))
    if kind == GELU:
        return np.asarray(0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2))))
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


class Made:
    """Random operands of one fused product, on both sides."""

    def __init__(self, bench: Bench, kind: type[Any], shape: tuple[int, int, int]) -> None:
        self.bench, self.kind, self.random = bench, kind, np.random.default_rng()
        self.rows, self.k, self.n = shape
        self.x, self.device_x = self.draw(self.rows, self.k)

    def draw(self, *shape: int, scale: float = 1.0) -> tuple[Floats, Any]:
        value = (self.random.standard_normal(shape) * scale).astype(self.kind)
        return value.astype(np.float64), self.bench.put(value)

    def dense(self, *, columns: bool) -> tuple[Floats, Weight]:
        shape = (self.k, self.n) if columns else (self.n, self.k)
        value, device = self.draw(*shape, scale=self.k**-0.5)
        return (value, Weight(device, columns=True)) if columns else (value.T, Weight(device, columns=False))

    def packed(self, bits: int, block: int, zeros: int) -> tuple[Floats, Weight]:
        blocks = -(-self.k // block)
        codes = self.random.integers(0, 1 << bits, (self.n, blocks, block))
        many = 8 // bits
        parts = codes.reshape(self.n, -1, many).astype(np.uint8) << (np.arange(many, dtype=np.uint8) * bits)
        data = np.bitwise_or.reduce(parts, axis=-1).astype(np.uint8)
        scales, device_scales = self.draw(self.n, blocks, scale=self.k**-0.5 / (1 << bits))
        points, device_zeros = np.full((self.n, blocks), float(1 << (bits - 1))), None
        if zeros == 1:
            exact = self.random.integers(0, 1 << bits, (self.n, blocks))
            room = -blocks % many
            padded = np.pad(exact, ((0, 0), (0, room))).reshape(self.n, -1, many).astype(np.uint8)
            rows = np.bitwise_or.reduce(padded << (np.arange(many, dtype=np.uint8) * bits), axis=-1)
            points, device_zeros = exact.astype(np.float64), self.bench.put(rows.astype(np.uint8))
        elif zeros == 2:
            value = (self.random.random((self.n, blocks)) * (1 << bits)).astype(self.kind)
            points, device_zeros = value.astype(np.float64), self.bench.put(value)
        dense = ((codes - points[..., None]) * scales[..., None]).reshape(self.n, -1)[:, : self.k]
        geometry = (blocks, data.shape[1], -(-blocks * bits // 8))
        form = Packed(device_scales, device_zeros, zeros, bits, block, geometry[0], geometry[1], geometry[2])
        return dense.T, Weight(self.bench.put(data), columns=False, packed=form)

    def run(
        self, weights: list[tuple[Floats, Weight]], joined: int, *, norm: int, residual: bool, bias: bool
    ) -> None:
        y = self.bench.room((self.rows, self.n), self.kind)
        given = [self.draw(self.n) if bias else (np.zeros(self.n), None) for _ in weights]
        fused = Fused(
            type_name(np.dtype(self.kind)), self.rows, self.n, self.k, self.device_x, y,
            tuple(item[1] for item in weights), tuple(item[1] for item in given), joined,
        )  # fmt: skip
        x = self.x
        if norm:
            gamma, device_gamma = self.draw(self.k)
            skip, device_skip = self.draw(self.rows, self.k) if norm == 2 else (np.zeros_like(x), None)
            x = x + skip
            x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma
            fused = replace(fused, norm=Norm(device_gamma, 1e-5, device_skip))
        true = [x @ weight + offset for (weight, _), (offset, _) in zip(weights, given, strict=True)]
        result = true[0] if joined == PLAIN else activated(joined, true[0]) * true[1]
        if residual:
            value, place = self.draw(self.rows, self.n)
            fused, result = replace(fused, residual=place, y=place), result + value
            y = place
        assert fused.suits()
        self.bench.device.issue(fused_launch(fused, clusters=self.bench.device.clusters))
        assert error(self.bench.device.download(y), result) < LIMITS[self.kind]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("columns", [True, False])
def test_dense(bench: Bench, kind: type[Any], shape: tuple[int, int, int], columns: bool) -> None:
    made = Made(bench, kind, shape)
    if not columns and made.k % (16 // np.dtype(kind).itemsize):
        pytest.skip("k is no multiple of a load")
    for norm, residual, bias in ((0, False, False), (1, False, True), (2, False, False), (0, True, False)):
        made.run([made.dense(columns=columns)], PLAIN, norm=norm, residual=residual, bias=bias)
    if columns:
        for joined in (SILU, GELU, GELU_TANH):
            pair = [made.dense(columns=True) for _ in range(2)]
            made.run(pair, joined, norm=1, residual=False, bias=False)


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("form", PACKED)
def test_packed(bench: Bench, kind: type[Any], bits: int, zeros: int, form: Form) -> None:
    *shape, block = form
    made = Made(bench, kind, (shape[0], shape[1], shape[2]))
    if 4 * made.rows * made.k > 200 * 1024 and kind is np.float32:
        pytest.skip("the activation does not fit in shared memory: the product and its norm stay apart")
    for norm, residual, bias in ((0, False, False), (1, False, True), (2, False, False), (0, True, True)):
        made.run([made.packed(bits, block, zeros)], PLAIN, norm=norm, residual=residual, bias=bias)
    made.run([made.packed(bits, block, zeros) for _ in range(2)], SILU, norm=1, residual=False, bias=False)

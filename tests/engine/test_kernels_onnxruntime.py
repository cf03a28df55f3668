"""Norms, Gelu forms and layout operators against onnxruntime's CPU provider on random inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_calls import Operator, run_onnxruntime

from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.ops.single import run_single

Values = np.ndarray[Any, np.dtype[Any]]

MICROSOFT = "com.microsoft"
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


def values(kind: np.dtype[Any], *shape: int, seed: int = 0) -> Values:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def compare(operator: Operator, inputs: list[Values | None], *kinds: np.dtype[Any], ulps: int = 4) -> None:
    """Our outputs and onnxruntime's, at most ``ulps`` units apart at the scale of the largest value."""
    ours = run_single(operator.node(), inputs, [from_numpy(kind) for kind in kinds])
    theirs = run_onnxruntime(operator, inputs, kinds)
    for mine, other in zip(ours, theirs, strict=True):
        assert isinstance(mine, np.ndarray)
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
        if other.dtype.kind != "f":
            np.testing.assert_array_equal(mine, other)
            continue
        unit = float(np.finfo(other.dtype).eps) * max(1.0, float(np.abs(other).max(initial=0)))
        np.testing.assert_allclose(mine.astype(float), other.astype(float), rtol=0, atol=ulps * unit)


@pytest.mark.parametrize("name", ["SkipSimplifiedLayerNormalization", "SkipLayerNormalization"])
@pytest.mark.parametrize("kind", [SINGLE, HALF])
def test_skip_norms(name: str, kind: np.dtype[Any]) -> None:
    vectors: list[Values | None] = [values(kind, 64, seed=seed) for seed in range(2, 5)]
    inputs = [values(kind, 2, 3, 64), values(kind, 2, 3, 64, seed=1), *vectors]
    given = inputs[: 4 if "Simplified" in name else 5]
    compare(Operator(name, MICROSOFT, 4), given, kind, SINGLE, SINGLE, kind)


@pytest.mark.parametrize("name", ["SkipSimplifiedLayerNormalization", "SkipLayerNormalization"])
def test_skip_norms_in_half_precision_are_equal_bit_for_bit(name: str) -> None:
    inputs: list[Values | None] = [values(HALF, 2, 3, 64), values(HALF, 2, 3, 64, seed=1), values(HALF, 64)]
    compare(Operator(name, MICROSOFT), inputs, HALF, ulps=0)


@pytest.mark.parametrize("kind", [SINGLE, HALF])
def test_layer_normalization(kind: np.dtype[Any]) -> None:
    inputs: list[Values | None] = [values(kind, 2, 3, 64), values(kind, 64, seed=1), values(kind, 64, seed=2)]
    compare(Operator("LayerNormalization", "", 1, 17), inputs, kind, ulps=4 if kind == SINGLE else 0)


@pytest.mark.parametrize("name", ["Gelu", "FastGelu", "QuickGelu", "BiasGelu"])
def test_gelu_forms(name: str) -> None:
    x = values(SINGLE, 4, 3000) * 3
    inputs: list[Values | None] = [x, values(SINGLE, 3000, seed=1)] if name == "BiasGelu" else [x]
    compare(Operator(name, MICROSOFT), inputs, SINGLE)


def test_embed_layer_normalization() -> None:
    ids = np.random.default_rng(0).integers(0, 10, (2, 3)).astype(np.int32)
    tables = [values(SINGLE, rows, 64, seed=rows) for rows in (10, 8, 2)]
    gamma, mask = values(SINGLE, 64), (ids > 3).astype(np.int32)
    whole: list[Values | None] = [ids, ids % 2, *tables, gamma, gamma, mask]
    index = np.dtype(np.int32)
    compare(Operator("EmbedLayerNormalization", MICROSOFT, 3), whole, SINGLE, index, SINGLE, ulps=8)
    placed: list[Values | None] = [ids, None, *tables[:2], None, gamma, gamma, None, ids % 7]
    compare(Operator("EmbedLayerNormalization", MICROSOFT, 2), placed, SINGLE, index, ulps=8)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_of_both_forms(name: str, axis: int, opset: int) -> None:
    compare(Operator(name, "", 1, opset, {"axis": axis}), [values(SINGLE, 3, 4, 5)], SINGLE)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad_with_crops(mode: str) -> None:
    pads = np.array([0, -1, 2, 0, 1, -2])
    compare(Operator("Pad", "", 1, 19, {"mode": mode}), [values(SINGLE, 3, 4, 5), pads], SINGLE, ulps=0)


def test_power_of_mixed_types() -> None:
    base = np.array([2, 3, -4], np.float32)
    compare(Operator("Pow", "", 1, 15), [base, np.array([2, -3, 3])], SINGLE)
    compare(Operator("Pow", "", 1, 15), [base.astype(np.int64), np.array([2, 3, 3])], np.dtype(np.int64))


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("indices", [[[1]], [[0, -1], [2, 1]], []])
def test_gather(axis: int, indices: list[Any]) -> None:
    places = np.array(indices, np.int64)
    compare(Operator("Gather", "", 1, 13, {"axis": axis}), [values(SINGLE, 4, 5), places], SINGLE, ulps=0)


def test_gather_reads_a_transposed_table() -> None:
    table, places = values(SINGLE, 8, 20), np.array([[3, 19, -20]])
    (ours,) = run_single(Operator("Gather", opset=13).node(), [table.T, places], [ElementType.FLOAT])
    np.testing.assert_array_equal(np.asarray(ours), table.T[places])

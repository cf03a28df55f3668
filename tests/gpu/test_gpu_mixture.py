"""Mixtures of experts and block weights on the card against float64, few tokens and many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from cuda_calls import error, node
from mixture_truth import block_rows, mixture, nibbles

if TYPE_CHECKING:
    from cuda_calls import Bench

pytestmark = pytest.mark.gpu

LIMITS = {np.float32: 1e-5, np.float16: 2e-3, ml_dtypes.bfloat16: 1e-2}
CONTRIB, RUNTIME = "com.microsoft", "pkg.nxrt"
DECODED = ("mxfp4", "q8_0", "iq4_nl", "iq4_xs", "q2_k", "q3_k", "q5_k", "q6_k")
Values = np.ndarray[Any, Any]

GATES: list[dict[str, Any]] = [
    {"k": 2, "activation_type": "relu"},
    {"k": 1, "activation_type": "gelu", "normalize_routing_weights": 1},
    {"k": 3, "activation_type": "identity"},
    {"k": 2, "activation_type": "silu", "third": True, "normalize_routing_weights": 1},
    {"k": 4, "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702,
     "activation_beta": 1.0, "swiglu_limit": 2.0, "normalize_routing_weights": 1},
    {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 2},
    {"k": 2, "activation_type": "swiglu", "third": True},
]  # fmt: skip


def truth(x: Values, logits: Values, weights: Any, biases: Any, gate: dict[str, Any]) -> Values:  # noqa: ANN401 - three of each
    return mixture(
        x.reshape(-1, x.shape[-1]),
        logits,
        weights,
        biases,
        k=gate["k"],
        activation=gate["activation_type"],
        fusion=gate.get("swiglu_fusion", 0),
        alpha=gate.get("activation_alpha", 1.0),
        beta=gate.get("activation_beta", 0.0),
        limit=gate.get("swiglu_limit", np.inf),
        normalize=gate.get("normalize_routing_weights", 0) == 1,
    ).reshape(x.shape)


def attributes(gate: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in gate.items() if name != "third"}


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate["activation_type"])
@pytest.mark.parametrize("extents", [(64, 48), (37, 21)])
def test_dense_experts(
    bench: Bench, kind: type[Any], rows: int, gate: dict[str, Any], extents: tuple[int, int]
) -> None:
    random = np.random.default_rng()
    (hidden, inner), experts = extents, 8

    def draw(*shape: int, scale: float = 1.0) -> Values:
        return (random.standard_normal(shape) * scale).astype(kind)

    outputs = 2 * inner if gate.get("swiglu_fusion") else inner
    x, logits = draw(2, rows, hidden), draw(2 * rows, experts, scale=2)
    weights = (draw(experts, outputs, hidden), draw(experts, hidden, inner), draw(experts, inner, hidden))
    biases = (draw(experts, outputs), draw(experts, hidden), draw(experts, inner))
    third = (weights[2], biases[2]) if gate.get("third") else (None, None)
    wide = [item.astype(np.float64) for item in (*weights, *biases)]
    expected = truth(
        x,
        logits.astype(np.float64),
        (*wide[:2], wide[2] if gate.get("third") else None),
        tuple(wide[3:]),
        gate,
    )
    given = [x, logits, weights[0], biases[0], weights[1], biases[1], *third]
    (y,) = bench.run(node("MoE", CONTRIB, **attributes(gate)), given, [(x.shape, kind)])
    assert error(y, expected) < LIMITS[kind]


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("rows", [1, 25])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("form", ["rows", "blocks", "zeros", "flat zeros"])
def test_integer_experts(bench: Bench, kind: type[Any], rows: int, bits: int, form: str) -> None:
    random = np.random.default_rng()
    hidden, inner, experts = 128, 64, 6
    blocks = {"blocks": 32, "zeros": 16}.get(form, 0)

    def stored(outputs: int, depth: int) -> tuple[Values, Values, Values | None, Values]:
        count = depth // blocks if blocks else 1
        codes = random.integers(0, 1 << bits, (experts, outputs, depth))
        scales = (random.random((experts, outputs, count)) / (1 << bits)).astype(kind)
        points, zeros = np.full((experts, outputs, count), 1 << (bits - 1)), None
        if "zeros" in form:
            points = random.integers(0, 1 << bits, (experts, outputs, count))
            zeros = nibbles(points if blocks else points[..., 0], bits)
        dense = (codes.reshape(*points.shape, -1) - points[..., None]) * scales.astype(np.float64)[..., None]
        given = scales if blocks else scales[..., 0]
        return nibbles(codes, bits), np.ascontiguousarray(given), zeros, dense.reshape(codes.shape)

    first, second = stored(2 * inner, hidden), stored(hidden, inner)
    x = random.standard_normal((1, rows, hidden)).astype(kind)
    logits = random.standard_normal((rows, experts)).astype(kind)
    gate: dict[str, Any] = {
        "k": 2,
        "activation_type": "swiglu",
        "swiglu_fusion": 1,
        "normalize_routing_weights": 1,
    }
    expected = truth(x, logits.astype(np.float64), (first[3], second[3], None), (None,) * 3, gate)
    given = [x, logits, *first[:2], None, *second[:2], None, None, None, None, first[2], second[2]]
    operator = node("QMoE", CONTRIB, expert_weight_bits=bits, block_size=blocks, **gate)
    (y,) = bench.run(operator, given, [(x.shape, kind)])
    assert error(y, expected) < LIMITS[kind]


@pytest.mark.parametrize("rows", [1, 30])
@pytest.mark.parametrize(
    "names", [("mxfp4", "q8_0"), ("q6_k", "mxfp4"), ("q2_k", "iq4_xs"), ("iq4_nl", "q5_k")]
)
def test_block_experts(bench: Bench, rows: int, names: tuple[str, str]) -> None:
    random = np.random.default_rng()
    hidden, inner, experts = 256, 256, 4
    packed, dense = zip(
        *(
            block_rows(random, name, experts, outputs, count=256 // (32 if name in DECODED[:3] else 256))
            for name, outputs in zip(names, (inner, hidden), strict=True)
        ),
        strict=True,
    )
    x = random.standard_normal((rows, hidden)).astype(np.float32)
    logits = random.standard_normal((rows, experts)).astype(np.float32)
    gate: dict[str, Any] = {"k": 2, "activation_type": "silu"}
    expected = truth(x, logits, (*dense, None), (None,) * 3, gate)
    operator = node("BlockQuantizedMoE", RUNTIME, fc1_format=names[0], fc2_format=names[1], **gate)
    (y,) = bench.run(operator, [x, logits, packed[0], None, packed[1]], [(x.shape, np.float32)])
    assert error(y, expected) < 1e-5


def test_router_weights_and_the_total_order_of_logits(bench: Bench) -> None:
    random = np.random.default_rng()
    x = random.standard_normal((4, 32)).astype(np.float32)
    packed, dense = block_rows(random, "q8_0", 3, 32, count=1)
    logits = np.array([[0.0, -0.0, -1], [1, 1, 1], [-np.inf, 2, -np.nan], [np.nan, 9, 9]], np.float32)
    given = random.standard_normal(logits.shape).astype(np.float32)
    chosen = [0, 0, 1, 0]
    expected = np.stack(
        [given[row, e] * (dense[e] @ (dense[e] @ x[row].astype(np.float64))) for row, e in enumerate(chosen)]
    )
    operator = node(
        "BlockQuantizedMoE", RUNTIME, fc1_format="q8_0", fc2_format="q8_0", k=1, activation_type="identity"
    )
    inputs = [x, logits, packed, None, packed, None, None, None, given]
    (y,) = bench.run(operator, inputs, [(x.shape, np.float32)])
    assert error(y, expected) < 1e-5


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("rows", [1, 19])
@pytest.mark.parametrize("name", DECODED)
def test_products_with_block_weights(bench: Bench, kind: type[Any], rows: int, name: str) -> None:
    random = np.random.default_rng()
    elements = 32 if name in DECODED[:3] else 256
    depth, columns = 2 * elements - (12 if rows > 1 else 5), 70
    packed, dense = block_rows(random, name, columns, count=2)
    x, bias = random.standard_normal((rows, depth)).astype(kind), random.standard_normal(columns).astype(kind)
    expected = x.astype(np.float64) @ dense[:, :depth].T + bias.astype(np.float64)
    operator = node("BlockQuantizedMatMul", RUNTIME, K=depth, N=columns, format=name)
    (y,) = bench.run(operator, [x, packed, bias], [((rows, columns), kind)])
    assert error(y, expected) < LIMITS[kind]

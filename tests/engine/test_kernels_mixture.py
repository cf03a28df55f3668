"""The mixtures of experts and BlockQuantizedMatMul: recorded examples, gguf, onnxruntime, planned bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from one_node import Array, Given, assert_close, onnxruntime_row, row, run_row

from vramscope.errors import ModelGraphError, UnsupportedOperatorError, VramscopeError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels import mixture, quantized
from vramscope.ops.kernels.block_formats import FORMATS
from vramscope.ops.kernels.routing import route

MOE, QMOE = row(mixture.SPECS, "MoE"), row(mixture.SPECS, "QMoE")
BLOCK_MOE = row(mixture.SPECS, "BlockQuantizedMoE")
BLOCK_MATMUL = row(quantized.SPECS, "BlockQuantizedMatMul")
WIDTH = 32


def f32(values: Any) -> Array:  # noqa: ANN401 - whatever makes an array
    return np.asarray(values, np.float32)


def diagonal(code: int, rows: int = WIDTH) -> Array:
    """mxfp4 rows [rows, 1, 17] of scale 1 with one code on the diagonal."""
    codes = np.zeros((rows, WIDTH), np.uint8)
    codes[np.arange(rows), np.arange(rows) % WIDTH] = code
    packed = np.full((rows, 1, 17), 127, np.uint8)
    packed[:, 0, 1:] = codes[:, :16] | (codes[:, 16:] << 4)
    return packed


ONE, TWO = diagonal(2), diagonal(4)
TOKEN = np.zeros((1, WIDTH), np.float32)
TOKEN[0, :4] = [1, -2, 3, 0.5]
LOGITS = f32([[0, np.log(3)]])
MXFP4 = {"fc1_format": "mxfp4", "fc2_format": "mxfp4"}


def block_moe(
    logits: Array,
    router_weights: Array | None = None,
    **attributes: Any,  # noqa: ANN401 - whatever the operator takes
) -> list[float]:
    first, second = np.stack([ONE, TWO]), np.stack([ONE, ONE])
    given: list[Given] = [TOKEN, logits, first, None, second, None, None, None, router_weights]
    (got,) = run_row(BLOCK_MOE, given, MXFP4 | attributes)
    assert not got[0, 4:].any()
    return [float(value) for value in got[0, :4]]


def test_block_moe_example_of_plain_activations() -> None:
    assert block_moe(LOGITS, activation_type="identity") == [1.5, -3, 4.5, 0.75]
    assert block_moe(LOGITS, activation_type="identity", normalize_routing_weights=1) == [2, -4, 6, 1]
    np.testing.assert_allclose(block_moe(LOGITS, k=2), [1.75, 0, 5.25, 0.875], rtol=1e-6)
    got = block_moe(LOGITS, k=2, activation_type="gelu")
    np.testing.assert_allclose(got, [1.6762464, -0.0114033, 5.2490911, 0.7173226], rtol=1e-5)
    got = block_moe(LOGITS, k=2, activation_type="silu")
    np.testing.assert_allclose(got, [1.5039603, -0.1135601, 5.2033043, 0.6261014], rtol=1e-6)


def test_block_moe_example_of_routing() -> None:
    same = f32([[1, 1]])
    got = block_moe(same, activation_type="identity", normalize_routing_weights=1)
    assert got == [1, -2, 3, 0.5], "the lower index wins among equals"
    got = block_moe(LOGITS, f32([[0.25, 0.5]]), k=2, activation_type="identity")
    assert got == [1.25, -2.5, 3.75, 0.625]
    got = block_moe(LOGITS, f32([[0.25, 0.5]]), k=2, activation_type="identity", normalize_routing_weights=1)
    np.testing.assert_allclose(got, [1.6666667, -3.3333335, 5, 0.8333334], rtol=1e-6)
    got = block_moe(LOGITS, f32([[0.5, -0.5]]), k=2, activation_type="identity", normalize_routing_weights=1)
    assert got == [0, 0, 0, 0]


def test_block_moe_example_of_gates() -> None:
    alternating = np.stack([ONE, TWO], axis=1).reshape(2 * WIDTH, 1, 17)
    halves = np.concatenate([ONE, TWO])
    common = {**MXFP4, "activation_type": "swiglu", "normalize_routing_weights": 1}
    shaped = {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}
    for fusion, first in ((1, alternating), (2, halves)):
        given: list[Given] = [TOKEN, LOGITS, np.stack([first, first]), None, np.stack([ONE, ONE])]
        (got,) = run_row(BLOCK_MOE, given, common | {"swiglu_fusion": fusion})
        np.testing.assert_allclose(got[0, :4], [1.4621172, 0.9536234, 17.1463337, 0.3112297], rtol=1e-6)
        (got,) = run_row(BLOCK_MOE, given, common | {"swiglu_fusion": fusion} | shaped)
        np.testing.assert_allclose(got[0, :4], [2.5373874, 0.0643414, 5.8069758, 0.7007769], rtol=1e-5)
    given = [TOKEN, LOGITS, np.stack([ONE, TWO]), None, np.stack([ONE, ONE]), None, np.stack([TWO, TWO])]
    for activation in ("swiglu", "silu"):
        attributes = common | {"activation_type": activation, "fc3_format": "mxfp4"}
        (got,) = run_row(BLOCK_MOE, given, attributes)
        np.testing.assert_allclose(got[0, :4], [3.5231881, 0.2877794, 35.9109879, 0.7310586], rtol=1e-6)
        (got,) = run_row(BLOCK_MOE, given, attributes | {"swiglu_limit": 0.5})
        np.testing.assert_allclose(got[0, :4], [0.1556148, 0.0359724, 0.1556148, 0.1556148], rtol=1e-5)


def test_one_format_for_all_and_refusals() -> None:
    first, second = np.stack([ONE, TWO]), np.stack([ONE, ONE])
    given: list[Given] = [TOKEN, LOGITS, first, None, second]
    (got,) = run_row(BLOCK_MOE, given, {"format": "mxfp4", "activation_type": "identity"})
    assert got[0, :4].tolist() == [1.5, -3, 4.5, 0.75]
    with pytest.raises(UnsupportedOperatorError, match="block format"):
        run_row(BLOCK_MOE, given, {"format": "q9_9"})
    with pytest.raises(UnsupportedOperatorError, match="surprise"):
        run_row(BLOCK_MOE, given, MXFP4 | {"surprise": 1})
    with pytest.raises(ModelGraphError, match="third projection with relu"):
        run_row(BLOCK_MOE, [*given, None, second], MXFP4 | {"fc3_format": "mxfp4"})
    with pytest.raises(ModelGraphError, match="k 3"):
        run_row(BLOCK_MOE, given, MXFP4 | {"k": 3})


def test_routing_follows_the_total_order() -> None:
    logits = f32([[0.0, -0.0, -np.inf, np.nan, 5.0, -np.nan]])
    logits[0, 5] = np.array(0xFFC00000, np.uint32).view(np.float32)
    chosen, _ = route(logits, np.ones((1, 6), np.float32), 6, normalize=False)
    assert chosen[0].tolist() == [3, 4, 0, 1, 2, 5]


EYE = np.eye(2, dtype=np.float32)
PAIR = f32([[1, 2]])


def moe(**attributes: Any) -> list[float]:  # noqa: ANN401 - whatever the operator takes
    given: list[Given] = [PAIR, LOGITS, np.stack([EYE, 2 * EYE]), None, np.stack([EYE, EYE])]
    (got,) = run_row(MOE, given, attributes)
    return [float(value) for value in got[0]]


def test_moe_example() -> None:
    assert moe(activation_type="identity") == [1.5, 3]
    np.testing.assert_allclose(moe(activation_type="gelu"), [1.465948, 2.999948], rtol=1e-6)
    np.testing.assert_allclose(moe(activation_type="silu"), [1.321196, 2.9460421], rtol=1e-6)
    np.testing.assert_allclose(moe(k=2), [1.75, 3.5], rtol=1e-6)
    assert moe(activation_type="identity", normalize_routing_weights=1) == [2, 4]
    fused = np.stack([EYE, 2 * EYE], axis=1).reshape(1, 4, 2)
    given: list[Given] = [PAIR, f32([[0]]), fused, None, EYE[np.newaxis]]
    (got,) = run_row(MOE, given, {"activation_type": "swiglu", "swiglu_fusion": 1})
    np.testing.assert_allclose(got[0], [1.462117, 7.0463762], rtol=1e-6)


def test_qmoe_example_with_the_normalisation_that_the_attribute_says() -> None:
    first: Array = np.array([[[0x89], [0xA8]], [[0x8A], [0xC8]]], np.uint8)
    second: Array = np.array([[[0x89], [0x98]]] * 2, np.uint8)
    scales = np.ones((2, 2), np.float32)
    given: list[Given] = [PAIR, LOGITS, first, scales, None, second, scales]
    assert run_row(QMOE, given, {"normalize_routing_weights": 1})[0].tolist() == [[2, 8]]
    assert run_row(QMOE, given)[0].tolist() == [[1.5, 6]]
    np.testing.assert_allclose(run_row(QMOE, given, {"k": 2})[0], [[1.75, 7]], rtol=1e-6)
    given += [None] * 7 + [f32([[5, 7]])]
    assert run_row(QMOE, given)[0].tolist() == [[14, 56]]
    with pytest.raises(UnsupportedOperatorError, match="quant_type 'fp4'"):
        run_row(QMOE, given, {"quant_type": "fp4"})


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity", "swiglu"])
@pytest.mark.parametrize("half", [False, True])
def test_moe_against_onnxruntime(activation: str, half: bool) -> None:
    random, dtype = np.random.default_rng(1), np.float16 if half else np.float32
    inner = 12
    outputs = 2 * inner if activation == "swiglu" else inner

    def made(*shape: int) -> Array:
        values: Array = (random.standard_normal(shape) * 0.5).astype(dtype)
        return values

    given: list[Given] = [made(2, 5, 8), made(10, 4), made(4, outputs, 8), made(4, outputs)]
    given += [made(4, 8, inner), made(4, 8)]
    attributes: dict[str, Any] = {"k": 2, "activation_type": activation, "normalize_routing_weights": 1}
    if activation == "swiglu":
        attributes |= {
            "swiglu_fusion": 1,
            "activation_alpha": 1.702,
            "activation_beta": 1.0,
            "swiglu_limit": 0.7,
        }
    types = (ElementType.FLOAT16 if half else ElementType.FLOAT,)
    got = run_row(MOE, given, attributes, types)[0]
    if half:
        wide: list[Given] = [
            value.astype(np.float32) if isinstance(value, np.ndarray) else None for value in given
        ]
        np.testing.assert_array_equal(got, run_row(MOE, wide, attributes)[0].astype(np.float16))
        return
    assert_close(got, onnxruntime_row(MOE, given, attributes, types)[0])


def joined(parts: Array, bits: int) -> Array:
    """Codes [..., per] as one byte each group."""
    weights: Array = 1 << (bits * np.arange(parts.shape[-1]))
    packed: Array = (parts * weights).sum(axis=-1).astype(np.uint8)
    return packed


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 32])
@pytest.mark.parametrize("zeros", [False, True])
def test_qmoe_against_the_same_experts_in_f32(bits: int, block: int, zeros: bool) -> None:
    random = np.random.default_rng(2)
    hidden, inner, experts, per = 64, 96, 3, 8 // bits
    given: list[Given] = [f32(random.standard_normal((7, hidden))), f32(random.standard_normal((7, experts)))]
    dense: list[Given] = list(given)
    points: list[Given] = []
    for outputs, inputs in ((inner, hidden), (hidden, inner)):
        codes = random.integers(0, 1 << bits, (experts, outputs, inputs))
        blocks = inputs // block if block else 1
        scales = f32(random.random((experts, outputs, blocks)) * 0.1)
        zero = random.integers(0, 1 << bits, (experts, outputs, blocks + blocks % per))
        parts = codes.reshape(experts, outputs, -1, per)
        packed = joined(parts, bits)
        used = zero[..., :blocks] if zeros else np.full((experts, outputs, blocks), 1 << (bits - 1))
        weight = (codes.reshape(experts, outputs, blocks, -1) - used[..., None]) * scales[..., None]
        given += [packed, scales if block else scales[..., 0], None]
        dense += [f32(weight.reshape(codes.shape)), None]
        grouped = zero.reshape(experts, outputs, -1, per)
        points.append(joined(grouped, bits))
    attributes: dict[str, Any] = {"k": 2, "activation_type": "silu", "normalize_routing_weights": 1}
    quantized_attributes = (
        attributes | {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
    )
    if zeros:
        given += [None, None, None, *points]
    got = run_row(QMOE, given, quantized_attributes)[0]
    assert_close(got, run_row(MOE, dense, attributes)[0])
    if not zeros:
        # onnxruntime itself is up to 1 % off the f32 experts above with 8 bits in blocks, and nowhere else.
        tolerance = 2e-2 if bits == 8 and block else 2e-5
        assert_close(got, onnxruntime_row(QMOE, given, quantized_attributes)[0], tolerance)


def test_one_byte_less_than_planned_is_refused() -> None:
    given: list[Given] = [TOKEN, LOGITS, np.stack([ONE, TWO]), None, np.stack([ONE, ONE])]
    with pytest.raises(VramscopeError, match="the kernel needs"):
        run_row(BLOCK_MOE, given, MXFP4, spare=-1)
    packed, attributes = ONE, {"K": WIDTH, "N": WIDTH, "format": "mxfp4"}
    with pytest.raises(VramscopeError, match="the kernel needs"):
        run_row(BLOCK_MATMUL, [TOKEN, packed], attributes, spare=-1)


def test_block_matmul_example() -> None:
    twos: Array = np.full((1, 1, 17), 0x22, np.uint8)
    twos[..., 0] = 127
    attributes = {"K": 32, "N": 1, "format": "mxfp4"}
    assert run_row(BLOCK_MATMUL, [np.ones((1, 32), np.float32), twos, f32([5])], attributes)[0].item() == 37
    tail = attributes | {"K": 20}
    assert run_row(BLOCK_MATMUL, [np.ones((1, 20), np.float32), twos], tail)[0].item() == 20
    every: Array = np.zeros((1, 1, 17), np.uint8)
    every[0, 0, 0] = 127
    every[0, 0, 1:] = np.arange(16) * 17
    got = run_row(BLOCK_MATMUL, [np.eye(32, dtype=np.float32), every], attributes)[0].reshape(-1)
    table = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert got.tolist() == [*table, *(-value for value in table)] * 2


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("half", [False, True])
def test_block_matmul_of_every_format(name: str, half: bool) -> None:
    form = FORMATS[name]
    random = np.random.default_rng(form.size)
    columns, blocks = 600, 2
    depth = form.elements * blocks
    packed: Array = random.integers(0, 120, (columns, blocks, form.size), np.uint8)
    if name == "mxfp4":
        packed[..., 0] = random.integers(120, 130, (columns, blocks))
    weight = dequantize(packed.reshape(columns, -1), GGMLQuantizationType[name.upper()])
    activation: Array = random.standard_normal((3, depth)).astype(ml_dtypes.bfloat16 if half else np.float32)
    attributes = {"K": depth, "N": columns, "format": name}
    kind = ElementType.BFLOAT16 if half else ElementType.FLOAT
    got = run_row(BLOCK_MATMUL, [activation, packed], attributes, (kind,))[0]
    want: Array = activation.astype(np.float64) @ weight.astype(np.float64).T
    assert got.dtype == activation.dtype
    assert_close(got, want, 2**-8 if half else 1e-5)


def test_block_matmul_refuses_a_fourth_input() -> None:
    attributes = {"K": WIDTH, "N": WIDTH, "format": "mxfp4"}
    with pytest.raises(ModelGraphError, match="inputs of"):
        run_row(BLOCK_MATMUL, [TOKEN, ONE, None, f32([0])], attributes)

"""MatMulNBits: the recorded examples, random comparison with onnxruntime, and the planned bytes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from vramscope.errors import ModelGraphError, UnsupportedOperatorError, VramscopeError
from vramscope.graph.dtypes import from_numpy
from vramscope.graph.model import Node
from vramscope.ops.call import Call
from vramscope.ops.kernels.nbits_model import matmul_nbits_int8_model, nbits_codes, nbits_weight
from vramscope.ops.kernels.planned import query_of
from vramscope.ops.kernels.quantized import SPECS

if TYPE_CHECKING:
    from vramscope.graph.model import AttributeValue

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[Any]]"
SPEC = next(row for row in SPECS if row.name == "MatMulNBits")


def run(inputs: list[Array | None], attributes: dict[str, AttributeValue], spare: int = 0) -> Array:
    node = Node("the node", "MatMulNBits", "com.microsoft", 1, MappingProxyType(attributes))
    assert inputs[0] is not None
    call = Call(node, tuple(inputs), [None], (True,), (from_numpy(inputs[0].dtype),))
    assert SPEC.kernel is not None
    assert SPEC.workspace is not None
    call.scratch_bytes = np.full(SPEC.workspace(query_of(call)).bytes + spare, 0xFF, np.uint8)
    SPEC.kernel(call)
    result = call.placed[0]
    assert isinstance(result, np.ndarray)
    return result


def onnxruntime_run(inputs: list[Array | None], attributes: dict[str, Any]) -> Array:
    """Output 0; all but the activation are initializers, for only those take the int8 path of level 4."""
    names = [f"i{index}" if value is not None else "" for index, value in enumerate(inputs)]
    given = {name: value for name, value in zip(names, inputs, strict=True) if value is not None}
    kinds = {name: int(from_numpy(value.dtype)) for name, value in given.items()}
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("i0", kinds["i0"], given["i0"].shape)],
        [helper.make_tensor_value_info("y", kinds["i0"], None)],
        [numpy_helper.from_array(value, name) for name, value in given.items() if name != "i0"],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    (result,) = session.run(None, {"i0": given["i0"]})
    assert isinstance(result, np.ndarray)
    return result


def close(got: Array, want: Array, tolerance: float = 1e-5) -> None:
    assert got.shape == want.shape
    scale = float(np.abs(want.astype(np.float64)).max(initial=1e-6))
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=0, atol=tolerance * scale
    )


def pack(codes: Array, bits: int) -> Array:
    """Codes [..., n] into bytes, low-order bits first, each row padded to a byte."""
    per = 8 // bits
    padded = np.zeros((*codes.shape[:-1], -(-codes.shape[-1] // per) * per), np.uint8)
    padded[..., : codes.shape[-1]] = codes
    parts = padded.reshape(*codes.shape[:-1], -1, per)
    packed = np.zeros(parts.shape[:-1], np.uint8)
    for place in range(per):
        packed |= (parts[..., place] << (bits * place)).astype(np.uint8)
    return packed


SMALL: dict[str, AttributeValue] = {"K": 32, "N": 2, "block_size": 16, "bits": 4}
INDEX: Array = 32 * np.arange(2)[:, None] + np.arange(32)[None, :]
SCALES: Array = np.array([[0.5, 0.25], [1, 2]], np.float32)
ACTIVATION: Array = np.zeros((1, 32), np.float32)
ACTIVATION[0, [0, 1, 2, 16]] = [1, 2, 3, 1]


def small(codes: Array, bits: int) -> Array:
    return pack(codes.astype(np.uint8).reshape(2, 2, 16), bits)


def test_example_of_four_bits() -> None:
    codes = small((7 * INDEX) % 16, 4)
    assert codes[0].reshape(-1).tolist() == [112, 94, 60, 26, 248, 214, 180, 146] * 2
    base: list[Array | None] = [ACTIVATION, codes, SCALES]
    points: Array = np.array([[3, 5], [0, 15]], np.float32)
    assert run(base, SMALL).tolist() == [[2, -8]]
    assert run([*base, pack(points.astype(np.uint8), 4)], SMALL).tolist() == [[17.75, 26]]
    assert run([*base, points], SMALL).tolist() == [[17.75, 26]]
    assert run([*base, np.full((2, 2), 1.5, np.float32)], SMALL).tolist() == [[23.125, 44]]
    bias: Array = np.array([100, -100], np.float32)
    assert run([*base, None, None, bias], SMALL).tolist() == [[102, -108]]
    groups: Array = np.repeat(np.array([1, 0], np.int32), 16)
    assert run([*base, None, groups], SMALL).tolist() == [[-2, 8]]


def test_example_of_two_and_eight_bits() -> None:
    two = small(INDEX % 4, 2)
    assert run([ACTIVATION, two, SCALES], SMALL | {"bits": 2}).tolist() == [[-2.5, -8]]
    eight = small((37 * INDEX) % 256, 8)
    assert run([ACTIVATION, eight, SCALES], SMALL | {"bits": 8}).tolist() == [[-248, 712]]
    points: Array = np.array([[10, 200], [0, 255]], np.uint8)
    assert run([ACTIVATION, eight, SCALES, points], SMALL | {"bits": 8}).tolist() == [[88, 1226]]


def test_example_of_a_tail_and_of_zero_points_padded_by_row() -> None:
    codes = small((7 * INDEX) % 16, 4)
    got = run([np.ones((1, 20), np.float32), codes, SCALES], SMALL | {"K": 20})
    assert got.tolist() == [[-5.5, -20]]
    nines: Array = np.full((2, 3, 8), 0x99, np.uint8)
    points: Array = np.array([[33, 3], [84, 6]], np.uint8)
    ones: Array = np.ones((2, 3), np.float32)
    got = run([np.ones((1, 48), np.float32), nines, ones, points], SMALL | {"K": 48})
    assert got.tolist() == [[336, 192]]


def test_an_empty_weight_means_the_projection_is_left_out() -> None:
    empty: list[Array | None] = [ACTIVATION, np.zeros((2, 0, 8), np.uint8), SCALES]
    assert run(empty, SMALL).tolist() == [[0, 0]]
    assert run([*empty, None, None, np.array([3, 4], np.float32)], SMALL).tolist() == [[3, 4]]
    assert run([ACTIVATION[:0], small(INDEX % 16, 4), SCALES], SMALL).shape == (0, 2)


ROWS = [(), (1,), (2, 3), (9,), (600,)]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("points", ["none", "packed", "float"])
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_random_against_the_dequantised_weight(
    bits: int, block: int, points: str, rows: tuple[int, ...]
) -> None:
    random = np.random.default_rng(bits * block)
    depth, columns = 300, 70
    blocks = -(-depth // block)
    packed: Array = random.integers(0, 256, (columns, blocks, block * bits // 8), np.uint8)
    scales: Array = random.random((columns, blocks), np.float32)
    activation: Array = random.standard_normal((*rows, depth)).astype(np.float32)
    bias: Array = random.standard_normal(columns).astype(np.float32)
    zeros: Array | None = None
    point: Array | float = float(1 << (bits - 1))
    if points == "packed":
        zeros = random.integers(0, 256, (columns, -(-blocks * bits // 8)), np.uint8)
        point = nbits_codes(zeros, bits)[:, :blocks]
    elif points == "float":
        zeros = (random.random((columns, blocks), np.float32) * 2**bits).astype(np.float32)
        point = zeros
    attributes: dict[str, AttributeValue] = {"K": depth, "N": columns, "block_size": block, "bits": bits}
    got = run([activation, packed, scales, zeros, None, bias], attributes)
    want = activation.astype(np.float64) @ nbits_weight(packed, scales, point, bits, depth).T + bias
    close(got, want)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("level", [0, 4])
def test_random_against_onnxruntime(bits: int, rows: int, level: int) -> None:
    random = np.random.default_rng(bits + rows)
    depth, columns, block = 256, 48, 32
    packed: Array = random.integers(0, 256, (columns, depth // block, block * bits // 8), np.uint8)
    scales: Array = random.random((columns, depth // block), np.float32)
    activation: Array = random.standard_normal((rows, depth)).astype(np.float32)
    zeros: Array = random.integers(0, 256, (columns, depth // block * bits // 8), np.uint8)
    attributes: dict[str, AttributeValue] = {"K": depth, "N": columns, "block_size": block, "bits": bits}
    theirs = onnxruntime_run([activation, packed, scales, zeros], attributes | {"accuracy_level": level})
    ours = run([activation, packed, scales, zeros], attributes | {"accuracy_level": level})
    if level == 0:
        close(ours, theirs)
        return
    weight = nbits_weight(packed, scales, nbits_codes(zeros, bits)[:, : depth // block], bits, depth)
    close(matmul_nbits_int8_model(activation, weight, block), theirs, 2e-5)
    close(ours, theirs, 2e-2)


@pytest.mark.parametrize("rows", [1, 40])
def test_group_indices_against_onnxruntime(rows: int) -> None:
    random = np.random.default_rng(3)
    packed: Array = random.integers(0, 256, (24, 4, 16), np.uint8)
    scales: Array = random.random((24, 4), np.float32)
    groups: Array = random.integers(0, 4, 128).astype(np.int32)
    zeros: Array = random.integers(0, 16, (24, 4)).astype(np.float32)
    activation: Array = random.standard_normal((rows, 128)).astype(np.float32)
    attributes: dict[str, AttributeValue] = {"K": 128, "N": 24, "block_size": 32, "bits": 4}
    inputs: list[Array | None] = [activation, packed, scales, zeros, groups]
    close(run(inputs, attributes), onnxruntime_run(inputs, attributes))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [1, 40])
def test_half_types_are_rounded_once(dtype: type, rows: int) -> None:
    random = np.random.default_rng(5)
    packed: Array = random.integers(0, 256, (64, 4, 16), np.uint8)
    scales: Array = random.random((64, 4)).astype(dtype)
    activation: Array = random.standard_normal((rows, 128)).astype(dtype)
    bias: Array = random.standard_normal(64).astype(dtype)
    got = run(
        [activation, packed, scales, None, None, bias], {"K": 128, "N": 64, "block_size": 32, "bits": 4}
    )
    weight = nbits_weight(packed, scales.astype(np.float64), 8, 4, 128)
    want: Array = (
        (activation.astype(np.float64) @ weight.T + bias.astype(np.float64)).astype(np.float32).astype(dtype)
    )
    assert got.dtype == dtype
    assert np.count_nonzero(got != want) <= max(2, got.size // 100)


def test_flat_scales_are_the_same_scales() -> None:
    codes = small((7 * INDEX) % 16, 4)
    assert run([ACTIVATION, codes, SCALES.reshape(-1)], SMALL).tolist() == [[2, -8]]


def test_refusals_name_node_reason_and_remedy() -> None:
    inputs: list[Array | None] = [ACTIVATION, small(INDEX % 16, 4), SCALES]
    with pytest.raises(UnsupportedOperatorError, match="weight_prepacked is 1") as caught:
        run(inputs, SMALL | {"weight_prepacked": 1})
    assert caught.value.node == "the node"
    with pytest.raises(UnsupportedOperatorError, match="3 bits"):
        run(inputs, SMALL | {"bits": 3})
    with pytest.raises(ModelGraphError, match="24 is no power of two"):
        run(inputs, SMALL | {"block_size": 24})
    with pytest.raises(ModelGraphError, match="K is 48"):
        run(inputs, SMALL | {"K": 48})
    with pytest.raises(ModelGraphError, match="input 2"):
        run([ACTIVATION, small(INDEX % 16, 4), SCALES[:1]], SMALL)


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_one_byte_less_than_planned_is_refused(rows: int, dtype: type) -> None:
    codes = small((7 * INDEX) % 16, 4)
    inputs: list[Array | None] = [np.ones((rows, 32), dtype), codes, SCALES.astype(dtype)]
    run(inputs, SMALL)
    with pytest.raises(VramscopeError, match="the kernel needs"):
        run(inputs, SMALL, spare=-1)


def test_scratch_does_not_grow_with_the_weight_nor_shrink_with_more_rows() -> None:
    def planned(columns: int, rows: int = 1, bits: int = 4) -> int:
        attributes: dict[str, AttributeValue] = {"K": 2048, "N": columns, "block_size": 32, "bits": bits}
        node = Node("the node", "MatMulNBits", "com.microsoft", 1, MappingProxyType(attributes))
        activation: Array = np.zeros((rows, 2048), np.float32)
        packed: Array = np.zeros((columns, 64, 4 * bits), np.uint8)
        call = Call(node, (activation, packed, np.zeros((columns, 64), np.float32)), [None], (True,), ())
        assert SPEC.workspace is not None
        return SPEC.workspace(query_of(call)).bytes

    assert planned(4096) == planned(65536)
    for bits in (2, 4, 8):
        sizes = [planned(4096, rows, bits) for rows in (1, 7, 8, 9, 10, 60, 512, 600)]
        assert sizes == sorted(sizes)

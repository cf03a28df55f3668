"""The worked examples of the operator sheets for norms, Gelu forms, TensorScatter and the small operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vramscope.errors import UnsupportedOperatorError, VramscopeError
from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.graph.model import Node
from vramscope.ops.call import Packed
from vramscope.ops.kernels.packing import pack
from vramscope.ops.reference import has_reference
from vramscope.ops.single import run_single

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import AttributeValue

Values = np.ndarray[Any, np.dtype[Any]]

MICROSOFT = "com.microsoft"
X = np.array([[1, 2, 3, 4], [0, 0, 0, 0]], np.float32)
SKIP = np.array([[1, 1, 1, 1], [2, -2, 2, -2]], np.float32)
GAMMA = np.array([1, 2, 0.5, 1], np.float32)
BIAS = np.array([0, 0, 0, 4], np.float32)
A = np.array([-3, -1, -0.5, 0, 0.5, 1, 3], np.float32)


def run(
    operator: str,
    inputs: Sequence[Values | None],
    *,
    outputs: Sequence[ElementType] = (),
    domain: str = "",
    opset: int = 24,
    wanted: Sequence[bool] | None = None,
    **attributes: AttributeValue,
) -> list[Any]:
    """One node's outputs; by default one, of the first input's type."""
    first = inputs[0]
    assert first is not None
    types = tuple(outputs) or (from_numpy(first.dtype),)
    return run_single(Node("n", operator, domain, opset, attributes), inputs, types, wanted=wanted)


def close(actual: Values, expected: Sequence[Any]) -> None:
    np.testing.assert_allclose(actual, np.asarray(expected), rtol=2e-6, atol=1e-6)


F, L = ElementType.FLOAT, ElementType.INT64


@pytest.mark.parametrize("domain", ["", MICROSOFT])
def test_simplified_layer_normalization(domain: str) -> None:
    y, inverse = run("SimplifiedLayerNormalization", [X, GAMMA], outputs=(F, F), domain=domain, opset=1)
    close(y, [[0.3651481, 1.4605925, 0.5477222, 1.4605925], [0, 0, 0, 0]])
    np.testing.assert_allclose(inverse, [[0.3651481], [316.2277832]], rtol=1e-6)


def test_skip_simplified_layer_normalization() -> None:
    y, mean, inverse, total = run(
        "SkipSimplifiedLayerNormalization",
        [X, SKIP, GAMMA],
        outputs=(F,) * 4,
        domain=MICROSOFT,
        opset=1,
        epsilon=1e-5,
    )
    close(y, [[0.5443309, 1.6329926, 0.5443309, 1.3608272], [0.9999988, -1.9999976, 0.4999994, -0.9999988]])
    close(mean, [[0], [0]])
    close(inverse, [[0.2721654], [0.4999994]])
    assert total.tolist() == [[2, 3, 4, 5], [2, -2, 2, -2]]


def test_skip_simplified_layer_normalization_adds_the_bias_first() -> None:
    inputs = [X, SKIP, GAMMA, BIAS]
    (y,) = run("SkipSimplifiedLayerNormalization", inputs, domain=MICROSOFT, opset=1, epsilon=1e-5)
    close(y[0], [0.381385, 1.1441549, 0.381385, 1.7162323])


def test_skip_layer_normalization() -> None:
    beta = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    y, mean, _, _ = run(
        "SkipLayerNormalization",
        [X, SKIP, GAMMA, beta, BIAS],
        outputs=(F,) * 4,
        domain=MICROSOFT,
        opset=1,
    )
    close(y[0], [-0.828476, -0.9141713, 0.2071524, 2.0712569])
    close(mean, [[4.5], [1]])


def test_a_skip_norm_in_half_precision_uses_the_unrounded_sum() -> None:
    x = np.full((1, 4), 2048, np.float16)
    skip = np.array([[1, 3, 1, 3]], np.float16)
    half = ElementType.FLOAT16
    y, _, _, total = run(
        "SkipSimplifiedLayerNormalization",
        [x, skip, np.ones(4, np.float16)],
        outputs=(half, F, F, half),
        domain=MICROSOFT,
        opset=1,
        wanted=(True, False, False, True),
    )
    assert y.tolist() == [[0.99951171875, 1, 0.99951171875, 1]]
    assert total.tolist() == [[2048, 2052, 2048, 2052]]


@pytest.mark.parametrize("shape", [(1, 2, 4), (2, 4)])
def test_the_skip_of_a_skip_norm_broadcasts(shape: tuple[int, ...]) -> None:
    x = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    skip = np.arange(8, dtype=np.float32).reshape(shape)
    args = {"domain": MICROSOFT, "opset": 1}
    (y,) = run("SkipSimplifiedLayerNormalization", [x, skip, GAMMA], **args)  # type: ignore[arg-type]  # both are known keywords
    whole = np.ascontiguousarray(np.broadcast_to(skip.reshape(1, 2, 4), x.shape))
    (expected,) = run("SkipSimplifiedLayerNormalization", [x, whole, GAMMA], **args)  # type: ignore[arg-type]  # as above
    np.testing.assert_array_equal(y, expected)


def test_rms_normalization_over_two_axes() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    (y,) = run("RMSNormalization", [x, np.ones((2, 2), np.float32)], axis=-2)
    close(y.reshape(-1), [0, 0.5345217, 1.0690434, 1.6035652, 0.7126966, 0.8908707, 1.0690448, 1.2472190])


def test_a_norm_in_half_precision_does_not_overflow() -> None:
    (y,) = run("RMSNormalization", [np.full((1, 8), 300, np.float16), np.ones(8, np.float16)])
    assert y.tolist() == [[1.0] * 8]


EXACT = [-0.0040497, -0.1586553, -0.1542688, 0, 0.3457312, 0.8413447, 2.9959502]
TANH = [-0.0036375, -0.158808, -0.154286, 0, 0.345714, 0.841192, 2.9963627]


@pytest.mark.parametrize(
    ("operator", "domain", "attributes", "expected"),
    [
        ("Gelu", MICROSOFT, {}, EXACT),
        ("Gelu", "", {}, EXACT),
        ("Gelu", "", {"approximate": "tanh"}, TANH),
        ("FastGelu", MICROSOFT, {}, TANH),
        (
            "QuickGelu",
            MICROSOFT,
            {},
            [-0.0180713, -0.1542042, -0.1496116, 0, 0.3503884, 0.8457958, 2.9819288],
        ),
    ],
)
def test_gelu_forms(
    operator: str, domain: str, attributes: dict[str, AttributeValue], expected: list[float]
) -> None:
    (y,) = run(operator, [A], domain=domain, **attributes)  # type: ignore[arg-type]  # attributes are keywords
    close(y, expected)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("BiasGelu", [-0.0155241, -0.1542688, 0, 0.3457312, 0.8413447, 1.3997892, 3.4991858]),
        ("FastGelu", [-0.0150843, -0.154286, 0, 0.345714, 0.841192, 1.3995715, 3.4993837]),
    ],
)
def test_gelu_forms_with_a_bias(operator: str, expected: list[float]) -> None:
    (y,) = run(operator, [A, np.full(7, 0.5, np.float32)], domain=MICROSOFT)
    close(y, expected)


def test_swish() -> None:
    (y,) = run("Swish", [np.array([-1, 0, 2], np.float32)], alpha=1.702)
    close(y, [-0.1542042, 0, 1.9356587])


def test_tensor_scatter_linear() -> None:
    update = np.array([[[1, 2]], [[3, 4]]], np.float32)
    (y,) = run("TensorScatter", [np.zeros((2, 4, 2), np.float32), update, np.array([1, 3])], axis=1)
    assert y[0].tolist() == [[0, 0], [1, 2], [0, 0], [0, 0]]
    assert y[1].tolist() == [[0, 0], [0, 0], [0, 0], [3, 4]]


def test_tensor_scatter_circular() -> None:
    update = np.array([[[1, 2], [10, 20]], [[3, 4], [30, 40]]], np.float32)
    past = np.zeros((2, 4, 2), np.float32)
    (y,) = run("TensorScatter", [past, update, np.array([0, 3])], axis=1, mode="circular")
    assert y[0].tolist() == [[1, 2], [10, 20], [0, 0], [0, 0]]
    assert y[1].tolist() == [[30, 40], [0, 0], [0, 0], [3, 4]]


@pytest.mark.parametrize(("start", "word"), [(-1, "negative"), (4, "capacity of 4")])
def test_tensor_scatter_refuses_rows_outside_the_cache(start: int, word: str) -> None:
    past, update = np.zeros((1, 4, 2), np.float32), np.ones((1, 1, 2), np.float32)
    with pytest.raises(VramscopeError, match=word):
        run("TensorScatter", [past, update, np.array([start])], axis=1)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((1, 10, 3), [1, 4, 7]), ((10, 1, -4), [10, 6, 2]), ((3, 3, 1), []), ((3, 0, 1), [])],
)
def test_range_of_integers(bounds: tuple[int, ...], expected: list[int]) -> None:
    (y,) = run("Range", [np.array(item) for item in bounds], outputs=(L,))
    assert y.tolist() == expected


def test_range_of_floats() -> None:
    (y,) = run("Range", [np.array(item, np.float32) for item in (0, 1, 0.3)], outputs=(F,))
    close(y, [0, 0.3, 0.6, 0.9])


def test_range_refuses_a_delta_of_zero() -> None:
    with pytest.raises(VramscopeError, match="delta"):
        run("Range", [np.array(0), np.array(1), np.array(0)])


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, 2**62, 1, [0, 1, 2, 3]),
        (3, -1, -1, []),
        (3, -(2**63), -1, [3, 2, 1, 0]),
        (-2, 2**63 - 1, 1, [2, 3]),
        (9, -9, -2, [3, 1]),
        (-9, 2, 1, [0, 1]),
    ],
)
def test_slice_clamps_by_the_sign_of_its_step(start: int, end: int, step: int, expected: list[int]) -> None:
    inputs = [np.arange(4.0, dtype=np.float32), *(np.array([item]) for item in (start, end, 0, step))]
    (y,) = run("Slice", inputs)
    assert y.tolist() == expected


def test_scatter_nd_wraps_negatives_and_lets_the_last_duplicate_win() -> None:
    data, indices = np.zeros(4, np.float32), np.array([[-1], [1], [1]])
    (y,) = run("ScatterND", [data, indices, np.array([5, 6, 7], np.float32)])
    assert y.tolist() == [0, 7, 0, 5]


def test_scatter_nd_refuses_an_index_outside() -> None:
    with pytest.raises(VramscopeError, match="index 4"):
        run("ScatterND", [np.zeros(4, np.float32), np.array([[4]]), np.ones(1, np.float32)])


def test_gather_refuses_an_index_outside_naming_the_extent() -> None:
    with pytest.raises(VramscopeError, match=r"index -5 of ai\.onnx::Gather.*extent of 4"):
        run("Gather", [np.zeros((4, 2), np.float32), np.array([0, -5])])


@pytest.mark.parametrize("size", [6, 4096])
def test_top_k_orders_ties_by_index_and_takes_nan_as_the_largest(size: int) -> None:
    x = np.zeros(size, np.float32)
    x[:6] = [1, np.nan, 3, 3, np.inf, 2]
    values, indices = run("TopK", [x, np.array([5])], outputs=(F, L))
    assert indices.tolist() == [1, 4, 2, 3, 5]
    np.testing.assert_array_equal(values, [np.nan, np.inf, 3, 3, 2])


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_by_partition_equals_the_full_sort(largest: int) -> None:
    x = np.random.default_rng(1).integers(0, 40, (2, 3000)).astype(np.float32)
    _, indices = run("TopK", [x, np.array([100])], outputs=(F, L), largest=largest)
    order = np.argsort(-x if largest else x, axis=-1, kind="stable")[:, :100]
    np.testing.assert_array_equal(indices, order)


def test_top_k_of_nothing() -> None:
    values, indices = run("TopK", [np.zeros((2, 3), np.float32), np.array([0])], outputs=(F, L))
    assert values.shape == indices.shape == (2, 0)


@pytest.mark.parametrize("axis", [np.array(0), np.array([0])])
@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [(0, 0, [1, 3, 6]), (1, 0, [0, 1, 3]), (0, 1, [6, 5, 3]), (1, 1, [5, 3, 0])],
)
def test_cumulative_sum(axis: Values, exclusive: int, reverse: int, expected: list[int]) -> None:
    (y,) = run("CumSum", [np.array([1, 2, 3]), axis], exclusive=exclusive, reverse=reverse)
    assert y.tolist() == expected


def test_reshape_copies_an_extent_for_0_unless_zero_is_allowed() -> None:
    (y,) = run("Reshape", [np.zeros((2, 3, 4), np.float32), np.array([0, -1])])
    assert y.shape == (2, 12)
    (empty,) = run("Reshape", [np.zeros((2, 0), np.float32), np.array([0, 5])], allowzero=1)
    assert empty.shape == (0, 5)


def test_reshape_refuses_another_number_of_elements() -> None:
    with pytest.raises(VramscopeError, match="does not hold the 6 elements"):
        run("Reshape", [np.zeros((2, 3), np.float32), np.array([4, 2])])


def test_softmax_of_minus_infinity_alone_is_nan() -> None:
    (y,) = run("Softmax", [np.array([[-np.inf, -np.inf], [0, -np.inf]], np.float32)])
    np.testing.assert_array_equal(y, [[np.nan, np.nan], [1, 0]])


def test_an_unknown_operator_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"example::Nonsense of opset 3"):
        run("Nonsense", [A], domain="example", opset=3)


def test_control_flow_has_no_reference() -> None:
    assert not has_reference("", "Loop", 21)
    assert has_reference("", "Det", 22)


def four_bits(shape: tuple[int, ...]) -> tuple[Packed, Values]:
    count = int(np.prod(shape))
    data = np.random.default_rng(0).integers(0, 256, (count + 1) // 2).astype(np.uint8)
    packed = Packed(data, ElementType.INT4, shape)
    return packed, packed.unpack()


@pytest.mark.parametrize("shape", [(4, 6), (3, 5)])
def test_packing_gives_back_the_bytes(shape: tuple[int, ...]) -> None:
    packed, plain = four_bits(shape)
    again = pack(plain)
    assert (again.dtype, again.shape) == (packed.dtype, shape)
    np.testing.assert_array_equal(again.unpack(), plain)


def test_a_reshape_of_a_packed_tensor_copies_its_bytes() -> None:
    packed, _ = four_bits((4, 6))
    node = Node("n", "Reshape", "", 24)
    target = Packed(np.zeros(12, np.uint8), ElementType.INT4, (3, 8))
    run_single(node, [packed, np.array([3, -1])], [ElementType.INT4], placed=[target])
    assert target.data.tolist() == packed.data.tolist()


def test_a_transpose_of_a_packed_tensor_writes_the_placed_bytes() -> None:
    packed, plain = four_bits((4, 6))
    target = Packed(np.zeros(12, np.uint8), ElementType.INT4, (6, 4))
    (y,) = run_single(Node("n", "Transpose", "", 24), [packed], [ElementType.INT4], placed=[target])
    assert y is target
    np.testing.assert_array_equal(target.unpack(), plain.T)


def test_a_cast_to_four_bits_is_packed() -> None:
    x = np.array([-8, 7, 1, -1, 3], np.float32)
    (y,) = run_single(Node("n", "Cast", "", 24, {"to": 22}), [x], [ElementType.INT4])
    assert isinstance(y, Packed)
    assert y.data.tolist() == [0x78, 0xF1, 0x03]

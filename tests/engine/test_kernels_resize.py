"""Resize against onnxruntime, in every mode that both define alike."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import Node
from vramscope.ops.single import node_from_proto, run_single
from vramscope.ops.table import spec_for

if TYPE_CHECKING:
    import onnx

SHAPE = (2, 3, 5, 8)
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
SCALES = ((2.0, 3.0), (0.6, 0.5), (1.6, 0.75), (1.0, 2.5))
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
FORMS = (
    *(("nearest", coordinates, rounding) for coordinates, rounding in product(COORDINATES, ROUNDINGS)),
    *((mode, coordinates, "floor") for mode, coordinates in product(("linear", "cubic"), COORDINATES)),
)


CASES = [
    (*form, scale)
    for form, scale in product(FORMS, SCALES)
    if form[1] != "align_corners" or scale == (2.0, 3.0)
]
"""Corners of a length that is no whole number: onnxruntime rounds it first, the standard's cases do not."""

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def truth(node: onnx.NodeProto, x: Floats, scales: Floats) -> Floats:
    """onnxruntime's answer."""
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(scales, "scales")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.parametrize(("mode", "coordinates", "rounding", "scale"), CASES)
def test_resize_is_what_onnxruntime_gives(
    mode: str, coordinates: str, rounding: str, scale: tuple[float, float]
) -> None:
    scales = np.array((1, 1, *scale), np.float32)
    lengths = np.array(SHAPE) * scales
    if coordinates == "align_corners" and not np.array_equal(lengths, np.floor(lengths)):
        pytest.skip(
            "onnxruntime rounds the length that corners are aligned with; the standard's cases do not"
        )
    node = helper.make_node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
    )
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    (got,) = run_single(node_from_proto(node, 19), [x, None, scales])
    wanted = truth(node, x, scales)
    assert isinstance(got, np.ndarray)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [7, 9])
def test_upsample_repeats_and_interpolates(opset: int) -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    scales = (1.0, 1.0, 2.0, 2.0)
    given: list[Any] = [x] if opset == 7 else [x, np.array(scales, np.float32)]
    attributes: dict[str, Any] = {"scales": scales} if opset == 7 else {}
    (nearest,) = run_single(Node("u", "Upsample", "", opset, {**attributes, "mode": "nearest"}), given)
    assert np.array_equal(np.asarray(nearest)[0, 0], np.repeat(np.repeat(x[0, 0], 2, 0), 2, 1))
    (linear,) = run_single(Node("u", "Upsample", "", opset, {**attributes, "mode": "linear"}), given)
    np.testing.assert_allclose(np.asarray(linear)[0, 0, 0], [1, 1.5, 2, 2])


def test_whole_numbers_are_rounded_and_kept_in_their_range() -> None:
    node = Node("r", "Resize", "", 19, {"mode": "cubic"})
    x = np.array([[[[0, 255, 0, 255]]]], np.uint8)
    scales = np.array([1, 1, 1, 2], np.float32)
    (got,) = run_single(node, [x, None, scales], [ElementType.UINT8])
    (exact,) = run_single(node, [x.astype(np.float64), None, scales], [ElementType.DOUBLE])
    assert np.asarray(exact).max() > 255
    assert np.array_equal(np.asarray(got), np.clip(np.rint(np.asarray(exact)), 0, 255).astype(np.uint8))


def test_what_resize_cannot_do_is_said() -> None:
    x = np.zeros((1, 1, 2, 2), np.float32)
    with pytest.raises(ModelGraphError, match="neither scales nor sizes"):
        run_single(Node("r", "Resize", "", 19, {}), [x])
    with pytest.raises(ModelGraphError, match="2 scales for 4 axes"):
        run_single(Node("r", "Resize", "", 19, {}), [x, None, np.ones(2, np.float32)])
    scales = np.array([1, 1, 2, 2], np.float32)
    for attribute in ("mode", "nearest_mode", "coordinate_transformation_mode"):
        with pytest.raises(ModelGraphError, match="spline"):
            run_single(Node("r", "Resize", "", 19, {attribute: "spline"}), [x, None, scales])
    assert spec_for(Node("r", "Resize", "", 19)).kernel is not None

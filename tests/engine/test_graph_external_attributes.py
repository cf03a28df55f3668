"""Tensors of attributes in other files: read from checked regions alone, never from where the file likes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vramscope.api import make_plan, open_path
from vramscope.errors import MissingWeightsError, ModelFileError
from vramscope.graph.load import open_model
from vramscope.plan.types import Scenario
from vramscope.run.plain import plain_run

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = np.array([2, 3], np.int64)


def external(location: str, dims: list[int]) -> TensorProto:
    tensor = TensorProto(name="t", data_type=TensorProto.INT64, dims=dims)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def reshaped(location: str) -> onnx.GraphProto:
    """A Reshape to what a Constant says that lies elsewhere: inference wants to look into it."""
    made = helper.make_node("Constant", [], ["shape"], name="made", value=external(location, [2]))
    used = helper.make_node("Reshape", ["x", "shape"], ["y"], name="used")
    return helper.make_graph(
        [made, used],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )


def filled(location: str) -> onnx.GraphProto:
    """A ConstantOfShape whose value lies elsewhere."""
    node = helper.make_node("ConstantOfShape", ["n"], ["y"], name="filled", value=external(location, [1]))
    return helper.make_graph(
        [node],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
        [helper.make_tensor("n", TensorProto.INT64, [1], [4])],
    )


def saved(graph: onnx.GraphProto, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.parametrize("make", [reshaped, filled])
@pytest.mark.parametrize("location", ["../secret", "/proc/self/environ", "link"])
def test_nothing_outside_the_folder_is_opened(make: object, location: str, tmp_path: Path) -> None:
    assert callable(make)
    (tmp_path / "secret").write_bytes(SHAPE.tobytes())
    path = saved(make(location), tmp_path / "model")
    os.symlink(tmp_path / "secret", path.parent / "link")
    with pytest.raises(ModelFileError) as caught:
        open_path(path)
    assert location in str(caught.value)


def test_a_constant_beside_the_model_is_read(tmp_path: Path) -> None:
    path = saved(reshaped("shape.bin"), tmp_path)
    (tmp_path / "shape.bin").write_bytes(SHAPE.tobytes())
    model = open_path(path)
    (output,) = (model.program.values[item] for item in model.program.outputs)
    assert output.shape == (2, 3)
    x = np.arange(6, dtype=np.float32)
    ((_, y),) = plain_run(model, make_plan(model, Scenario()), {"x": x}).outputs
    np.testing.assert_array_equal(y, x.reshape(2, 3))


def test_a_value_beside_the_model_is_read(tmp_path: Path) -> None:
    path = saved(filled("value.bin"), tmp_path)
    (tmp_path / "value.bin").write_bytes(np.array([7], np.int64).tobytes())
    model = open_path(path)
    ((_, y),) = plain_run(model, make_plan(model, Scenario())).outputs
    np.testing.assert_array_equal(y, [7, 7, 7, 7])


@pytest.mark.parametrize("make", [reshaped, filled])
def test_a_missing_file_is_named(make: object, tmp_path: Path) -> None:
    assert callable(make)
    with pytest.raises(MissingWeightsError, match=r"gone\.bin|missing"):
        open_path(saved(make("gone.bin"), tmp_path))


def test_a_missing_constant_may_be_missing_where_weights_may(tmp_path: Path) -> None:
    model = open_model(saved(reshaped("gone.bin"), tmp_path), without_weights=True)
    assert not model.has_weights

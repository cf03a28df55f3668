"""What is computed once from weights: only what does not make them larger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from planned_models import opened

from vramscope.api import Planner, Scenario, open_path
from vramscope.decode.decoder import Decoder

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model


def steps_of(model: Model) -> tuple[list[str], list[str]]:
    """Operators computed once, and those that run every time."""
    names = [step.node.operator for step in model.program.steps]
    return names[: model.program.constant_steps], names[model.program.constant_steps :]


def dequantised(folder: Path, rows: int) -> Model:
    """Two products with int8 weights [rows, rows], dequantised at the top of the file; scales per tensor."""
    weights = [numpy_helper.from_array(np.full((rows, rows), fill, np.int8), f"w{fill}") for fill in (1, 2)]
    scale = numpy_helper.from_array(np.full((), 0.5, np.float32), "scale")
    nodes = [
        helper.make_node("DequantizeLinear", ["w1", "scale"], ["f1"], "first"),
        helper.make_node("DequantizeLinear", ["w2", "scale"], ["f2"], "second"),
        helper.make_node("Transpose", ["f2"], ["t2"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["x", "f1"], ["a"], "one"),
        helper.make_node("Relu", ["a"], ["r"], "between"),
        helper.make_node("MatMul", ["r", "t2"], ["y"], "two"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, rows])
    graph = helper.make_graph(nodes, "g", [x], [y], [*weights, scale])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), folder / "m.onnx")
    return open_path(folder / "m.onnx")


def test_dequantised_weights_run_right_before_their_use(tmp_path: Path) -> None:
    model = dequantised(tmp_path, 64)
    ahead, later = steps_of(model)
    assert ahead == []
    assert later == ["DequantizeLinear", "MatMul", "Relu", "DequantizeLinear", "Transpose", "MatMul"]
    plan = Planner(model).plan(Scenario())
    assert plan.weights.bytes == 2 * 64 * 64 + 4
    float_bytes = 64 * 64 * 4
    assert 2 * float_bytes <= plan.phases[0].arena.naive
    assert plan.phases[0].arena.live_peak < 2 * float_bytes + 4096


def test_small_shape_arithmetic_is_computed_once(tmp_path: Path) -> None:
    text = """g (float[4,64] x) => (float[4,64] y)
      <int64[2] shape = {4, 64}, int64 zero = {0}, int64 most = {64}, int64 one = {1}> {
      filled = ConstantOfShape(shape)
      row = Range(zero, most, one)
      wide = Expand(row, shape)
      float_row = Cast<to=1>(wide)
      sum = Add(filled, float_row)
      y = Add(sum, x)
    }"""
    ahead, later = steps_of(opened(tmp_path, text))
    assert sorted(ahead) == ["Add", "Cast", "ConstantOfShape", "Expand", "Range"]
    assert later == ["Add"]


def test_a_large_filling_runs_every_time(tmp_path: Path) -> None:
    text = """g (float[256,256] x) => (float[256,256] y) <int64[2] shape = {256, 256}> {
      filled = ConstantOfShape(shape)
      y = Add(filled, x)
    }"""
    model = opened(tmp_path, text)
    assert steps_of(model) == ([], ["ConstantOfShape", "Add"])
    plan = Planner(model).plan(Scenario())
    assert plan.phases[0].arena.naive == 256 * 256 * 4


@pytest.mark.parametrize("operator", ["Transpose", "Identity", "Neg"])
def test_what_keeps_its_size_is_computed_once(tmp_path: Path, operator: str) -> None:
    weight = numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    nodes = [helper.make_node(operator, ["w"], ["v"]), helper.make_node("MatMul", ["x", "v"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 256])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 256])
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), tmp_path / "m.onnx")
    _, later = steps_of(open_path(tmp_path / "m.onnx"))
    assert later == ["MatMul"]


def test_a_4_bit_decoder_keeps_its_weights_packed(shared_models: Path) -> None:
    folder = shared_models / "tiny" / "tiny-llama-int4-cpu-qdq"
    model = open_path(folder)
    stored = sum(source.size for source in model.program.weights.values())
    plan = Planner(model).plan(Scenario(context=64, prompt=8))
    assert plan.weights.bytes <= stored
    decoder = Decoder(model, plan)
    try:
        decoder.load()
        tokens = [decoder.prefill([[5, 9, 11, 200]]).tokens[0]]
        tokens += [decoder.advance().tokens[0] for _ in range(12)]
        assert decoder.verify(4).equal
        weights = decoder.snapshot().components["weights"]
    finally:
        decoder.close()
    assert weights.current_bytes == plan.weights.bytes
    assert len(set(tokens)) > 1

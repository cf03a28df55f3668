"""Outputs that no step of a run computes: weights, what follows from them, inputs, and views of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from vramscope.api import make_plan, open_path
from vramscope.plan.types import Scenario
from vramscope.run.plain import run_plain

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import NodeProto

    from vramscope.graph.model import Array

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WEIGHTS: dict[str, Array] = {
    "w": np.array([1, 2, 3, 4], np.float32),
    "codes": np.array([1, -2, 3, 4], np.int8),
    "flat": np.array([6], np.int64),
    "square": np.array([2, 2], np.int64),
}


def node(operator: str, inputs: str, outputs: str) -> NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), name=f"made_{outputs}")


def filled() -> NodeProto:
    made = node("ConstantOfShape", "square", "y")
    made.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.array([7], np.int64))))
    return made


CASES: dict[str, tuple[list[NodeProto], str]] = {
    "a weight": ([], "w"),
    "a copy of a weight": ([node("Identity", "w", "y")], "y"),
    "computed from weights": ([node("Add", "w w", "y")], "y"),
    "computed from those": ([node("Add", "w w", "v"), node("Neg", "v", "y")], "v y"),
    "filled": ([filled()], "y"),
    "a view of a weight": ([node("Reshape", "w square", "y")], "y w"),
    "beside a computed one": ([node("Add", "w w", "v"), node("Neg", "x", "y")], "y v"),
    "an input": ([], "x"),
    "a view of an input": ([node("Reshape", "x flat", "y")], "y"),
    "a view of an output": ([node("Neg", "x", "v"), node("Reshape", "v flat", "y")], "v y"),
    "small whole numbers": ([node("Identity", "codes", "y")], "y"),
}


@pytest.mark.parametrize("case", CASES)
def test_it_has_the_value_that_the_standard_says(case: str, tmp_path: Path) -> None:
    nodes, names = CASES[case]
    kinds = {"codes": TensorProto.INT8}
    outputs = []
    for name in names.split():
        of = TensorProto.INT64 if case == "filled" else TensorProto.FLOAT
        kind = TensorProto.INT8 if case == "small whole numbers" else kinds.get(name, of)
        outputs.append(helper.make_tensor_value_info(name, kind, None))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        outputs,
        [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    model = open_path(path)
    found = dict(run_plain(model, make_plan(model, Scenario()), {"x": X}))
    wanted = ReferenceEvaluator(proto).run(None, {"x": X})
    assert isinstance(wanted, list)
    assert list(found) == names.split()
    for name, truth in zip(names.split(), wanted, strict=True):
        np.testing.assert_array_equal(found[name], truth)

"""Sequences: their tensors are no device memory, as weights, as outputs, as inputs; the plan says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import numpy_helper, parser
from planned_models import planner_of
from small_models import OPSETS, opened_proto

from vramscope.api import Scenario, make_plan
from vramscope.devices.host import HostDevice
from vramscope.errors import BindingError
from vramscope.plan.types import Certainty
from vramscope.run.plain import run_plain
from vramscope.run.session import ProgramSession

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folded_sequence_takes_no_device_memory(tmp_path: Path) -> None:
    text = """g (float[4] x, int64 i) => (float[4] y) <float[4] a = {1, 2, 3, 4}, float[4] b = {1, 2, 3, 5}>
    { s = SequenceConstruct(a, b) c = SequenceAt(s, i) y = Add(x, c) }"""
    assert planner_of(tmp_path, text).plan(Scenario()).weights.rows == ()


def test_a_constant_sequence_that_the_graph_gives_is_neither_a_weight_nor_a_buffer(tmp_path: Path) -> None:
    text = """g (float[2] x) => (seq(float[2]) s, float[2] y) <float[2] c = {1, 2}>
    { s = SequenceConstruct(c, c) y = Relu(x) }"""
    model = planner_of(tmp_path, text).model
    plan, device = make_plan(model, Scenario()), HostDevice()
    assert plan.weights.bytes == 0
    assert [row.name for row in plan.bindings] == ["x", "y"]
    assert plan.notes == ("Output s is a sequence: its tensors lie in Python's memory and are not planned",)
    session = ProgramSession(model, plan, device)
    session.prepare()
    sequence = session.run_outputs({"x": np.ones(2, np.float32)})["s"]
    assert [item.tolist() for item in sequence] == [[1, 2], [1, 2]]  # type: ignore[union-attr]  # a list
    assert device.ledger.total.current_bytes == plan.total.bytes == 16
    session.close()


def test_a_graph_that_takes_a_sequence_is_planned_and_refused_by_name_before_it_runs(tmp_path: Path) -> None:
    model = planner_of(tmp_path, "g (seq(float[2]) s) => (int64 y) { y = SequenceLength(s) }").model
    plan = make_plan(model, Scenario())
    assert plan.notes == ("Input s is a sequence: its tensors lie in Python's memory and are not planned",)
    for run in (
        lambda: ProgramSession(model, plan, HostDevice()).prepare(),
        lambda: run_plain(model, plan),
        lambda: run_plain(model, plan, {"s": np.ones(2, np.float32)}),
    ):
        with pytest.raises(BindingError, match="input s: it is a sequence, and nothing here"):
            run()


@pytest.mark.parametrize(
    ("inputs", "constants", "weights"),
    [("float[4] x", ", int64 i = {1}", 16), ("float[4] x, int64 i", "", 0)],
)
def test_what_is_taken_from_a_sequence_of_equal_shapes_is_planned_and_counted(
    tmp_path: Path, inputs: str, constants: str, weights: int
) -> None:
    text = f"""g ({inputs}) => (float[4] y)
    <float[4] a = {{1, 2, 3, 4}}, float[4] b = {{5, 6, 7, 8}}{constants}>
    {{ s = SequenceConstruct(a, b) c = SequenceAt(s, i) y = Add(x, c) }}"""
    model = planner_of(tmp_path, text).model
    plan, device = make_plan(model, Scenario()), HostDevice()
    session = ProgramSession(model, plan, device)
    session.prepare()
    feeds = {"x": np.ones(4, np.float32), "i": np.array(1)}
    found = session.run({name: item for name, item in feeds.items() if f" {name}" in inputs})
    assert np.asarray(found["y"]).tolist() == [6, 7, 8, 9]
    assert device.ledger.component("weights").current_bytes == plan.weights.bytes == weights
    session.close()


def test_a_sequence_of_tensors_that_differ_has_no_shape(tmp_path: Path) -> None:
    text = """g (float[4] x, int64 i) => (float[K] y) <float[4] a = {1, 2, 3, 4}, float[1] b = {5}>
    { s = SequenceConstruct(a, b) y = SequenceAt(s, i) }"""
    values = {value.name: value.shape for value in planner_of(tmp_path, text).model.program.values}
    assert values["s"] is None
    assert values["y"] not in ((4,), (1,))


@pytest.mark.parametrize(
    ("kind", "text", "weights"),
    [
        ("int64[1,K]", "k = NonZero(c)", 12000),
        ("float[K]", "k = Unique(c)", 12000),
        ("float[K]", "b = Cast<to=9>(c) k = Compress<axis=0>(c, b)", 12000 + 3000),
    ],
)
def test_a_constant_step_whose_extents_are_data_is_no_weight(kind: str, text: str, weights: int) -> None:
    proto = parser.parse_model(
        f"<ir_version: 8, opset_import: {OPSETS}> g (float[4] x) => (float[4] y, {kind} k)"
        f" {{ {text} y = Relu(x) }}"
    )
    numbers = (np.arange(3000) % 3 == 0).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(numbers, "c"))
    model = opened_proto(proto)
    plan, device = make_plan(model, Scenario()), HostDevice()
    session = ProgramSession(model, plan, device)
    session.prepare()
    session.run({"x": np.ones(4, np.float32)})
    assert device.ledger.component("weights").current_bytes == plan.weights.bytes == weights
    assert plan.total.certainty is Certainty.BOUND
    session.close()

"""Damaged model files: planned or refused by name, whatever was damaged."""

from __future__ import annotations

import shutil
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import onnx
import pytest
from damage import damage
from onnx import TensorProto, helper

from vramscope.api import Planner, make_plan, open_path, suggestions
from vramscope.errors import ModelFileError, ModelGraphError, VramscopeError
from vramscope.plan.rewrites.table import REWRITES
from vramscope.plan.types import Scenario
from vramscope.report.rows import node_tables
from vramscope.run.plain import plain_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODELS = (
    "tiny-llama-fp32-cpu",
    "tiny-llama-int4-cpu-qdq",
    "tiny-qwen3-fp32-cpu",
    "mobius-tiny-llama-std",
    "mobius-tiny-llama-fp32-static",
    "torchexp-tiny-llama",
)
TRIES = 25


@pytest.mark.parametrize("name", MODELS)
def test_a_damaged_file_is_planned_or_refused(name: str, shared_models: Path, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(shared_models / "tiny" / name, folder)
    file = next(folder.glob("*.onnx"))
    whole, random = file.read_bytes(), Random(name)
    refused: list[VramscopeError] = []
    for _ in range(TRIES):
        model = onnx.ModelProto.FromString(whole)
        for _ in range(random.choice((1, 1, 2, 3))):
            damage(model, random)
        file.write_bytes(model.SerializeToString())
        try:
            list(node_tables(make_plan(open_path(folder), Scenario(context=64, card="RTX 4090")), 1))
        except VramscopeError as error:
            refused.append(error)
    assert 0 < len(refused) < TRIES
    assert all(error.what and error.why for error in refused)


@pytest.mark.parametrize("name", MODELS)
def test_other_exports_of_a_damaged_file_are_planned_or_refused(
    name: str, shared_models: Path, tmp_path: Path
) -> None:
    folder = tmp_path / name
    shutil.copytree(shared_models / "tiny" / name, folder)
    file = next(folder.glob("*.onnx"))
    whole, random = file.read_bytes(), Random(f"{name} otherwise")
    planned = 0
    for _ in range(TRIES):
        model = onnx.ModelProto.FromString(whole)
        for _ in range(random.choice((1, 2, 3))):
            damage(model, random)
        file.write_bytes(model.SerializeToString())
        try:
            planner = Planner(open_path(folder))
            plan = planner.plan(Scenario(context=64))
        except VramscopeError:
            continue
        planned += 1
        suggestions(planner, plan)
        for rewrite in REWRITES:
            with suppress(VramscopeError):
                planner.plan(Scenario(context=64, as_if=(rewrite.id,)))
    assert planned


def constant(**attributes: object) -> onnx.NodeProto:
    node = helper.make_node("Constant", [], ["c"], name="made")
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    return node


def short_tensor() -> onnx.TensorProto:
    tensor = helper.make_tensor("t", TensorProto.INT64, [2], [1, 2])
    tensor.dims[0] = 18
    return tensor


def uneven_tensor() -> onnx.TensorProto:
    tensor = helper.make_tensor("t", TensorProto.INT64, [1], (1).to_bytes(8, "little"), raw=True)
    tensor.raw_data += b"\0"
    return tensor


def tensor_of(kind: int) -> onnx.TensorProto:
    tensor = helper.make_tensor("t", TensorProto.INT64, [1], [1])
    tensor.data_type = kind
    return tensor


def of_kind(kind: int) -> onnx.NodeProto:
    node = constant(value=helper.make_tensor("t", TensorProto.INT64, [1], [1]))
    node.attribute[0].type = kind
    return node


def without_content() -> onnx.NodeProto:
    node = constant(value=helper.make_tensor("t", TensorProto.INT64, [1], [1]))
    node.attribute[0].ClearField("t")
    return node


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: constant(value=short_tensor()), "it holds 2 values, INT64 [18] needs 18"),
        (lambda: constant(value=uneven_tensor()), "it holds 9 bytes, INT64 [1] needs 8"),
        (lambda: constant(value=tensor_of(0)), "UNDEFINED [1] is no type and shape of a tensor"),
        (lambda: constant(value=tensor_of(111)), "element type 111 is not supported"),
        (lambda: constant(), "it has 0 attributes, and a Constant has one value"),
        (lambda: constant(value_int=1, value_float=1.0), "it has 2 attributes"),
        (lambda: constant(value=[1.0]), "'value' of kind FLOATS is no value of a Constant"),
        (lambda: of_kind(0), "its kind 0 is none that ONNX defines"),
        (without_content, "it has no content"),
    ],
)
def test_a_damaged_constant_is_refused_by_name(
    make: Callable[[], onnx.NodeProto], why: str, tmp_path: Path
) -> None:
    value = helper.make_tensor_value_info("c", TensorProto.INT64, ["n"])
    graph = helper.make_graph([make()], "g", [], [value])
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(ModelGraphError) as caught:
        open_path(path)
    assert why in caught.value.why
    assert "made" in caught.value.what
    assert caught.value.node == "made"
    assert caught.value.remedy


@pytest.mark.parametrize(
    "kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.COMPLEX64, TensorProto.BFLOAT16]
)
def test_whole_tensors_of_odd_types_pass(kind: int, tmp_path: Path) -> None:
    tensor = helper.make_tensor("t", kind, [3], [1, 2, 3])
    graph = helper.make_graph(
        [constant(value=tensor)], "g", [], [helper.make_tensor_value_info("c", kind, [3])]
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert open_path(path).program.outputs


def test_a_location_that_the_system_cannot_look_up_is_refused(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="a" * 300)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"], name="same")],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [tensor],
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(ModelFileError, match="File name too long"):
        open_path(path)


@pytest.mark.parametrize(("shape", "kind"), [([], TensorProto.FLOAT), ([2, 3], TensorProto.STRING)])
def test_an_operator_that_does_not_take_its_inputs_is_refused_with_them(
    shape: list[int], kind: int, tmp_path: Path
) -> None:
    names = ["q", "k", "v", "", "past_k", "past_v"]
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name in names if name]
    node = helper.make_node("Attention", names, ["y"], name="att", q_num_heads=2, kv_num_heads=2)
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c"])]
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]).SerializeToString()
    )
    with pytest.raises(VramscopeError) as caught:
        make_plan(open_path(path), Scenario(maxima={"a": 1, "b": 1, "c": 1}))
    assert "att" in str(caught.value)


def model_of(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], folder: Path) -> Path:
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, made)
    path = folder / "model.onnx"
    opsets = [helper.make_opsetid("", 20)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path


def test_a_kernel_whose_inputs_do_not_go_together_names_the_node_and_them(tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, ["m"]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, ["n"]),
    ]
    path = model_of([helper.make_node("Add", ["a", "b"], ["y"], name="sum")], inputs, tmp_path)
    model = open_path(path)
    plan = make_plan(model, Scenario(extents={"m": 3, "n": 4}))
    with pytest.raises(ModelGraphError) as caught:
        plain_run(model, plan)
    assert caught.value.node == "sum"
    assert "float32 [3], float32 [4]" in caught.value.why


@pytest.mark.parametrize("kind", [TensorProto.UNDEFINED, None])
def test_an_input_without_a_type_is_refused(kind: int | None, tmp_path: Path) -> None:
    info = onnx.ValueInfoProto(name="a")
    if kind is not None:
        info.type.tensor_type.elem_type = kind
    path = model_of([helper.make_node("Identity", ["a"], ["y"], name="same")], [info], tmp_path)
    with pytest.raises(ModelGraphError, match=r"input 'a': it has no .*type"):
        open_path(path)

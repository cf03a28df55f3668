"""Inputs of a rank that the scenario does not feed, and inputs without one: told by name, never guessed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import parser
from small_models import OPSETS, opened_proto

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.errors import ScenarioError
from vramscope.plan.symbols import bind_symbols
from vramscope.plan.types import Certainty, Phase, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model

GQA, STATIC = "tiny-llama-fp32-cpu", "mobius-tiny-llama-fp32-static"


def decoder_with(folder: Path, source: Path, name: str, rank: int | None) -> Model:
    """The decoder in ``source`` whose input ``name`` has ``rank`` symbolic axes, or no shape."""
    shutil.copytree(source, folder / "model")
    file = next((folder / "model").glob("*.onnx"))
    proto = onnx.load(file, load_external_data=False)
    kind = next(item for item in proto.graph.input if item.name == name).type.tensor_type
    kind.ClearField("shape")
    if rank is not None:
        kind.shape.SetInParent()
        for axis in range(rank):
            kind.shape.dim.add().dim_param = f"other_{axis}"
    onnx.save(proto, file)
    return open_path(folder / "model")


@pytest.mark.parametrize(
    ("source", "name", "rank", "fed"),
    [
        (GQA, "attention_mask", 1, [1, 16]),
        (GQA, "attention_mask", 3, [1, 16]),
        (GQA, "past_key_values.0.key", 5, [1, 2, 16, 16]),
        (STATIC, "write_indices", 0, [1]),
        (STATIC, "nonpad_kv_seqlen", 2, [1]),
    ],
)
def test_a_rank_that_the_scenario_does_not_feed_is_refused(
    tmp_path: Path, shared_models: Path, source: str, name: str, rank: int, fed: list[int]
) -> None:
    model = decoder_with(tmp_path, shared_models / "tiny" / source, name, rank)
    with pytest.raises(ScenarioError) as caught:
        make_plan(model, Scenario(prompt=4, context=16))
    assert str(caught.value) == (
        f"the rank of input {name}: the graph gives it {rank} and the scenario feeds it {fed}, of rank "
        f"{len(fed)}. Export the model with rank {len(fed)} there"
    )


@pytest.mark.parametrize(
    ("source", "name"),
    [(GQA, "attention_mask"), (GQA, "past_key_values.0.key"), (GQA, "input_ids"), (STATIC, "write_indices")],
)
def test_a_decoder_s_input_without_a_rank_is_unknown(
    tmp_path: Path, shared_models: Path, source: str, name: str
) -> None:
    model = decoder_with(tmp_path, shared_models / "tiny" / source, name, None)
    plan = make_plan(model, Scenario(prompt=4, context=16))
    assert (name, -1) in {(item.value, item.axis) for item in plan.refusals}
    rows = [row for row in plan.bindings if row.name == name]
    assert all(row.figure.bytes is None for row in rows)


def with_planes(folder: Path, source: Path, planes: int | str) -> Model:
    """A decoder whose positions come in planes, as multimodal rotary embedding has them; the last is read."""
    shutil.copytree(source, folder / "model")
    file = next((folder / "model").glob("*.onnx"))
    proto = onnx.load(file, load_external_data=False)
    (positions,) = (item for item in proto.graph.input if item.name == "position_ids")
    rows = [item.dim_param for item in positions.type.tensor_type.shape.dim]
    for node in proto.graph.node:
        node.input[:] = ["row" if name == "position_ids" else name for name in node.input]
    last = onnx.helper.make_tensor("last", onnx.TensorProto.INT64, [], [-1])
    proto.graph.initializer.append(last)
    proto.graph.node.insert(0, onnx.helper.make_node("Gather", ["position_ids", "last"], ["row"], "planes"))
    element = positions.type.tensor_type.elem_type
    made = onnx.helper.make_tensor_value_info("position_ids", element, [planes, *rows])
    positions.CopyFrom(made)
    onnx.save(proto, file)
    return open_path(folder / "model")


@pytest.mark.parametrize("name", ["mobius-tiny-llama-std", "torchexp-tiny-llama"])
@pytest.mark.parametrize("batch", [1, 2])
def test_positions_in_planes_are_the_same_in_each(
    tmp_path: Path, shared_models: Path, name: str, batch: int
) -> None:
    source, scenario = shared_models / "tiny" / name, Scenario(batch=batch, prompt=4, context=32)
    tokens = []
    for model in (open_path(source), with_planes(tmp_path, source, 3)):
        decoder = Decoder(model, make_plan(model, scenario))
        decoder.load()
        first = decoder.prefill([[5, 9, 11, 7]] * batch)
        tokens.append([first.tokens, *(decoder.advance().tokens for _ in range(10))])
        assert decoder.snapshot().steps_replayed > 5
        decoder.close()
    assert tokens[0] == tokens[1]


def test_positions_in_a_number_of_planes_that_nothing_says_are_refused(
    tmp_path: Path, shared_models: Path
) -> None:
    model = with_planes(tmp_path, shared_models / "tiny" / "mobius-tiny-llama-std", "planes")
    with pytest.raises(ScenarioError, match="the rank of input position_ids: the graph gives it 3"):
        make_plan(model, Scenario(prompt=4, context=16))


def unranked() -> Model:
    """Relu of an input whose type says nothing of its shape."""
    text = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"
    proto = parser.parse_model(f"<ir_version: 8, opset_import: {OPSETS}>\n{text}")
    for end in (*proto.graph.input, *proto.graph.output):
        end.type.tensor_type.ClearField("shape")
    return opened_proto(proto)


def test_an_input_without_a_rank_is_no_scalar() -> None:
    plan = make_plan(unranked(), Scenario())
    (row,) = (row for row in plan.bindings if row.name == "x")
    assert (row.figure.bytes, row.figure.certainty) == (None, Certainty.UNKNOWN)
    (refused, *_) = plan.refusals
    assert (refused.value, refused.axis, refused.operator, refused.input_index) == (
        "x",
        -1,
        "ai.onnx::Relu",
        0,
    )
    assert refused.reason == "shape inference gives it no rank"


def test_what_an_input_without_a_rank_is_fed_with_is_its_shape() -> None:
    model = unranked()
    (x,) = model.program.inputs
    bound = bind_symbols(model, Scenario(), Phase.SINGLE, {x: (3, 4)}, {})
    assert dict(bound.inputs) == {x: (3, 4)}
    assert dict(bound.symbols) == {}

"""Small models from real trouble, with the right answers: 01-06, 08, 15, 18, 19, 22, 23."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from planned_models import activations, chain, opened, planner_of, value_of
from small_models import opened as small
from small_models import session_of

from vramscope.api import Planner, Scenario, open_path
from vramscope.errors import ScenarioError, ShapeOverflowError, SymbolConflictError, UnboundedAxisError
from vramscope.plan.activations import exact_sizes
from vramscope.plan.suggest import suggestions
from vramscope.plan.symbols import bind_symbols
from vramscope.plan.types import BucketPolicy, Certainty, ComponentName, Phase
from vramscope.run.capture import SeamReason

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model


def test_case_01_a_chain_of_eight(tmp_path: Path) -> None:
    plan = activations(opened(tmp_path, chain(8)))
    assert (plan.naive, plan.peak, len(plan.slots)) == (32_768, 8_192, 2)


def test_case_02_a_branch_is_freed_after_its_last_reader(tmp_path: Path) -> None:
    text = """g (float[1,1024] x) => (float[1,1024] d)
    { a = Relu(x) b = Relu(a) c = Sigmoid(a) d = Add(b, c) }"""
    plan = activations(opened(tmp_path, text))
    assert (plan.naive, plan.peak, plan.live_peak) == (16_384, 12_288, 12_288)


def test_case_03_a_skip_pins_its_value(tmp_path: Path) -> None:
    text = """g (float[1,1024] x) => (float[1,1024] d)
    { a = Relu(x) b = Relu(a) c = Relu(b) d = Add(a, c) }"""
    plan = activations(opened(tmp_path, text))
    assert (plan.peak, plan.live_peak) == (12_288, 12_288)


def test_case_04_a_reshape_is_a_view(tmp_path: Path) -> None:
    text = """g (float[1,1024] x) => (float[32,32] c) <int64[2] s = {32, 32}>
    { a = Relu(x) b = Reshape(a, s) c = Relu(b) }"""
    plan = activations(opened(tmp_path, text))
    assert len(plan.placements) == 2
    assert plan.naive == 8_192


SCORES = """g (float[B,H,512,64] q, float[B,H,64,512] k) => (float[B,H,512,512] y)
{ scores = MatMul(q, k) y = Relu(scores) }"""


@pytest.mark.parametrize(
    ("batch", "heads", "expected"), [(8, 4, 33_554_432), (100, 80, 8_388_608_000), (8000, 1, 8_388_608_000)]
)
def test_case_05_attention_scores(tmp_path: Path, batch: int, heads: int, expected: int) -> None:
    planner = planner_of(tmp_path, SCORES)
    plan = planner.plan(Scenario(maxima={"B": batch, "H": heads}, budget=2**20))
    row = next(row for row in plan.phases[0].nodes if row.operator == "MatMul")
    assert row.output_bytes.bytes == expected
    activation = plan.component(ComponentName.ACTIVATIONS)
    assert activation.figure.bytes == expected
    assert activation.figure.certainty is Certainty.BOUND


def test_case_05_the_blame_names_the_node(tmp_path: Path) -> None:
    text = "g (float[B,H,512,64] q, float[B,H,64,512] k) => (float[B,H,512,512] s) { s = MatMul(q, k) }"
    plan = planner_of(tmp_path, text).plan(Scenario(maxima={"B": 8, "H": 4}, budget=2**20))
    assert plan.verdict.blame == "node MatMul_0"
    assert "node MatMul_0 is to blame" in plan.verdict.sentence


def decoder(
    folder: Path, *, layers: int, heads: int, size: int, cos_rows: int = 0, name: str = "decoder"
) -> Model:
    """A decoder of GroupQueryAttention nodes alone, without projections; rotary tables of ``cos_rows``."""
    width = heads * size
    names = [f"past_key_values.{layer}.{role}" for layer in range(layers) for role in ("key", "value")]
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]),
        *(_cache(item, "past", heads, size) for item in names),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT16, ["batch", "sequence", 32]),
        *(_cache(item.replace("past_key_values", "present"), "total", heads, size) for item in names),
    ]
    tables = [("table", (32, width)), ("head", (width, 32))]
    tables += [(item, (cos_rows, size // 2)) for item in ("cos_cache", "sin_cache") if cos_rows]
    weights = [numpy_helper.from_array(np.zeros(shape, np.float16), item) for item, shape in tables]
    axis = numpy_helper.from_array(np.array([1], np.int64), "one")
    length = numpy_helper.from_array(np.array(1, np.int64), "step")
    graph = helper.make_graph(
        _decoder_nodes(layers, heads, rotary=bool(cos_rows)), name, inputs, outputs, [*weights, axis, length]
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    path = folder / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return open_path(path)


def _cache(name: str, axis: str, heads: int, size: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT16, ["batch", heads, axis, size])


def _decoder_nodes(layers: int, heads: int, *, rotary: bool) -> list[onnx.NodeProto]:
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["h0"], "embed"),
        helper.make_node("ReduceSum", ["attention_mask", "one"], ["sum"], "sum", keepdims=1),
        helper.make_node("Sub", ["sum", "step"], ["less"], "less"),
        helper.make_node("Cast", ["less"], ["seqlens"], "seqlens", to=TensorProto.INT32),
        helper.make_node("Shape", ["attention_mask"], ["mask_shape"], "mask_shape"),
        helper.make_node("Gather", ["mask_shape", "step"], ["total64"], "pick"),
        helper.make_node("Cast", ["total64"], ["total_length"], "total", to=TensorProto.INT32),
    ]
    for layer in range(layers):
        past, present = f"past_key_values.{layer}", f"present.{layer}"
        given = [f"h{layer}"] * 3 + [f"{past}.key", f"{past}.value", "seqlens", "total_length"]
        given += ["cos_cache", "sin_cache"] if rotary else []
        made = [f"h{layer + 1}", f"{present}.key", f"{present}.value"]
        options: dict[str, Any] = {"num_heads": heads, "kv_num_heads": heads, "do_rotary": int(rotary)}
        nodes.append(
            helper.make_node(
                "GroupQueryAttention", given, made, f"attention{layer}", domain="com.microsoft", **options
            )
        )
    return [*nodes, helper.make_node("MatMul", [f"h{layers}", "head"], ["logits"], "head_product")]


@pytest.mark.parametrize(
    ("context", "expected"), [(131_072, 51_539_607_552), (4_096, 3 * 2**29)], ids=["48 GiB", "1.5 GiB"]
)
def test_case_06_the_cache_of_a_long_context(tmp_path: Path, context: int, expected: int) -> None:
    model = decoder(tmp_path, layers=32, heads=32, size=96)
    plan = Planner(model).plan(Scenario(context=context, prompt=16))
    assert plan.component(ComponentName.KV_CACHE).figure.bytes == expected
    assert expected == 2 * 32 * 1 * 32 * context * 96 * 2


def test_case_06_the_batch_multiplies_the_cache(tmp_path: Path) -> None:
    model = decoder(tmp_path, layers=2, heads=4, size=64)
    plan = Planner(model).plan(Scenario(batch=3, context=100, prompt=16))
    assert plan.kv.bytes == 2 * 2 * 3 * 4 * 100 * 64 * 2


def test_case_06_a_cos_cache_bounds_the_context(tmp_path: Path) -> None:
    planner = Planner(decoder(tmp_path, layers=2, heads=4, size=96, cos_rows=4096))
    plan = planner.plan(Scenario(prompt=16))
    assert (plan.context, plan.context_source) == (4096, "rows of 'cos_cache'")
    assert plan.kv.bytes == 2 * 2 * 4 * 4096 * 96 * 2
    with pytest.raises(ScenarioError, match=r"131,072 tokens.*4,096.*cos_cache"):
        planner.plan(Scenario(context=131_072, prompt=16))


def logits_model(folder: Path, *, last_only: bool) -> Model:
    """Hidden [1, S, 64] times [64, 32768] in half precision, then Cast; with the last row picked first."""
    weight = numpy_helper.from_array(np.zeros((64, 32_768), np.float16), "w")
    last = numpy_helper.from_array(np.array([-1], np.int64), "last")
    hidden = "row" if last_only else "hidden"
    nodes = [
        *([helper.make_node("Gather", ["hidden", "last"], ["row"], axis=1)] if last_only else []),
        helper.make_node("MatMul", [hidden, "w"], ["half"]),
        helper.make_node("Cast", ["half"], ["logits"], to=TensorProto.FLOAT),
    ]
    x = helper.make_tensor_value_info("hidden", TensorProto.FLOAT16, [1, "S", 64])
    y = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "T", 32_768])
    weights = [weight, *([last] if last_only else [])]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    path = folder / "logits.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), path)
    return open_path(path)


def test_case_08_logits_and_their_cast_live_together(tmp_path: Path) -> None:
    model = logits_model(tmp_path, last_only=False)
    plan = activations(model, exact_sizes({"S": 1024}))
    assert plan.live_peak == 67_108_864 + 134_217_728
    assert plan.placements[value_of(model, "half").id].size == 67_108_864
    session = Planner(model).plan(Scenario(maxima={"S": 1024}))
    assert session.component(ComponentName.ACTIVATIONS).figure.bytes == 67_108_864
    assert next(row for row in session.bindings if row.name == "logits").figure.bytes == 134_217_728


def test_case_08_picking_the_last_row_first(tmp_path: Path) -> None:
    model = logits_model(tmp_path, last_only=True)
    plan = activations(model, exact_sizes({"S": 1024}))
    assert plan.live_peak == 65_536 + 131_072


def test_case_18_an_expanded_shape_exceeds_any_device(tmp_path: Path) -> None:
    text = "g (float[1] x) => (float[a,b] y) <int64[2] s = {2147483648, 2147483648}> { y = Expand(x, s) }"
    with pytest.raises(ShapeOverflowError, match="exceeds any device") as caught:
        planner_of(tmp_path, text).plan(Scenario())
    assert f"{2**64:,} B" in str(caught.value)
    assert caught.value.node == "Expand_0"


def test_case_18_a_negative_extent_is_refused_by_name(tmp_path: Path) -> None:
    text = """g (float[1] x) => (float[a] y) <int64[1] s = {-1}> { c = ConstantOfShape(s) y = Add(c, x) }"""
    plan = planner_of(tmp_path, text).plan(Scenario())
    with pytest.raises(UnboundedAxisError, match="-1") as caught:
        plan.require()
    assert (caught.value.value, caught.value.axis, caught.value.node) == ("c", 0, "ConstantOfShape_0")
    assert plan.total.bytes is None


def test_case_19_non_zero_is_bounded_by_its_input(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, "g (float[1,128,128] x) => (int64[3,K] y) { y = NonZero(x) }")
    plan = planner.plan(Scenario())
    row = next(row for row in plan.bindings if row.name == "y")
    assert row.shape == (3, 16_384)
    assert (row.figure.bytes, row.figure.certainty) == (393_216, Certainty.BOUND)
    axis = next(axis for axis in plan.axes if axis.high == 16_384)
    assert "NonZero" in axis.source


def test_case_19_a_capture_declines_what_data_decides() -> None:
    session = session_of(small("g (float[1,128,128] x) => (int64[3,K] y) { y = NonZero(x) }"))
    x = session.allocate_binding((1, 128, 128), input_name="x")
    y = session.allocate_binding((3, 16_384), output_name="y")
    x.write(np.ones((1, 128, 128), np.float32))
    session.run_with_device_bindings({}, [x, y])
    report = session.try_capture([x, y])
    assert not report.captured
    (seam,) = (item for item in report.declines if item.seam is not None)
    assert (seam.node, seam.seam) == ("NonZero_y", SeamReason.UNRESOLVED_OUTPUT_SHAPE)
    assert seam.reason == "an output's shape depends on data"


def tied(folder: Path, *, equal_copies: bool) -> Model:
    """An embedding [32000, 64] that also makes the logits, shared or stored twice."""
    table = np.arange(32_000 * 64, dtype=np.float32).reshape(32_000, 64)
    weights = [numpy_helper.from_array(table, "E")]
    if equal_copies:
        weights.append(numpy_helper.from_array(table, "F"))
    nodes = [
        helper.make_node("Gather", ["E", "ids"], ["h"]),
        helper.make_node("Transpose", ["F" if equal_copies else "E"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "turned"], ["logits"]),
    ]
    x = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 4])
    y = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 4, 32_000])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    path = folder / "tied.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), path)
    return open_path(path)


def test_case_22_a_tied_embedding_counts_once(tmp_path: Path) -> None:
    plan = Planner(tied(tmp_path, equal_copies=False)).plan(Scenario())
    assert plan.weights.bytes == 8_192_000
    assert plan.weights.duplicate_bytes == 0
    assert [(row.name, row.users) for row in plan.weights.rows] == [("E", 2)]


def test_case_22_equal_copies_count_twice_and_the_saving_is_shown(tmp_path: Path) -> None:
    planner = Planner(tied(tmp_path, equal_copies=True))
    plan = planner.plan(Scenario())
    assert plan.weights.bytes == 16_384_000
    assert plan.weights.duplicate_bytes == 8_192_000
    assert [row.duplicate_of for row in plan.weights.rows] == ["", "E"]
    assert "8,192,000 B stored twice" in plan.component(ComponentName.WEIGHTS).detail
    shown = {item.title: item.saves for item in suggestions(planner, plan)}
    assert shown["Store equal weights once"] == 8_192_000


@pytest.mark.parametrize(
    ("context", "capacity", "total", "peak"),
    [(200, 256, 262_144, 262_144), (300, 512, 524_288, 786_432), (512, 512, 524_288, 786_432)],
)
def test_case_23_a_growing_bucket_is_held_twice(
    tmp_path: Path, context: int, capacity: int, total: int, peak: int
) -> None:
    planner = Planner(decoder(tmp_path, layers=2, heads=2, size=64, cos_rows=8192))
    bucket = BucketPolicy(minimum=256, growing=True)
    plan = planner.plan(Scenario(context=context, prompt=16, bucket=bucket))
    assert plan.kv.bytes_per_token == 1_024
    assert plan.kv.capacity == capacity
    assert plan.kv.bytes == total
    assert plan.component(ComponentName.KV_CACHE).figure.bytes == peak
    assert plan.kv.transient == peak - total


def test_case_15_inputs_that_disagree_name_the_symbol_and_both_sources(tmp_path: Path) -> None:
    text = "g (int64[B,S] input_ids, int64[B,S] mask) => (int64[B,S] y) { y = Add(input_ids, mask) }"
    model = opened(tmp_path, text)
    shapes = dict(zip(model.program.inputs, ((1, 100), (1, 96)), strict=True))
    with pytest.raises(SymbolConflictError) as caught:
        bind_symbols(model, Scenario(), Phase.SINGLE, shapes, {})
    error = caught.value
    assert (error.symbol, error.first, error.second) == ("S", 100, 96)
    assert (error.first_source, error.second_source) == ("input input_ids, axis 1", "input mask, axis 1")
    assert "input_ids" in str(error)
    assert "mask" in str(error)

"""Edges of planning where being one off would go unnoticed: found by changing the code a little at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper, parser
from small_models import opened, opened_proto, session_of

from vramscope.api import Planner, make_plan, open_path
from vramscope.devices.host import HostDevice
from vramscope.errors import InputError, ScenarioError
from vramscope.graph.dtypes import ElementType
from vramscope.graph.expr import Apply, Interval, Operator, Symbol
from vramscope.graph.model import Minted, Value, ValueKind
from vramscope.plan.activations import ActivationOptions, activation_owners, bounded_sizes, exact_sizes
from vramscope.plan.arena import Owner, plan_arena
from vramscope.plan.components import plan_components, total_of
from vramscope.plan.extents import branch_notes
from vramscope.plan.headroom import even_contexts, grid, plan_headroom
from vramscope.plan.kv import first_capacity
from vramscope.plan.options import binding_option
from vramscope.plan.phase import bytes_at_peak, live_bytes
from vramscope.plan.shapes import Refused
from vramscope.plan.sizes import symbol_ranges
from vramscope.plan.symbols import PhaseBindings, bind_symbols
from vramscope.plan.types import (
    REFERENCE_RUNTIME,
    BucketPolicy,
    ComponentName,
    Figure,
    Phase,
    Scenario,
    VerdictKind,
)
from vramscope.plan.verdict import blame_of, largest_fit

if TYPE_CHECKING:
    from pathlib import Path


def test_a_value_of_one_step_is_alive_in_it() -> None:
    plan = plan_arena([Owner(0, 0, 2), Owner(1, 1, 1)], {0: 16, 1: 32})
    assert live_bytes(plan, 3)[:4] == [16, 48, 16, 0]
    assert bytes_at_peak(plan) == {0: 16, 1: 32}


def test_what_is_overwritten_in_place_is_not_alive_at_the_peak_that_its_successor_makes() -> None:
    plan = plan_arena(
        [Owner(0, 0, 1), Owner(1, 1, 2, (0,)), Owner(2, 1, 1), Owner(3, 2, 3)], {0: 8, 1: 8, 2: 4, 3: 2}
    )
    assert (plan.peak_step, plan.live_peak) == (1, 12)
    assert bytes_at_peak(plan) == {1: 12}
    assert bytes_at_peak(plan_arena([], {})) == {}


@pytest.mark.parametrize(("extent", "high"), [(3, 0), (5, 0), (6, 1), (9, 4)])
def test_a_ceiling_below_zero_is_an_extent_of_zero(extent: int, high: int) -> None:
    ceiling = Apply(Operator.ADD, (Symbol("a"), -5))
    bindings = PhaseBindings(Phase.SINGLE, {}, {}, {"a": extent}, {"a": "input x, axis 0"}, {})
    ranges = symbol_ranges(bindings, {"k": Minted("k", "cut", "Compress", ceiling)}, frozenset())
    assert ranges.intervals["k"] == Interval(0, high)


def test_a_loop_is_no_branch_to_tell_of() -> None:
    text = """g (float[2] x) => (float[2] y) <int64 trips = {3}, bool go = {1}>
    { y = Loop (trips, go, x) <body = b (int64 i, bool c, float[2] h) => (bool d, float[2] o)
      { d = Identity(c) o = Relu(h) }> }"""
    assert list(branch_notes(opened(text).program)) == []


def test_a_constant_steps_result_counts_as_a_weight_and_what_it_was_made_of_does_not() -> None:
    text = """g (float[2,4] x) => (float[2,4] y) <float[4] a = {1, 2, 3, 4}, float[1] b = {2}>
    { c = Mul(a, b) y = Add(x, c) }"""
    model = opened(text)
    weights = make_plan(model, Scenario()).components[0]
    assert (weights.name, weights.figure) == (ComponentName.WEIGHTS, Figure.exact(16))
    device = HostDevice()
    session_of(model, device=device)
    assert device.ledger.component(ComponentName.WEIGHTS.value).current_bytes == 16


# ------------------------------------------------------------------------------------ buckets and grids


@pytest.mark.parametrize(("length", "capacity"), [(0, 1), (1, 1), (2, 2), (3, 4), (5, 8), (8, 8), (9, 12)])
def test_a_bucket_is_the_next_power_of_two_under_the_limit(length: int, capacity: int) -> None:
    assert BucketPolicy(minimum=1).capacity(length, 12) == capacity
    assert BucketPolicy().capacity(length, 12) == 12
    assert BucketPolicy().capacity(length, 300) == 256
    assert BucketPolicy().capacity(257, 600) == 512


def test_a_growing_cache_begins_with_room_for_the_prompt_and_one_token() -> None:
    bucket = BucketPolicy(minimum=16, growing=True)
    found = [first_capacity(Scenario(prompt=prompt, bucket=bucket), 64) for prompt in (15, 16, 31, 32, 64)]
    assert found == [16, 32, 32, 64, 64]
    assert first_capacity(Scenario(prompt=15), 64) == 64


def test_the_contexts_of_a_grid(shared_models: Path) -> None:
    planner = Planner(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))
    contract = planner.model.contract
    assert contract is not None
    assert contract.context_limit is not None
    limit = contract.context_limit.value
    plan = planner.plan(Scenario(batch=3, prompt=8, context=100))
    assert grid(planner, plan) == (tuple(sorted({100, 256, limit})), (1, 2, 3, 4, 8))
    assert even_contexts(planner, Scenario(prompt=8), 2) == (8, limit)
    assert even_contexts(planner, Scenario(prompt=8, context=limit), 1) == (8, limit)
    assert even_contexts(planner, Scenario(prompt=8, context=9), 1) == (8, 9)
    assert even_contexts(planner, Scenario(prompt=8, context=7), 3) == (8, 8 + (limit - 8) // 2, limit)
    planner.model = replace(planner.model, contract=replace(contract, context_limit=None))
    assert grid(planner, plan)[0] == (100, 256, 512, 1024, 2048)
    assert even_contexts(planner, Scenario(prompt=8), 2) == (8, 131_072)


def test_a_plain_model_has_batches_where_one_of_its_inputs_counts_sequences() -> None:
    text = "g (float[{},K] x) => (float[{},K] y) {{ y = Relu(x) }}"
    for batch, batches in (("N", (1, 2, 4, 5, 8)), ("L", (5,))):
        planner = Planner(opened(text.format(batch, batch)))
        scenario = Scenario(batch=5, maxima={"K": 3} | ({} if batch == "N" else {"L": 2}))
        assert grid(planner, planner.plan(scenario)) == ((0,), batches)
        with pytest.raises(InputError, match="no context fills its memory"):
            plan_headroom(planner, scenario, (0, 5), (1,))
        assert plan_headroom(planner, scenario, (0,), (5,)).lines[0].totals == (
            planner.plan(scenario).total.bytes,
        )


# ------------------------------------------------------------------------------------ limits and verdicts


def test_a_plan_that_fits_to_the_byte_fits() -> None:
    planner = Planner(opened("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"))
    for budget, kind in ((64, VerdictKind.FITS), (63, VerdictKind.SHORT)):
        verdict = planner.plan(Scenario(batch=2, budget=budget)).verdict
        assert (verdict.kind, verdict.headroom) == (kind, budget - 64)
    assert "short by 1 B" in verdict.sentence


@pytest.mark.parametrize(
    ("low", "high", "available", "found"),
    [
        (1, 10, 10, 10),
        (1, 10, 9, 9),
        (1, 10, 11, 10),
        (1, 10, 1, 1),
        (1, 10, 0, None),
        (3, 3, 3, 3),
        (4, 3, 9, None),
    ],
)
def test_the_edge_of_what_fits(low: int, high: int, available: int, found: int | None) -> None:
    assert largest_fit(lambda count: count, low, high, available) == found
    assert largest_fit(lambda count: count if count < 10 else None, low, high, available) == (
        9 if found == 10 else found
    )


def test_the_largest_fit_takes_few_questions() -> None:
    asked: list[int] = []

    def total(count: int) -> int:
        asked.append(count)
        return 7 * count + 100

    assert largest_fit(total, 1, 2**22, 7 * 123_456 + 100) == 123_456
    assert len(asked) <= 4
    asked.clear()
    assert largest_fit(lambda n: total(n) + n // 1000, 1, 2**22, 7 * 123_456 + 100) is not None
    assert len(asked) <= 12
    asked.clear()
    assert largest_fit(lambda n: total(n) ** 3, 1, 2**22, 10**15) == (10**5 - 100) // 7
    assert len(asked) <= 60


def test_scratch_is_blamed_on_the_node_that_asks_for_the_most(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    plan = make_plan(model, Scenario(prompt=200, context=256, runtime=REFERENCE_RUNTIME))
    largest = max((row for phase in plan.phases for row in phase.nodes), key=lambda row: row.workspace.bytes)
    scratch = plan.component(ComponentName.WORKSPACE)
    assert largest.workspace.bytes == scratch.figure.bytes
    only = replace(scratch, figure=Figure.exact(2**40))
    others = tuple(item for item in plan.components if item.name is not ComponentName.WORKSPACE)
    assert blame_of((*others, only), plan.phases) == f"node {largest.name}"


# ------------------------------------------------------------------------------------ activations, 4 bits


def test_inputs_count_from_the_first_step_to_their_last_use() -> None:
    text = "g (float[4] x, float[4] z) => (float[4] y) { a = Relu(x) b = Relu(a) y = Add(b, x) }"
    program = opened(text).program
    found = activation_owners(program, {}, ActivationOptions(include_inputs=True))
    assert [(item.first, item.last) for item in found[:2]] == [(0, 2), (0, 0)]
    assert len(activation_owners(program, {})) == 3


def test_a_sequence_owns_no_activation() -> None:
    text = """g (float[4] x) => (float[4] y) <int64 i = {0}>
    { s = SequenceConstruct(x) a = SequenceAt(s, i) y = Relu(a) }"""
    program = opened(text).program
    names = [program.values[item.value].name for item in activation_owners(program, {})]
    assert names == ["a", "y"]


def test_ceilings_of_activations() -> None:
    less = Apply(Operator.ADD, (5, Apply(Operator.MUL, (-1, Symbol("k")))))
    value = Value(0, "v", ElementType.FLOAT, (less, 2), ValueKind.ACTIVATION)
    assert bounded_sizes({"k": 3})(value) == 5 * 2 * 4, "a smaller k makes it larger"
    assert exact_sizes({"k": 3})(value) == 2 * 2 * 4
    assert exact_sizes({"k": 7})(value) == 0
    assert exact_sizes({})(value) is None


@pytest.mark.parametrize(
    ("node", "shape", "saved"),
    [
        ("y = MatMul(x, w)", (64, 96), 64 * 96 * 4 - 96 * 2 * (16 + 4)),
        ("y = MatMul(x, w)", (65, 96), 65 * 96 * 4 - 96 * 3 * (16 + 4)),
        ("y = Gemm <transB = 1> (x, w)", (96, 64), 64 * 96 * 4 - 96 * 2 * (16 + 4)),
        ("y = Gemm <transB = 0> (x, w)", (64, 96), 64 * 96 * 4 - 96 * 2 * (16 + 4)),
        ("y = MatMul(x, w)", (2, 64, 8), 0),
        ("y = MatMul(x, w)", (1, 3), 1 * 3 * 4 - 3 * 1 * (16 + 4)),
        ("q = MatMul(x, w) r = Transpose(q) y = MatMul(w, r)", (64, 64), 0),
        ("s = ReduceSum <keepdims = 0> (x) z = Mul(w, s) q = MatMul(x, w) y = MatMul(q, z)", (64, 64), 0),
    ],
)
def test_what_four_bits_save(node: str, shape: tuple[int, ...], saved: int) -> None:
    text = f"g (float[2,{shape[-2]}] x) => (float[] y) {{ {node} }}"
    text = text.replace(f"2,{shape[-2]}", f"2,{shape[-1]}") if "transB = 1" in node else text
    proto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 22]>\n{text}')
    weights = np.zeros(shape, np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    planner = Planner(opened_proto(proto))
    plain = planner.plan(Scenario()).weights.bytes
    try:
        narrow = planner.plan(Scenario(as_if=("int4",))).weights.bytes
    except ScenarioError:
        narrow = plain
    assert plain - narrow == saved


# ------------------------------------------------------------------------------------ what is known how


def test_an_input_of_no_rows_binds_its_symbol() -> None:
    model = opened("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    bound = bind_symbols(model, Scenario(), Phase.SINGLE, {model.program.inputs[0]: (0, 4)}, {})
    assert dict(bound.symbols) == {"N": 0}
    unknown = bind_symbols(model, Scenario(), Phase.SINGLE, {model.program.inputs[0]: (-1, 4)}, {})
    assert dict(unknown.symbols) == {}


def test_the_output_of_a_node_is_a_ceiling_where_an_extent_is_one() -> None:
    text = "g (float[K,4] x, float[2,4] z) => (float[K,4] y, float[2,4] w) { y = Relu(x) w = Relu(z) }"
    rows = make_plan(opened(text), Scenario(maxima={"K": 3})).phases[0].nodes
    assert [row.output_bytes for row in rows] == [Figure.of(48, bounded=True), Figure.exact(32)]


def test_a_body_that_cannot_be_sized_takes_nothing_and_says_so() -> None:
    text = """g (float[4] x, bool flag) => (float[4] y) <int64 i = {0}> {
      y = If (flag) <
        then_branch = t () => (float[4] p) { s = SequenceConstruct(x) p = SequenceAt(s, i) },
        else_branch = e () => (float[4] q) { q = Relu(x) }
      >
    }"""
    plan = make_plan(opened(text), Scenario())
    (region,) = plan.phases[0].bodies.values()
    assert "s is a sequence" in region.missing
    assert region.bytes == 64, "what the branches give has 16 bytes, laid out at 64"


def test_a_weight_of_a_page_stays_and_a_larger_one_is_streamed() -> None:
    def least(rows: int) -> int:
        text = f"g (float[2,{rows}] x) => (float[2,4] y) {{ y = MatMul(x, w) }}"
        proto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 22]>\n{text}')
        proto.graph.initializer.append(numpy_helper.from_array(np.ones((rows, 4), np.float32), "w"))
        planner = Planner(opened_proto(proto))
        streaming = planner.plan(Scenario(weight_budget=16 * rows)).weights.streaming
        assert streaming is None, "all of it fits"
        return planner._weights._fixed

    assert (least(256), least(257)) == (4096, 0)


def test_weights_at_one_place_of_a_file_count_once_and_the_saving_is_told(tmp_path: Path) -> None:
    text = "g (float[2,16] x) => (float[2,16] y) { h = MatMul(x, a) y = MatMul(h, b) }"
    proto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 22]>\n{text}')
    (tmp_path / "weights.bin").write_bytes(np.ones((16, 16), np.float32).tobytes())
    for name in "ab":
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[16, 16])
        tensor.data_location = TensorProto.EXTERNAL
        place = {"location": "weights.bin", "offset": "0", "length": "1024"}
        for key, item in place.items():
            tensor.external_data.add(key=key, value=item)
        proto.graph.initializer.append(tensor)
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    weights = make_plan(open_path(tmp_path / "model.onnx"), Scenario()).weights
    assert [(row.bytes, row.users) for row in weights.rows] == [(1024, 2)]
    assert (weights.bytes, weights.tied_savings, weights.duplicate_bytes) == (1024, 1024, 0)


def test_a_weight_inside_a_body_has_one_user_and_saves_nothing() -> None:
    text = """g (float[4] x, bool flag) => (float[4] y) {
      y = If (flag) <
        then_branch = t () => (float[4] p) <float[4] w = {1, 2, 3, 4}> { p = Add(x, w) },
        else_branch = e () => (float[4] q) { q = Relu(x) }
      >
    }"""
    weights = make_plan(opened(text), Scenario()).weights
    assert [(row.bytes, row.users) for row in weights.rows] == [(16, 1)]
    assert (weights.bytes, weights.tied_savings) == (16, 0)


def test_one_refused_phase_makes_the_total_unknown(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    plan = make_plan(model, Scenario(batch=2, prompt=200, context=256))
    assert plan.component(ComponentName.ACTIVATIONS).detail == "arena of the prefill phase"
    state = next(row for row in plan.bindings if row.name == "decode state")
    assert (state.direction, state.shape, state.figure) == ("state", (34, 2), Figure.exact(544))
    assert {row.direction for row in plan.bindings if row.name == "input_ids"} == {"input"}
    assert {row.direction for row in plan.bindings if row.name == "logits"} == {"output"}
    missing = Refused("v", 0, "k", "node", "ai.onnx::NonZero", 0, "nothing bounds k")
    first, second = plan.phases
    for phases in (
        (replace(first, refusals=(missing,)), second),
        (first, replace(second, refusals=(missing,))),
    ):
        parts = plan_components(plan.weights, plan.kv, phases, plan.bindings, plan.scenario)
        unknown = {item.name for item in parts if item.figure.bytes is None}
        assert unknown == {ComponentName.ACTIVATIONS, ComponentName.WORKSPACE, ComponentName.CONTEXT}
        assert total_of(parts, phases).bytes is None


def test_a_buffer_of_nothing_keeps_its_shape() -> None:
    model = opened("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    rows = make_plan(model, Scenario(extents={"N": 0})).bindings
    assert [(row.name, row.direction, row.shape) for row in rows] == [
        ("x", "input", (0, 4)),
        ("y", "output", (0, 4)),
    ]


# ------------------------------------------------------------------------------------ words


def test_a_remedy_names_the_option_that_sets_the_symbol(shared_models: Path) -> None:
    plain = opened("g (float[N,K] x) => (float[N,K] y) { y = Relu(x) }")
    scenario = Scenario(extents={"K": 3})
    options = [binding_option(plain, scenario, Phase.SINGLE, name, 3) for name in ("K", "N", "L")]
    assert options == ["--extent K", "--batch", ""]
    decoder = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    asked = Scenario(prompt=8, context=64)
    for phase, extent, option in (
        (Phase.PREFILL, 8, "--prompt-tokens"),
        (Phase.PREFILL, 9, "--context"),
        (Phase.DECODE, 8, "--context"),
    ):
        assert binding_option(decoder, asked, phase, "total_sequence_length", extent) == option

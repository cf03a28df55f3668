"""Rewrites of whole graphs at their borders: the last row's logits, float16, equal weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from planned_models import planner_of
from rewritten_models import GROUPED, MULTIHEAD, as_if, hand_made, refusal
from written_program import HEADER

from vramscope.api import Scenario
from vramscope.graph.dtypes import ElementType
from vramscope.plan.assuming import _larger
from vramscope.plan.binding_rows import _row, binding_rows, io_values, output_maker
from vramscope.plan.rewrites.table import KNOWN
from vramscope.plan.rewrites.types import Rewritten
from vramscope.plan.types import Bounded, Certainty, Exact, Figure

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.api import Planner
    from vramscope.graph.model import Program

FOUR = Scenario(maxima={"N": 4})


def made_of(planner: Planner, rewrite: str) -> Program:
    """The program of the model so exported."""
    made = KNOWN[rewrite].apply(planner.model)
    assert isinstance(made, Rewritten)
    return made.model.program


@pytest.mark.parametrize(("opset", "by_input"), [(12, False), (13, True), (22, True)])
def test_the_last_row_is_gathered_and_given_its_axis_back(tmp_path: Path, opset: int, by_input: bool) -> None:
    program = made_of(hand_made(tmp_path, MULTIHEAD, header=HEADER.replace("22", str(opset))), "last-logits")
    gather, unsqueeze = (step for step in program.steps if step.node.name.startswith("/lm_head/prune/"))
    head = program.steps[-1]
    assert [step.node.opset for step in (gather, unsqueeze)] == [opset, opset]
    assert gather.node.attributes == {"axis": 1}
    assert program.weights[gather.inputs[1]].inline == (-1).to_bytes(8, "little", signed=True)
    assert unsqueeze.node.attributes == ({} if by_input else {"axes": (1,)})
    assert len(unsqueeze.inputs) == 1 + by_input
    if by_input:
        axes = program.weights[unsqueeze.inputs[1]]
        assert (axes.shape, axes.inline) == ((1,), (1).to_bytes(8, "little"))
    assert head.inputs[0] == unsqueeze.outputs[0]
    row, rows, logits = (program.values[step.outputs[0]].shape or () for step in (gather, unsqueeze, head))
    assert (row[1:], rows[1:], logits[1:]) == ((8,), (1, 8), (1, 16))
    assert row[0] == rows[0] == logits[0]


@pytest.mark.parametrize("shape", [(16,), (1, 16), (1, 1, 16)])
def test_what_is_the_same_for_every_position_may_follow_the_head(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    graph = MULTIHEAD.replace("logits = MatMul(y, head)", "raw = MatMul(y, head) logits = Mul(bias, raw)")
    planner = hand_made(tmp_path, graph, {"bias": shape})
    program = made_of(planner, "last-logits")
    values = {value.name: value.shape or () for value in program.values}
    assert (values["raw"][1:], values["logits"][1:]) == ((1, 16), (1, 16))


def test_a_head_that_compares_positions_is_not_cut(tmp_path: Path) -> None:
    graph = MULTIHEAD.replace(
        "logits = MatMul(y, head)", "t = Transpose<perm=[0,2,1]>(x) logits = MatMul(y, t)"
    )
    planner = hand_made(tmp_path, graph.replace("float[B,S,16] logits", "float[B,S,S] logits"))
    assert refusal(planner, "last-logits").why.startswith("the head is not known to multiply each position")


def test_scales_of_a_quantised_cache_stay_in_float32(tmp_path: Path) -> None:
    graph = (
        GROUPED.replace("float[B,2,P,4]", "int8[B,2,P,4]")
        .replace("float[B,2,Q,4]", "int8[B,2,Q,4]")
        .replace("kv_num_heads=2>", 'kv_num_heads=2, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", '
                 "kv_cache_bit_width=8>")
        .replace("valid, total)", "valid, total, , , , , , k_scale, v_scale)")
    )  # fmt: skip
    program = made_of(hand_made(tmp_path, graph, {"k_scale": (1,), "v_scale": (1,)}), "fp16")
    found = {program.values[value].name: source.dtype for value, source in program.weights.items()}
    assert found["k_scale"] is found["v_scale"] is ElementType.FLOAT
    assert {found[name] for name in ("embed", "q", "k", "v", "head")} == {ElementType.FLOAT16}


def test_what_a_node_makes_of_nothing_becomes_float16_as_well(tmp_path: Path) -> None:
    graph = """g (float[N,4] x, int64[N,4] i) => (float[N,4] y, int64[N,4] j) <float[4] w = {1, 2, 3, 4}>
    { s = Shape(x) zero = ConstantOfShape(s) f = Cast<to=1>(i) a = Add(zero, f) b = Add(a, x) y = Add(b, w)
      j = Cast<to=7>(y) }"""
    planner = planner_of(tmp_path, graph)
    program = made_of(planner, "fp16")
    casts = [step.node.attributes["to"] for step in program.steps if step.node.operator == "Cast"]
    assert casts == [int(ElementType.FLOAT16), int(ElementType.INT64)]
    (zeros,) = [step for step in program.steps if step.node.operator == "ConstantOfShape"]
    assert str(getattr(zeros.node.attributes["value"], "dtype", "")) == "float16"
    assert as_if(planner, "fp16", scenario=FOUR).weights.bytes == 4 * 2


def test_weights_that_differ_in_type_or_shape_are_not_equal(tmp_path: Path) -> None:
    graph = """g (float[N,2] x, int32[N,2] i) => (float[N,2] y, int32[N,2] j, float[2] r)
    <float[2] r = {0, 0}, float[2] p = {0, 0}, float[1,2] q = {0, 0}, int32[2] k = {0, 0},
     float[2] t = {0, 0}>
    { a = Add(x, p) b = Add(a, q) y = Add(b, t) j = Add(i, k) }"""
    planner = planner_of(tmp_path, graph)
    program = made_of(planner, "unique-weights")
    assert {program.values[value].name for value in program.weights} == {"p", "q", "k", "r"}
    assert as_if(planner, "unique-weights", scenario=FOUR).weights.bytes == 4 * 8


def test_only_what_takes_more_than_the_file_says_so(tmp_path: Path) -> None:
    plan = planner_of(tmp_path, "g (float[4] x) => (float[4] y) { y = Relu(x) }").plan(Scenario())
    total = plan.total.bytes or 0
    assert total > 0
    assert [_larger(plan, plain) for plain in (None, total, total + 1)] == [(), (), ()]
    assert _larger(plan, total - 1) == ("So exported it takes 1 B more than the file as it is",)


def test_an_input_or_output_is_as_large_as_in_its_largest_phase(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, "g (float[4] x) => (float[4] y) { y = Relu(x) }")
    (phase,) = planner.plan(Scenario()).phases
    value = planner.model.program.inputs[0]

    def figure(*shapes: Exact | Bounded) -> tuple[tuple[int, ...], Figure]:
        row = _row(planner.index, value, [replace(phase, shapes={value: shape}) for shape in shapes])
        assert (row.name, row.direction) == ("x", "input")
        return row.shape, row.figure

    small, bound = Exact((2,)), Bounded((4,), ())
    assert figure(small, bound) == figure(bound, small) == ((4,), Figure(16, Certainty.BOUND))
    assert figure(Exact((4,)), bound) == ((4,), Figure(16, Certainty.EXACT)), "reached, so no mere bound"
    assert figure(Exact((0, 4)), Exact((0,))) == ((0, 4), Figure(0, Certainty.EXACT))


@pytest.mark.parametrize(
    ("lines", "largest"),
    [
        ("(float[2] x) => (float[6] y, float[2] z) { y = Concat<axis=0>(x, x, x) z = Relu(x) }", "Concat"),
        ("(float[2] x) => (float[2] y, float[6] z) { y = Relu(x) z = Concat<axis=0>(x, x, x) }", "Concat"),
        ("(float[6] x) => (float[1] y, float[1] z) { y = ReduceSum(x) z = ReduceMax(x) }", ""),
    ],
)
def test_the_node_of_the_largest_output_is_named(tmp_path: Path, lines: str, largest: str) -> None:
    planner = planner_of(tmp_path, f"g {lines}")
    index, model = planner.index, planner.model
    rows = binding_rows(index, model, io_values(model), planner.plan(Scenario()).phases, Scenario())
    names = {step.node.operator: step.node.name for step in model.program.steps}
    assert all(names.values())
    assert output_maker(index, rows) == names.get(largest, "")
    assert output_maker(index, ()) == ""

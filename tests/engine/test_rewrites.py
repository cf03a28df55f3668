"""Models as if they were exported otherwise: each rewrite against hand-made and really made exports."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from decoders import CPU_MODELS
from plan_checker import check_plan
from planned_models import planner_of
from rewritten_models import GROUPED, RUNTIMES, SMALL, arenas, as_if, hand_made, parts, refusal
from written_program import opened_bare, written

from vramscope.api import Planner, Scenario, open_path
from vramscope.plan.rewrites.table import KNOWN, REWRITES
from vramscope.plan.rewrites.types import Rewritten, rebuilt
from vramscope.plan.types import STATE_ROWS, ComponentName

if TYPE_CHECKING:
    from pathlib import Path

    from rewritten_models import Weights

    from vramscope.graph.model import Model

MODELS = (*CPU_MODELS, "tiny-llama-bf16-cuda", "tiny-llama-fp16-cuda-paged")


@pytest.fixture
def tiny(shared_models: Path) -> Path:
    """The folder of the tiny models."""
    return shared_models / "tiny"


def applied(model: Model) -> dict[str, Model]:
    """The model under each rewrite that can be made."""
    found = {rewrite.id: rewrite.apply(model) for rewrite in REWRITES}
    return {name: made.model for name, made in found.items() if isinstance(made, Rewritten)}


# ------------------------------------------------------------------------------------ real exports


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    ("plain", "ids", "real"),
    [
        ("tiny-llama-fp32-cpu", ("last-logits",), "tiny-llama-fp32-cpu-prune"),
        ("tiny-llama-fp32-cpu", ("fp16",), "tiny-llama-fp16-cuda"),
        ("tiny-llama-fp32-cpu", ("int4",), "tiny-llama-int4-cpu"),
        ("tiny-llama-fp16-cuda", ("int4",), "tiny-llama-int4-cuda"),
        ("tiny-llama-fp32-cpu", ("int4", "fp16"), "tiny-llama-int4-cuda"),
    ],
)
def test_a_rewritten_export_is_planned_as_the_builder_s_own(
    tiny: Path, plain: str, ids: tuple[str, ...], real: str, runtime: str
) -> None:
    """Every component and every arena, to the byte, at several batches and lengths."""
    planner, exported = Planner(open_path(tiny / plain)), Planner(open_path(tiny / real))
    for batch, prompt, context in ((1, 8, 64), (3, 64, 256), (2, 1, 17)):
        scenario = Scenario(batch=batch, prompt=prompt, context=context, runtime=runtime)
        made, wanted = as_if(planner, *ids, scenario=scenario), exported.plan(scenario)
        assert parts(made) == parts(wanted)
        assert arenas(made) == arenas(wanted)
        assert made.total == wanted.total
        assert made.as_it_is == planner.plan(scenario).total.bytes


@pytest.mark.parametrize("name", MODELS)
def test_what_a_rewrite_makes_is_planned_alike_when_it_is_written_and_opened(
    tiny: Path, tmp_path: Path, name: str
) -> None:
    """Shapes are inferred anew from the file, and what makes it a decoder is found anew."""
    model = open_path(tiny / name)
    for rewrite, made in applied(model).items():
        again = written(made, tmp_path / rewrite)
        one, two = Planner(made).plan(SMALL), Planner(again).plan(SMALL)
        check_plan(Planner(made), one)
        assert parts(one) == parts(two), (name, rewrite)
        assert arenas(one) == arenas(two), (name, rewrite)
        assert one.kv.rows == two.kv.rows, (name, rewrite)
        assert not made.has_weights


@pytest.mark.parametrize("name", MODELS)
def test_a_decoder_is_found_again_in_an_unchanged_program(tiny: Path, name: str) -> None:
    model = open_path(tiny / name)
    again = rebuilt(model, model.program)
    assert isinstance(again, Rewritten)
    assert again.model.contract == model.contract


@pytest.mark.parametrize("name", ["tiny-llama-fp32-cpu", "tiny-llama-tied-fp32-cpu", "optimum-tiny-gpt2"])
def test_rewrites_combine_in_any_order_and_never_cost_bytes_in_silence(tiny: Path, name: str) -> None:
    planner = Planner(open_path(tiny / name))
    plain = planner.plan(SMALL).total.known
    possible = [*applied(planner.model)]
    for pair in (*combinations(possible, 1), *combinations(possible, 2), *combinations(possible, 3)):
        size = planner.total_bytes(replace(SMALL, as_if=pair))
        if size is None:
            assert {"kv8", "kv4"} <= {*pair} or {"int4", "int4-zero-points"} <= {*pair}
            continue
        made = as_if(planner, *reversed(pair))
        assert made.total.bytes == size
        assert [item.id for item in made.assumes] == [item for item in KNOWN if item in pair]
        assert (size > plain) == any("more than the file as it is" in note for note in made.notes)


# ------------------------------------------------------------------------------------ weights


def test_codes_scales_and_zero_points_are_counted_with_their_padding(tmp_path: Path) -> None:
    """[70, 6]: three blocks a column, the last of 6 weights; zero points of a column are two bytes."""
    graph = """g (float[N,70] x) => (float[N,6] y, float[N,6] z)
    { y = MatMul(x, w) z = Gemm<transB=1>(x, t, c) }"""
    planner = Planner(opened_bare(tmp_path, graph, {"w": (70, 6), "t": (6, 70), "c": (6,)}))
    scenario = Scenario(maxima={"N": 5})
    assert planner.plan(scenario).weights.bytes == 4 * (70 * 6 * 2 + 6)
    symmetric, pointed = (as_if(planner, name, scenario=scenario) for name in ("int4", "int4-zero-points"))
    codes, scales, points = 6 * 3 * 16, 6 * 3 * 4, 6 * 2
    assert symmetric.weights.bytes == 2 * (codes + scales) + 6 * 4
    assert pointed.weights.bytes == 2 * (codes + scales + points) + 6 * 4
    rows = {row.name: row.shape for row in pointed.weights.rows}
    assert rows["w_Q4"] == rows["t_Q4"] == (6, 3, 16)
    assert rows["w_zero_points"] == (6, 2)
    assert {row.operator for row in pointed.phases[0].nodes} == {"MatMulNBits"}


def test_weights_that_cannot_have_4_bits_stay_and_are_named(tmp_path: Path) -> None:
    graph = """g (float[N,64] x, int64[N] i) => (float[N,64] a, float[N,64] b, float[N,64] c, float[N,64] d)
    {
      a = MatMul(x, shared) b = Gather(shared, i) c = Gemm<alpha=2.0>(x, scaled) d = Gemm(x, free, wide) }"""
    scenario = Scenario(maxima={"N": 4})
    weights: Weights = dict.fromkeys(("shared", "scaled", "free"), (64, 64))
    none = Planner(opened_bare(tmp_path / "none", graph, {**weights, "wide": (1, 64)}))
    why = refusal(none, "int4", scenario=scenario).why
    assert why.endswith("could be so: shared is read by more than products")
    some = Planner(opened_bare(tmp_path / "some", graph, {**weights, "wide": (64,)}))
    made = as_if(some, "int4", scenario=scenario)
    assert made.notes[:2] == (
        "shared stays as it is: it is read by more than products",
        "scaled stays as it is: it is multiplied with a factor or a bias that MatMulNBits lacks",
    )


def test_one_weight_in_two_orientations_is_stored_in_both(tmp_path: Path) -> None:
    graph = """g (float[N,64] x) => (float[N,64] a, float[N,64] b, float[N,64] c)
    { a = MatMul(x, w) b = Gemm<transB=1>(x, w) c = MatMul(a, w) }"""
    planner = Planner(opened_bare(tmp_path, graph, {"w": (64, 64)}))
    made = as_if(planner, "int4", scenario=Scenario(maxima={"N": 4}))
    assert made.weights.bytes == 2 * (64 * 2 * 16 + 64 * 2 * 4)


def test_equal_weights_are_stored_once(tmp_path: Path) -> None:
    graph = """g (float[N,2] x) => (float[N,2] c, float[N,2] d)
    <float[2] p = {1, 2}, float[2] q = {1, 2}, float[2] r = {1, 3}>
    { a = Add(x, p) b = Add(a, q) c = Add(b, r) d = Relu(b) }"""
    planner, scenario = planner_of(tmp_path, graph), Scenario(maxima={"N": 4})
    plain, made = planner.plan(scenario), as_if(planner, "unique-weights", scenario=scenario)
    assert (plain.weights.bytes, plain.weights.duplicate_bytes) == (24, 8)
    assert (made.weights.bytes, made.weights.duplicate_bytes, len(made.weights.rows)) == (16, 0, 2)
    lone = planner_of(tmp_path, graph.replace("q = {1, 2}", "q = {1, 4}"))
    assert "not read" in refusal(lone, "unique-weights", scenario=scenario).why


def test_float16_keeps_what_an_operator_has_in_float32(tmp_path: Path) -> None:
    graph = """g (float[1,1,N,4] x) => (float[1,1,M,4] y, float[1,1,N,4] z)
    <float[4] s = {1, 1, 2, 1}, float[4] w = {1, 2, 3, 4}> { y = Resize(x, , s) z = Add(x, w) }"""
    made = as_if(planner_of(tmp_path, graph), "fp16", scenario=Scenario(maxima={"N": 4}))
    assert {row.name: row.dtype for row in made.weights.rows} == {"s": "FLOAT", "w": "FLOAT16"}
    mixed = planner_of(tmp_path, graph.replace("Add(x, w)", "Add(x, s)"))
    assert "'s' in float32" in refusal(mixed, "fp16", scenario=Scenario(maxima={"N": 4})).why


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("name", "rewrite", "why"),
    [
        ("tiny-llama-fp32-cpu-prune", "last-logits", "it gives the last position's logits alone already"),
        ("tiny-llama-fp16-cuda-paged", "last-logits", "its logits have no axis of positions"),
        (
            "torchexp-tiny-llama",
            "kv8",
            "a quantised cache is known of GroupQueryAttention and PagedAttention",
        ),
        ("tiny-llama-fp32-cpu", "shared-kv", "past and present share one buffer already"),
        ("tiny-llama-fp16-cuda", "fp16", "none of its weights is in 32 bits"),
        ("tiny-llama-int4-cpu", "int4", "no matrix product has a floating-point weight"),
    ],
)
def test_what_cannot_be_exact_is_refused_by_name(tiny: Path, name: str, rewrite: str, why: str) -> None:
    planner = Planner(open_path(tiny / name))
    found = refusal(planner, rewrite)
    assert found.what == f"planning as if {rewrite} ({KNOWN[rewrite].title})"
    assert found.why.startswith(why)
    assert found.remedy == f"Plan it without {rewrite}"
    assert planner.total_bytes(replace(SMALL, as_if=(rewrite,))) is None


@pytest.mark.parametrize("rewrite", ["last-logits", "shared-kv", "kv8", "kv4"])
def test_what_only_a_decoder_has_is_refused_of_another_model(tmp_path: Path, rewrite: str) -> None:
    planner = planner_of(tmp_path, "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    assert refusal(planner, rewrite, scenario=Scenario(maxima={"N": 4})).why.startswith("it is no decoder")


def with_tail(tail: str) -> str:
    """A decoder whose head gives ``raw`` and leaves the logits to ``tail``."""
    return GROUPED.replace("  logits = MatMul(y, head)", f"  raw = MatMul(y, head)\n  {tail}")


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        ("logits = Softmax<axis=1>(raw)", "Softmax between the head and the logits"),
        ("more = MatMul(x, head) logits = Add(raw, more)", "Add between the head and the logits"),
    ],
)
def test_logits_whose_positions_depend_on_each_other_are_not_cut(tmp_path: Path, tail: str, why: str) -> None:
    planner = hand_made(tmp_path, with_tail(tail))
    assert refusal(planner, "last-logits").why.startswith(why)


def test_a_head_whose_result_is_read_beside_the_logits_is_not_cut(tmp_path: Path) -> None:
    graph = with_tail("logits = Tanh(raw) w = Relu(raw)").replace("16] logits", "16] w, float[B,S,16] logits")
    planner = hand_made(tmp_path, graph)
    assert refusal(planner, "last-logits").why == "'raw' is read beside the logits, for every position"


def test_row_by_row_steps_behind_the_head_see_one_row(tmp_path: Path) -> None:
    tail = "c = Constant<value_float=30.0>() part = Div(raw, c) flat = Tanh(part) logits = Mul(flat, c)"
    made = as_if(hand_made(tmp_path, with_tail(tail)), "last-logits")
    program = made.specialised.program if made.specialised else None
    assert program is not None
    shapes = {value.name: value.shape or () for value in program.values}
    assert [shapes[name][1] for name in ("raw", "part", "flat", "logits")] == [1] * 4
    assert (
        made.component(ComponentName.BINDINGS).figure.bytes
        == 8 * (2 * 24 + 2 * 64) + 4 * 2 * 16 + 2 * 8 * STATE_ROWS
    )


def test_a_program_with_bodies_keeps_what_they_read(tmp_path: Path) -> None:
    """A body reads a value of the graph around it, whose number changes when a weight is replaced."""
    graph = """g (float[N,64] x, bool c) => (float[N,64] y) {
      a = MatMul(x, w)
      y = If (c) <then_branch = t () => (float[N,64] p) { p = Relu(a) },
                  else_branch = e () => (float[N,64] q) { q = Neg(a) }>
    }"""
    planner = Planner(opened_bare(tmp_path, graph, {"w": (64, 64)}))
    scenario = Scenario(extents={"N": 4})
    made = as_if(planner, "int4", scenario=scenario)
    program = made.specialised.program if made.specialised else None
    assert program is not None
    (step,) = [step for step in program.steps if step.bodies]
    for body in step.bodies.values():
        assert [program.values[outer].name for outer in body.captures.values()] == ["a"]
    assert made.weights.bytes == 64 * 2 * 16 + 64 * 2 * 4
    assert "If has bodies" in refusal(planner, "fp16", scenario=scenario).why


PRODUCTS = {
    "MatMul": ("MatMul(x, w)", (288, 48)),
    "Gemm": ("Gemm(x, w, b)", (288, 48)),
    "Gemm turned": ("Gemm<transB=1>(x, w, b)", (48, 288)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_nine_blocks_of_four_bits_take_five_bytes_of_zero_points_a_column(tmp_path: Path, name: str) -> None:
    """288 rows are nine blocks of 32: 16 bytes of codes and a float scale each; 36 bits of zero points."""
    product, shape = PRODUCTS[name]
    weights: Weights = {"w": shape, **({} if name == "MatMul" else {"b": (48,)})}
    graph = f"g (float[N,288] x) => (float[N,48] y) {{ y = {product} }}"
    planner, scenario = Planner(opened_bare(tmp_path, graph, weights)), Scenario(maxima={"N": 4})
    symmetric = 48 * 9 * (16 + 4) + (0 if name == "MatMul" else 48 * 4)
    found = [as_if(planner, item, scenario=scenario).weights.bytes for item in ("int4", "int4-zero-points")]
    assert found == [symmetric, symmetric + 48 * 5]

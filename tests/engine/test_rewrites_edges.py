"""Rewrites at their borders: what each changes of a graph, to the input and the type, and what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rewritten_models import GROUPED, as_if, hand_made, refusal
from written_program import opened_bare

from vramscope.api import Planner, Scenario, open_path
from vramscope.graph.dtypes import ElementType
from vramscope.plan.rewrites.table import KNOWN
from vramscope.plan.rewrites.types import Rewritten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rewritten_models import Weights

    from vramscope.graph.model import Model, Program, Step
    from vramscope.plan.types import Plan


def rows(graph: str) -> Scenario:
    """A scenario that bounds the rows where a graph leaves them open."""
    return Scenario(maxima={"N": 4} if "[N," in graph else {})


def made_of(model: Model, rewrite: str) -> Program:
    """The program of the model so exported."""
    made = KNOWN[rewrite].apply(model)
    assert isinstance(made, Rewritten)
    return made.model.program


def names(program: Program, values: Sequence[int]) -> list[str]:
    """The names of values, "" for what is left out."""
    return ["" if value < 0 else program.values[value].name for value in values]


def only(program: Program, operator: str) -> Step:
    """The one step of an operator."""
    (step,) = [step for step in program.steps if step.node.operator == operator]
    return step


# ------------------------------------------------------------------------------------ narrow caches


@pytest.mark.parametrize(("bits", "dtype", "size"), [(8, ElementType.INT8, 4), (4, ElementType.UINT8, 2)])
def test_grouped_attention_keeps_both_caches_narrow_and_reads_their_scales(
    tmp_path: Path, bits: int, dtype: ElementType, size: int
) -> None:
    program = made_of(hand_made(tmp_path, GROUPED).model, f"kv{bits}")
    step = only(program, "GroupQueryAttention")
    name = step.node.name
    assert names(program, step.inputs[7:]) == ["", "", "", "", "", f"{name}/k_scale", f"{name}/v_scale"]
    assert step.node.attributes == {
        "num_heads": 2,
        "kv_num_heads": 2,
        "k_quant_type": "PER_TENSOR",
        "v_quant_type": "PER_TENSOR",
        "kv_cache_bit_width": bits,
    }
    caches = [program.values[value] for value in (*step.inputs[3:5], *step.outputs[1:])]
    assert [item.dtype for item in caches] == [dtype] * 4
    assert [(item.shape or ())[-1] for item in caches] == [size] * 4
    scales = [program.weights[value] for value in step.inputs[12:]]
    assert [(item.dtype, item.shape) for item in scales] == [(ElementType.FLOAT, (1,))] * 2


@pytest.mark.parametrize(("bits", "dtype"), [(8, ElementType.INT8), (4, ElementType.UINT8)])
def test_paged_attention_keeps_narrow_blocks_and_reads_their_scales(
    shared_models: Path, bits: int, dtype: ElementType
) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda-paged")
    before = [step for step in model.program.steps if step.node.operator == "PagedAttention"]
    program = made_of(model, f"kv{bits}")
    after = [step for step in program.steps if step.node.operator == "PagedAttention"]
    assert before
    for old, new in zip(before, after, strict=True):
        assert new.node.attributes == {
            **old.node.attributes,
            "k_quant_type": "PER_TENSOR",
            "v_quant_type": "PER_TENSOR",
            "k_cache_dtype": f"int{bits}",
            "v_cache_dtype": f"int{bits}",
        }
        kept = names(model.program, old.inputs)
        scales = [f"{new.node.name}/k_scale", f"{new.node.name}/v_scale"]
        assert names(program, new.inputs) == [*kept[:14], *scales, *kept[16:]]
        for places, side, was in (((3, 4), new.inputs, old.inputs), ((1, 2), new.outputs, old.outputs)):
            for place in places:
                value, plain = program.values[side[place]], model.program.values[was[place]]
                assert value.dtype is dtype
                *_, size = plain.shape or ()
                assert isinstance(size, int)
                assert (value.shape or ())[-1] == size * bits // 8 if bits == 4 else size


def spied(graph: str, spy: str, before: str) -> str:
    """A graph with another output, computed in front of a line."""
    return graph.replace(f"  {before} =", f"  {spy}\n  {before} =").replace(
        "=> (float", "=> (int64[R] spy, float"
    )


def test_a_cache_that_something_else_reads_stays_wide(tmp_path: Path) -> None:
    late = spied(GROUPED, "all = ReduceSum(past_key_0) spy = Cast<to=7>(all)", "logits")
    found = refusal(hand_made(tmp_path, late.replace("int64[R]", "int64[1,1,1,1]")), "kv8")
    assert found.why == "'past_key_0' is read by more than its attention"
    for operator, extent in (("Shape", "[4]"), ("Size", "")):
        early = spied(GROUPED, f"spy = {operator}(past_key_0)", "y, present_key_0, present_value_0")
        asked = hand_made(tmp_path, early.replace("int64[R]", f"int64{extent}"))
        assert as_if(asked, "kv8").kv.bytes == 2 * 2 * 2 * 64 * 4


def test_a_present_that_is_not_the_attention_s_own_result_stays_wide(tmp_path: Path) -> None:
    graph = GROUPED.replace("y, present_key_0,", "y, fresh,").replace(
        "  logits =", "  present_key_0 = Identity(fresh)\n  logits ="
    )
    planner = hand_made(tmp_path, graph)
    assert refusal(planner, "kv8").why == "'present_key_0' is not the attention's own result"


# ------------------------------------------------------------------------------------ 4-bit weights


def four(tmp_path: Path, graph: str, weights: Weights) -> tuple[Plan, tuple[str, ...]]:
    """The plan with 4-bit weights, and what of the model stays as it was."""
    planner = Planner(opened_bare(tmp_path, graph, weights))
    made = KNOWN["int4"].apply(planner.model)
    assert isinstance(made, Rewritten)
    return as_if(planner, "int4", scenario=rows(graph)), made.notes


def codes(reduced: int, columns: int) -> int:
    """Bytes of a weight's codes and float32 scales."""
    return columns * -(-reduced // 32) * (16 + 4)


WIDE = codes(64, 64)


def test_a_product_of_two_activations_is_not_quantised(tmp_path: Path) -> None:
    graph = """g (float[64,64] x, float[64,64] z) => (float[64,64] y)
    { t = Transpose(w) a = Relu(z) b = MatMul(x, a) c = MatMul(b, t) y = MatMul(c, z) }"""
    made, notes = four(tmp_path, graph, {"w": (64, 64)})
    assert made.weights.bytes == WIDE
    assert notes == ()
    assert [row.operator for row in made.phases[0].nodes].count("MatMulNBits") == 1


def test_a_weight_of_another_type_is_left_without_a_word(tmp_path: Path) -> None:
    graph = """g (float[N,64] x, double[N,2] d) => (float[N,64] y, double[N,2] z)
    <double[2,2] m = {1, 2, 3, 4}> { y = MatMul(x, w) z = MatMul(d, m) }"""
    made, notes = four(tmp_path, graph, {"w": (64, 64)})
    assert made.weights.bytes == WIDE + 32
    assert notes == ()


def test_another_form_of_the_same_bytes_has_codes_of_its_own(tmp_path: Path) -> None:
    graph = """g (float[N,64] x) => (float[N,64] y)
    <int64[2] form = {48, 64}> { turned = Reshape(w, form) a = MatMul(x, w) y = MatMul(a, turned) }"""
    made, notes = four(tmp_path, graph, {"w": (64, 48)})
    assert made.weights.bytes == codes(64, 48) + codes(48, 64)
    assert notes == ()


def test_a_matrix_that_no_product_reads_is_left_without_a_word(tmp_path: Path) -> None:
    graph = "g (float[64,64] x) => (float[64,64] y) { a = MatMul(x, w) y = Add(a, other) }"
    made, notes = four(tmp_path, graph, {"w": (64, 64), "other": (64, 64)})
    assert made.weights.bytes == WIDE + 64 * 64 * 4
    assert notes == ()


@pytest.mark.parametrize(
    ("product", "shapes"),
    [
        ("Gemm<alpha=2.0>(x, w, b)", {"b": (64,)}),
        ("Gemm<beta=2.0>(x, w, b)", {"b": (64,)}),
        ("Gemm(x, w, b)", {"b": (1, 64)}),
        ("Gemm<transA=1>(x, w)", {}),
    ],
)
def test_a_product_with_more_than_a_bias_of_its_columns_stays(
    tmp_path: Path, product: str, shapes: Weights
) -> None:
    graph = f"g (float[64,64] x) => (float[64,64] y) {{ y = {product} }}"
    planner = Planner(opened_bare(tmp_path, graph, {"w": (64, 64), **shapes}))
    why = refusal(planner, "int4", scenario=rows(graph)).why
    assert why.endswith("w is multiplied with a factor or a bias that MatMulNBits lacks")


@pytest.mark.parametrize(
    ("shape", "graph", "why"),
    [
        ((2, 64, 64), "g (float[2,64,64] x) => (float[2,64,64] y) { y = MatMul(x, w) }", "is no matrix"),
        ((64,), "g (float[64,64] x) => (float[64] y) { y = MatMul(x, w) }", "is no matrix"),
        (
            (64, 64),
            "g (float[64,64] x) => (float[64,64] y) { a = MatMul(x, w) y = MatMul(w, a) }",
            "is read by more than products",
        ),
        (
            (64, 64),
            "g (float[64,64] x) => (float[64,64] y, float[64,64] w) { y = MatMul(x, w) }",
            "is read by more than products",
        ),
        (
            (64, 64),
            "g (float[64,64] x) => (float[64,64] y) { a = MatMul(x, w) y = Gemm(a, w, w) }",
            "is read by more than products",
        ),
    ],
)
def test_what_is_no_matrix_or_read_in_other_places_stays(
    tmp_path: Path, shape: tuple[int, ...], graph: str, why: str
) -> None:
    planner = Planner(opened_bare(tmp_path, graph, {"w": shape}))
    assert refusal(planner, "int4", scenario=rows(graph)).why.endswith(f"could be so: w {why}")


@pytest.mark.parametrize(("count", "words"), [
    (2, "w0, w1 stay as they are: each is no matrix"),
    (3, "w0, w1, w2 stay as they are: each is no matrix"),
    (5, "w0, w1, w2 and 2 more stay as they are: each is no matrix"),
])  # fmt: skip
def test_a_note_names_three_weights_and_counts_the_others(tmp_path: Path, count: int, words: str) -> None:
    lines = " ".join(f"a{i} = MatMul(x, w{i})" for i in range(count))
    outputs = ", ".join(f"float[2,64,64] a{i}" for i in range(count))
    graph = f"g (float[2,64,64] x) => ({outputs}, float[2,64,64] y) {{ {lines} y = MatMul(x, w) }}"
    made, notes = four(tmp_path, graph, {"w": (64, 64), **{f"w{i}": (2, 64, 64) for i in range(count)}})
    assert notes == (words,)
    assert made.weights.bytes == WIDE + count * 2 * 64 * 64 * 4


@pytest.mark.parametrize(("dtype", "level"), [("float", 4), ("float16", None)])
def test_a_node_of_4_bits_says_its_form(tmp_path: Path, dtype: str, level: int | None) -> None:
    weight = f"<{dtype}[3,2] w = {{1, 2, 3, 4, 5, 6}}>"
    graph = f"g ({dtype}[N,3] x) => ({dtype}[N,2] y) {weight} {{ y = MatMul(x, w) }}"
    program = made_of(opened_bare(tmp_path, graph, {}), "int4-zero-points")
    (step,) = program.steps
    form = {"K": 3, "N": 2, "bits": 4, "block_size": 32}
    assert step.node.attributes == (form if level is None else {**form, "accuracy_level": level})
    assert (step.node.qualified, step.node.opset) == ("com.microsoft::MatMulNBits", 1)
    assert names(program, step.inputs) == ["x", "w_Q4", "w_scales", "w_zero_points"]
    wanted = ElementType.FLOAT if dtype == "float" else ElementType.FLOAT16
    assert program.weights[step.inputs[2]].dtype is wanted


def test_a_bias_is_the_sixth_input_of_a_node_of_4_bits(tmp_path: Path) -> None:
    graph = "g (float[N,64] x) => (float[N,64] y) { y = Gemm(x, w, b) }"
    model = opened_bare(tmp_path, graph, {"w": (64, 64), "b": (64,)})
    for rewrite, points in (("int4", ""), ("int4-zero-points", "w_zero_points")):
        program = made_of(model, rewrite)
        (step,) = program.steps
        assert names(program, step.inputs) == ["x", "w_Q4", "w_scales", points, "", "b"]

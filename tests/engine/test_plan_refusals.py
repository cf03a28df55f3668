"""What a refusal names: the symbol once, the input or output that needs it, the node, the remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from planned_models import opened
from small_models import opened as small

from vramscope.api import Scenario, make_plan, open_path
from vramscope.errors import ShapeOverflowError
from vramscope.graph.expr import Apply, Operator, Symbol
from vramscope.plan.checks import idle_maxima
from vramscope.plan.extents import extents_notes, inner_scenario
from vramscope.plan.index import build_index
from vramscope.plan.phase import _refusals
from vramscope.plan.shapes import IN_A_BODY, Refused
from vramscope.plan.sizes import IMPOSSIBLE, Resolver, symbol_ranges
from vramscope.plan.symbols import PhaseBindings, plain_bindings
from vramscope.plan.types import Phase
from vramscope.plan.verdict import _refusal_sentence

if TYPE_CHECKING:
    from pathlib import Path


def test_a_symbol_is_refused_once_and_by_its_place(tmp_path: Path) -> None:
    text = """g (float[K,4] x, float[4,L] z) => (float[K,4] y, float[4,L] w) {
      a = Relu(x) y = Relu(a) w = Relu(z) }"""
    plan = make_plan(opened(tmp_path, text), Scenario())
    told = [(item.symbol, item.axis, item.input_index) for item in plan.refusals]
    assert told == [("K", 0, 0), ("L", 1, 0)]
    first = plan.refusals[0]
    error = str(first.error())
    assert error.startswith(f"axis 0 of x (symbol K, input 0): {first.reason}; its extent is genuinely")
    assert error.endswith(f"(at node {first.node}). Give K a maximum")


def refused(**changes: object) -> Refused:
    base = Refused("v", 1, "", "maker", "ai.onnx::Sub", -1, "its extent would be −2")
    return replace(base, **changes)  # type: ignore[arg-type]  # fields by name


def test_what_a_refusal_says() -> None:
    assert str(refused().error()) == (
        "axis 1 of v (an output): its extent would be −2 (at node maker). "
        "Correct the shape that maker is given"
    )
    assert str(refused(node="").error()) == (
        "axis 1 of v (an input of the graph): its extent would be −2. Correct the shape that v is given"
    )
    assert "; its extent is" not in str(refused(axis=0).error())
    unranked = refused(axis=-1, reason="shape inference gives it no rank", input_index=0)
    assert str(unranked.error()) == (
        "the rank of v (input 0): shape inference gives it no rank; its extent is genuinely unknown and "
        "guessing would under-reserve (at node maker). Correct the shape that maker is given"
    )
    assert "axis 0 of v (symbol N, input 1): " in str(refused(axis=0, symbol="N", input_index=1).error())


def test_what_a_verdict_says(tmp_path: Path) -> None:
    text = """g (float[8,4] x) => (float[1,4] y) {
      a = Relu(x) b = Concat <axis = 0> (a, a) c = Relu(b) y = ReduceMax <axes = [0]> (c) }"""
    model = opened(tmp_path, text, '<ir_version: 8, opset_import: ["" : 17]>')
    card = "RTX 4090"
    for scenario, sentence in (
        (Scenario(), "needs 656 B at batch 1; choose a card to judge it"),
        (Scenario(card=card), "fits with 24.0 GiB to spare on GeForce RTX 4090 at batch 1"),
        (Scenario(card="3060"), "fits with 12.0 GiB to spare on GeForce RTX 3060 12GB at batch 1"),
        (Scenario(card=card, budget=700), "fits with 44 B to spare in 700 B at batch 1"),
        (Scenario(budget=600), "short by 56 B in 600 B at batch 1; node Concat_0 is to blame"),
    ):
        verdict = make_plan(model, scenario).verdict
        assert verdict.sentence == sentence
        assert verdict.blame == "node Concat_0", "two of its inputs' size are alive beside it"


def test_what_the_verdict_of_a_refusal_says(tmp_path: Path) -> None:
    text = "g (float[K,4] x) => (float[K,4] y) { a = Relu(x) y = Relu(a) }"
    plan = make_plan(opened(tmp_path, text), Scenario())
    start = "cannot be planned: axis 0 (K) of x, input 0 of"
    assert plan.verdict.sentence.startswith(f"{start} {plan.refusals[0].node}, has no ceiling: ")
    (phase,) = plan.phases
    for found, words in (
        (refused(node="", reason="r"), "axis 1 of v, an input of the graph, cannot be: r. Correct"),
        (refused(axis=-1, reason="r"), "the rank of v, an output of maker, cannot be: r. Correct"),
        (
            refused(axis=0, symbol="N", reason="r"),
            "axis 0 (N) of v, an output of maker, has no ceiling: r. Give",
        ),
    ):
        assert words in _refusal_sentence((replace(phase, refusals=(found,)),))


NOTHING = "com.microsoft.Nothing"
NO_RANK = "shape inference gives it no rank"


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        (
            "g (float[2,4] z, float[K,4] x) => (float[2,4] w, float[K,4] y) { w = Relu(z) y = Relu(x) }",
            [("x", 0, "K", "y", 0, "nothing bounds K")],
        ),
        (
            "g (float[4] x, float[K] k) => (float[4] y) { y = Relu(x) }",
            [("k", 0, "K", "", -1, "nothing bounds K")],
        ),
        (
            f"g (float[4] x) => (float[J] y) {{ z = Relu(x) y = {NOTHING}(z) }}",
            [("y", 0, "y.axis0", "y", -1, "nothing bounds y.axis0")],
        ),
        (
            f"g (float[4] x) => (float[4] y) {{ q = {NOTHING}(x) r = {NOTHING}(q) y = {NOTHING}(x, r) }}",
            [("q", -1, "", "r", 0, NO_RANK)],
        ),
        (
            f"g (float[K] x) => (float[4] y) {{ q = {NOTHING}(x) r = {NOTHING}(q) y = {NOTHING}(r) }}",
            [("x", 0, "K", "q", 0, "nothing bounds K"), ("q", -1, "", "r", 0, NO_RANK)],
        ),
    ],
)
def test_what_is_refused_first_is_named_by_axis_reader_and_input(
    graph: str, told: list[tuple[str, int, str, str, int, str]]
) -> None:
    model = small(graph)
    makers = {step.node.name: model.program.values[step.outputs[0]].name for step in model.program.steps}
    found = [
        (item.value, item.axis, item.symbol, makers.get(item.node, ""), item.input_index, item.reason)
        for item in make_plan(model, Scenario()).refusals
    ]
    assert found == told


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        (f"h = {NOTHING}(x) k = {NOTHING}(h) p = {NOTHING}(k)", f"h: {NO_RANK}"),
        (f"p = {NOTHING}(x)", "axis 0 of p: nothing bounds p.axis0"),
    ],
)
def test_what_a_body_lacks_takes_nothing_and_is_named(body: str, missing: str) -> None:
    kind = "float[J]" if "axis" in missing else "float[4]"
    text = f"""g (float[4] x, bool flag) => (float[4] y) {{
      y = If (flag) < then_branch = t () => ({kind} p) {{ {body} }},
        else_branch = e () => (float[4] q) {{ q = Relu(x) }} >
    }}"""
    (region,) = make_plan(small(text), Scenario()).phases[0].bodies.values()
    assert (region.bytes, region.missing) == (64, missing)


def test_what_only_a_body_reads_is_no_input_of_its_node() -> None:
    text = """g (float[4] z, float[K] x, bool flag) => (float[4] w, float[K] y) {
      w = Relu(z)
      y = If (flag) < then_branch = t () => (float[K] p) { p = Relu(x) },
        else_branch = e () => (float[K] q) { q = Neg(x) } >
    }"""
    first = make_plan(small(text), Scenario()).refusals[0]
    assert (first.value, first.operator, first.input_index) == ("x", "ai.onnx::If", IN_A_BODY)


def test_an_expression_names_the_symbols_that_nothing_bounds(tmp_path: Path) -> None:
    model = opened(tmp_path, "g (float[K,L] x) => (float[K,L] y) { y = Relu(x) }")
    scenario = Scenario(maxima={"L": 4})
    bindings = plain_bindings(model, scenario)
    resolver = Resolver(build_index(model), bindings, symbol_ranges(bindings, {}, frozenset()))
    twice = Apply(Operator.MUL, (2, Symbol("K")))
    both = Apply(Operator.ADD, (Symbol("L"), twice))
    assert resolver.resolve((3, twice)) == (1, "nothing bounds K")
    assert resolver.resolve((both,)) == (0, "nothing bounds K")


def test_an_input_too_large_for_any_device_names_no_node(tmp_path: Path) -> None:
    model = opened(tmp_path, "g (float[K,4] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }")
    with pytest.raises(ShapeOverflowError) as caught:
        make_plan(model, Scenario(extents={"K": 2**61}))
    assert (caught.value.what, caught.value.node) == (f"x, FLOAT[{2**61}, 4]", "")
    assert caught.value.why == f"{2**65:,} B: exceeds any device"


def test_a_cache_too_large_for_any_device_is_named(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    with pytest.raises(ShapeOverflowError) as caught:
        make_plan(model, Scenario(batch=2**58, prompt=4, context=16))
    assert caught.value.what == f"past_key_values.0.key, FLOAT[{2**58}, 2, 16, 16]"


def test_a_value_of_a_body_too_large_for_any_device_names_its_node() -> None:
    body = "h = Concat <axis = 0> (x, x, x, x, x, x, x, x) p = Slice(h, zero, one)"
    ends = "int64[1] zero = {0}, int64[1] one = {1}"
    model = small(f"""g (float[K,4] x, bool c) => (float[1,4] y) <{ends}> {{
      y = If(c) <then_branch = t () => (float[1,4] p) {{ {body} }},
                 else_branch = e () => (float[1,4] q) {{ q = Slice(x, zero, one) }}> }}""")
    with pytest.raises(ShapeOverflowError) as caught:
        make_plan(model, Scenario(extents={"K": 2**57}))
    assert caught.value.what == f"h, FLOAT[{2**60}, 4]"
    assert caught.value.node == "Concat_0"


def test_an_extent_that_cannot_be_names_the_node_that_gives_it(tmp_path: Path) -> None:
    model = opened(tmp_path, "g (float[4] x) => (float[4] y) { z = Neg(x) a = Relu(z) y = Relu(a) }")
    bindings = plain_bindings(model, Scenario())
    resolver = Resolver(build_index(model), bindings, symbol_ranges(bindings, {}, frozenset()))
    steps = model.program.steps
    value = steps[1].outputs[0]
    impossible = resolver.refusal(value, 0, f"its extent would be -2{IMPOSSIBLE}")
    assert (impossible.node, impossible.input_index) == (steps[1].node.name, -1)
    other = resolver.refusal(value, 0, "nothing bounds it")
    assert (other.node, other.input_index) == (steps[2].node.name, 0)


def test_a_value_that_only_a_body_reads_is_no_output_of_the_node(tmp_path: Path) -> None:
    text = """g (bool c, int64 n, float[3] z) => (float[3] y)
    <int64 zero = {0}, int64 one = {1}>
    { r = Range(zero, n, one) y = If(c) <
        then_branch = t () => (float[3] p) { s = ReduceSum<keepdims=0>(r) f = Cast<to=1>(s) p = Add(z, f) },
        else_branch = e () => (float[3] q) { q = Neg(z) }> }"""
    (refusal,) = make_plan(opened(tmp_path, text), Scenario()).refusals
    assert refusal.place == "read in its body"
    assert str(refusal.error()).startswith("axis 0 of r (symbol r.axis0, read in its body): nothing bounds")


def test_maxima_at_given_extents(tmp_path: Path) -> None:
    model = opened(tmp_path, "g (float[K,L] x) => (float[K,L] y) { y = Relu(x) }")
    scenario = Scenario(maxima={"K": 5, "L": 7, "z": 4}, extents={"L": 7})
    (note,) = extents_notes(scenario, {"K": 5, "L": 7})
    assert note.endswith("planned for exactly K = 5, L = 7 (the maxima of K are taken as extents)")
    assert list(extents_notes(scenario, {})) == []
    inner = inner_scenario(scenario, model, model)
    assert (dict(inner.maxima), dict(inner.extents)) == ({}, {})


def test_an_idle_maximum_is_told_of_the_first_phase(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    scenario = Scenario(prompt=8, context=64, maxima={"total_sequence_length": 70})
    name = "total_sequence_length"
    prefill = PhaseBindings(Phase.PREFILL, {}, {}, {name: 8}, {name: "first"}, {})
    decode = PhaseBindings(Phase.DECODE, {}, {}, {name: 64}, {name: "second"}, {})
    assert idle_maxima(model, scenario, [prefill, decode]) == [
        f"The maximum 70 of {name} changes nothing: first binds it to 8 (prefill) and 64 (decode); "
        "--prompt-tokens sets it"
    ]


@pytest.mark.parametrize(
    ("axis", "symbol", "told"),
    [(0, "", ["x", "z"]), (1, "", ["x", "z"]), (-1, "", ["x", "z"]), (0, "K", ["x"]), (1, "K", ["x"])],
)
def test_what_follows_from_a_refused_input_is_not_told_again(
    tmp_path: Path, axis: int, symbol: str, told: list[str]
) -> None:
    text = """g (float[4,4] x, float[4,4] z) => (float[4,4] y, float[4,4] w) {
      a = Relu(x) b = Relu(a) c = Relu(z) y = Neg(b) w = Neg(c) }"""
    model = opened(tmp_path, text)
    shapes = {item.id: refused(value=item.name, axis=axis, symbol=symbol) for item in model.program.values}
    assert [item.value for item in _refusals(build_index(model), shapes)] == told

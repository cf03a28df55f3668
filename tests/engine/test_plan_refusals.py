"""What a refusal names: the symbol once, the input or output that needs it, the node, the remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from planned_models import opened
from small_models import opened as small

from vramscope.api import Scenario, make_plan
from vramscope.plan.shapes import Refused
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
        (Scenario(card=card), f"fits with 24.0 GiB to spare on {card} at batch 1"),
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

"""What a refusal names: the symbol once, the input or output that needs it, the node, the remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planned_models import opened

from vramscope.api import Scenario, make_plan
from vramscope.plan.shapes import Refused

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

"""Shapes that no run can have: refused where the node always runs, a branch left out where it need not."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import array_of, opened, session_of

from vramscope.api import make_plan
from vramscope.errors import ModelGraphError, VramscopeError
from vramscope.plan.types import Certainty, Scenario

OLD = '["" : 6]'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("y = Add(x, w)", "Operands of shapes [4], [3] do not broadcast on axis -1"),
        ("y = Add(w, x)", "Operands of shapes [3], [4] do not broadcast on axis -1"),
        ("y = Sum(x, x, w)", "Operands of shapes [4], [4], [3] do not broadcast on axis -1"),
        ("c = Cast<to=9>(x) y = Where(c, x, w)", "Operands of shapes [4], [4], [3] do not"),
        ("r = Reshape(x, s) y = Mul(r, t)", "Operands of shapes [2, 2], [3, 1] do not broadcast on axis -2"),
        (
            "r = Reshape(x, s) y = Sum(t, r, w)",
            "Operands of shapes [3, 1], [2, 2], [3] do not broadcast on axis -1",
        ),
        (
            "r = Unsqueeze(w, o) q = Unsqueeze(x, o) y = Sum(r, q, n)",
            "[3, 1], [4, 1], [1] do not broadcast on axis -2",
        ),
        ("y = Reshape(w, s)", "The target shape [2, 2] does not hold the 3 elements given"),
        ("y = Reshape(x, u)", "The target shape [3, 1] does not hold the 4 elements given"),
    ],
)
def test_a_node_that_always_runs_and_never_can_is_refused_when_the_model_is_opened(
    body: str, why: str
) -> None:
    weights = (
        "<float[3] w = {1,2,3}, int64[2] s = {2,2}, int64[2] u = {3,1}, float[3,1] t = {1,2,3},"
        " int64[1] o = {1}, float[1] n = {1}>"
    )
    with pytest.raises(ModelGraphError) as caught:
        opened(f"g (float[4] x) => (float[K] y) {weights} {{ {body} }}")
    assert why in str(caught.value)
    assert caught.value.node.endswith("_y")


@pytest.mark.parametrize(
    ("inputs", "body", "shape"),
    [
        ("float[4] x, float[1] z", "y = Add(x, z)", (4,)),
        ("float[4] x, float[2,1] z", "y = Add(x, z)", (2, 4)),
        ("float[4] x, float z", "y = Add(x, z)", (4,)),
        ("float[0] x, float[1] z", "y = Add(x, z)", (0,)),
        ("float[4] x, float[4] z", "r = Reshape(x, s) y = Neg(r)", (2, 2)),
    ],
)
def test_what_broadcasts_or_fits_is_left_alone(inputs: str, body: str, shape: tuple[int, ...]) -> None:
    model = opened(
        f"g ({inputs}) => (float[K] y) <int64[2] s = {{2,2}}> {{ {body} }}".replace("[K]", str(list(shape)))
    )
    (output,) = model.program.outputs
    assert model.program.values[output].shape == shape
    assert not model.contradicted


def test_extents_that_are_open_contradict_nothing() -> None:
    model = opened("g (float[N] x, float[M] z) => (float[K] y) { y = Add(x, z) }")
    assert not model.contradicted


def test_what_has_no_known_rank_contradicts_nothing() -> None:
    text = """g (float[4] x, int64[N] s, bool c) => (float[K] y, float[2,2] z) <int64[2] t = {2,2}>
        { r = If(c) <then_branch = a () => (float[2] p) { p = Reshape(x, s) },
                     else_branch = b () => (float[2,2] q) { q = Reshape(x, t) }>
          y = Add(r, x) z = Reshape(r, t) }"""
    model = opened(text)
    shapes = {value.name: value.shape for value in model.program.values}
    assert shapes["r"] is None
    assert not model.contradicted


def test_from_operator_set_8_on_all_of_them_broadcast() -> None:
    with pytest.raises(ModelGraphError, match="do not broadcast"):
        opened("g (float[4] x, float[3] z) => (float[4] y) { y = Add(x, z) }", opsets='["" : 8]')
    old = opened("g (float[4] x, float[3] z) => (float[4] y) { y = Add(x, z) }", opsets='["" : 7]')
    assert not old.contradicted, "it is told as an extent that nothing bounds"


def test_before_broadcasting_an_attribute_aligned_the_axes() -> None:
    text = "g (float[2,3,4] x, float[3] z) => (float[2,3,4] y) { y = Add<axis=1, broadcast=1>(x, z) }"
    model = opened(text, opsets=OLD)
    assert model.program.values[model.program.outputs[0]].shape == (2, 3, 4)


BRANCH = """g (bool c, float[4] x) => (float[4] y)
    <float[3] w = {{1,2,3}}, int64[2] s = {{3,1}}>
    {{ b = Abs(x) y = If(c) <then_branch = t () => (float[K] p) {{ p = {} }},
                             else_branch = e () => (float[4] q) {{ q = Neg(b) }}> }}"""


@pytest.mark.parametrize("broken", ["Add(b, w)", "Reshape(b, s)"])
def test_a_branch_that_cannot_run_is_left_out_and_named(broken: str) -> None:
    model = opened(BRANCH.format(broken))
    assert model.contradicted
    plan = make_plan(model, Scenario())
    first, second = plan.notes
    assert first.startswith("then_branch of If_y cannot run on these extents: ")
    assert second == "If_y is planned with its else_branch alone, for the other cannot run on these extents"
    whole = make_plan(opened(BRANCH.format("Exp(b)")), Scenario())
    assert plan.total.bytes is not None
    assert plan.total.certainty is Certainty.EXACT
    session = session_of(model)
    x = np.array([1, -2, 3, -4], np.float32)
    found = session.run({"c": np.array(False), "x": x})
    assert array_of(found, "y").tolist() == [-1, -2, -3, -4]
    with pytest.raises(VramscopeError, match="then_branch"):
        session.run({"c": np.array(True), "x": x})
    assert whole.notes == ("'c' decides while it runs which branch of If_y is taken: the larger is planned",)

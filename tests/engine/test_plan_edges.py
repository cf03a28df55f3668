"""Edges of planning where being one off would go unnoticed: found by changing the code a little at a time."""

from __future__ import annotations

import pytest
from small_models import opened, session_of

from vramscope.api import make_plan
from vramscope.devices.host import HostDevice
from vramscope.graph.expr import Apply, Interval, Operator, Symbol
from vramscope.graph.model import Minted
from vramscope.plan.arena import Owner, plan_arena
from vramscope.plan.extents import branch_notes
from vramscope.plan.phase import live_bytes
from vramscope.plan.sizes import symbol_ranges
from vramscope.plan.symbols import PhaseBindings
from vramscope.plan.types import ComponentName, Figure, Phase, Scenario


def test_a_value_of_one_step_is_alive_in_it() -> None:
    plan = plan_arena([Owner(0, 0, 2), Owner(1, 1, 1)], {0: 16, 1: 32})
    assert live_bytes(plan, 3)[:4] == [16, 48, 16, 0]


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

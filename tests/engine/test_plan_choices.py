"""Choices of the planner that only a tie, an order or a full memory of past answers shows, to the byte."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import opened, opened_proto

from vramscope.api import Planner, Scenario
from vramscope.errors import ScenarioError
from vramscope.graph.dtypes import ElementType
from vramscope.plan.reuse import KEPT_ORDERS, ArenaReuse
from vramscope.plan.sizes import Resolver, symbol_ranges
from vramscope.plan.streaming import StreamedWeights, _can_stream
from vramscope.plan.symbols import plain_bindings

if TYPE_CHECKING:
    from vramscope.plan.types import StreamingPlan

UNIT = 8192
"""Bytes of the smallest weight of :func:`reading`."""


def reading(*rows: tuple[int, ...]) -> Planner:
    """Step by step the weights that each reads: weight ``n`` has ``n`` units."""
    stored = [
        helper.make_tensor(
            f"w{n}",
            TensorProto.FLOAT,
            (n * UNIT // 4,),
            np.full(n * UNIT // 4, n, np.float32).tobytes(),
            raw=True,
        )
        for n in sorted({n for row in rows for n in row})
    ]
    names = [f"y{position}" for position in range(len(rows))]
    nodes = [
        helper.make_node("Concat", [*(f"w{n}" for n in row), "x"], [name], axis=0)
        for name, row in zip(names, rows, strict=True)
    ]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Concat", names, ["y"], axis=0)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        stored,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Planner(opened_proto(proto))


def streamed(planner: Planner, budget: int) -> tuple[StreamingPlan, set[int]]:
    """The plan under ``budget`` and the units of each weight that stays."""
    plan = planner.plan(Scenario(weight_budget=budget)).weights.streaming
    assert plan is not None
    sizes = {source.identity: source.size for source in planner.model.program.weights.values()}
    return plan, {sizes[name] // UNIT for name in plan.resident}


# ------------------------------------------------------------------------------------ streamed weights


def test_what_most_steps_read_stays_although_it_is_smaller() -> None:
    plan, resident = streamed(reading((1,), (1,), (1,), (1,), (2,), (3,)), 5 * UNIT)
    assert resident == {1}
    assert (plan.step_bytes, plan.step_pages, plan.window) == (5 * UNIT, 2, 3 * UNIT)


def test_of_cuts_that_copy_equally_much_the_one_with_the_largest_window_is_taken() -> None:
    planner = reading((1,), (1,), (1,), (2,), (3,))
    plan, resident = streamed(planner, 5 * UNIT)
    assert resident == {1}, "as much is copied where 3 stays instead"
    assert (plan.step_bytes, plan.window) == (5 * UNIT, 3 * UNIT)
    assert planner.plan(Scenario(weight_budget=5 * UNIT)).weights.bytes == 4 * UNIT


def test_of_weights_that_are_read_equally_often_the_largest_that_fits_stays() -> None:
    plan, resident = streamed(reading((8,), (14,), (2,), (6,)), 20 * UNIT)
    assert resident == {6}, "2 fits too, and 6 no longer behind it"
    assert (plan.step_bytes, plan.window) == (24 * UNIT, 14 * UNIT)


def test_the_largest_weights_are_laid_first() -> None:
    with pytest.raises(ScenarioError) as refused:
        reading((1, 2), (2, 3)).plan(Scenario(weight_budget=1))
    assert refused.value.remedy == f"Give at least {5 * UNIT:,} bytes"
    assert refused.value.why == (
        f"the 0 bytes of weights that must stay and the {5 * UNIT:,} that {refused.value.node} reads at once "
        "do not fit"
    )


def test_where_no_weight_can_be_streamed_the_least_budget_is_what_they_take() -> None:
    planner = Planner(opened("g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }"))
    whole = planner.plan(Scenario()).weights.bytes
    with pytest.raises(ScenarioError) as refused:
        planner.plan(Scenario(weight_budget=whole - 1))
    assert whole == 16
    assert refused.value.why == "the 16 bytes of weights that must stay do not fit"
    assert refused.value.remedy == "Give at least 16 bytes"
    assert planner.plan(Scenario(weight_budget=whole)).weights.streaming is None


def test_how_small_a_weight_stays_and_how_many_cuts_are_tried() -> None:
    assert [_can_stream(ElementType.INT8, size) for size in (4096, 4097)] == [False, True]
    planner = reading((1,))
    weights = StreamedWeights(planner.index, planner.plan(Scenario()).weights)
    weights._sizes = {str(size): size for size in range(1, 67)}
    assert weights._borders() == list(range(66, 2, -1))


# ------------------------------------------------------------------------------------ arenas known by order

FIVE = """g (float[a] p, float[b] q, float[c] r, float[d] s, float[e] t) =>
  (float[a] v, float[b] w, float[c] x, float[d] y, float[e] z)
  { f = Relu(p) g = Relu(q) h = Relu(r) i = Relu(s) j = Relu(t)
    v = Neg(f) w = Neg(g) x = Neg(h) y = Neg(i) z = Neg(j) }"""


def resolver_at(planner: Planner, scenario: Scenario) -> Resolver:
    bindings = plain_bindings(planner.model, scenario)
    return Resolver(planner.index, bindings, symbol_ranges(bindings, {}, frozenset()))


def test_so_many_orders_of_sizes_are_remembered_and_then_none() -> None:
    planner = Planner(opened(FIVE))
    reuse = ArenaReuse(planner.index)
    kept = []
    for extents in permutations((1, 100, 200, 300, 400)):
        scenario = Scenario(extents=dict(zip("abcde", extents, strict=True)))
        assert reuse.bytes(resolver_at(planner, scenario)) == 256 + 512 + 1024 + 1280 + 1792
        kept.append(len(reuse._known))
    assert KEPT_ORDERS == 64
    assert kept == [*range(1, 65), *range(1, 57)]


def test_the_first_owner_of_an_unknown_size_is_named() -> None:
    planner = Planner(opened(FIVE))
    reuse = ArenaReuse(planner.index)
    first = {owner.value: owner for owner in planner.index.owners}
    ids = {planner.model.program.values[value].name: value for value in first}
    known = Scenario(extents={"a": 1, "c": 3, "d": 4})
    assert reuse.unsettled(resolver_at(planner, known)) == ids["g"] < ids["j"]
    every = Scenario(extents=dict.fromkeys("abcde", 2))
    assert reuse.unsettled(resolver_at(planner, every)) is None


# ------------------------------------------------------------------------------------ branches on data


@pytest.mark.parametrize(
    ("extent", "notes"),
    [
        (3, ["'flag' decides while it runs which branch of If_y is taken: the larger is planned"]),
        (
            4,
            [
                "then_branch of If_y cannot run on these extents: 'MatMul_0' (ai.onnx::MatMul): "
                "Incompatible MatMul contraction dimensions: 4 vs 3",
                "If_y is planned with its else_branch alone, for the other cannot run on these extents",
            ],
        ),
    ],
)
def test_a_branch_that_cannot_run_is_not_said_to_be_decided_by_data(extent: int, notes: list[str]) -> None:
    text = """g (float[1,K] x, bool flag) => (float[1,1] y) <float[3,1] three = {1, 2, 3}> {
      y = If (flag) < then_branch = t () => (float[1,1] p) { p = MatMul(x, three) },
        else_branch = e () => (float[1,1] q) { q = ReduceMax <axes = [1]> (x) } >
    }"""
    plan = Planner(opened(text)).plan(Scenario(extents={"K": extent}))
    first = f"Which branches run depends on shapes: planned for exactly K = {extent}"
    assert list(plan.notes) == [first, *notes]

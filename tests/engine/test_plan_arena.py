"""The activation planner, A-01 to A-17 and P-16: slots, peaks, views, deferral, and the validator itself."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_checker import check_arena
from planned_models import activations, chain, opened, value_of

from vramscope.api import Planner
from vramscope.graph.model import Program
from vramscope.plan.activations import (
    ActivationOptions,
    Deferred,
    bounded_sizes,
    exact_sizes,
    plan_activations,
)
from vramscope.plan.arena import Owner, arena_bytes, plan_arena
from vramscope.units import align

if TYPE_CHECKING:
    from pathlib import Path

DIAMOND = "g (float[1,100] x) => (float[1,100] d) { a = Relu(x) b = Relu(a) c = Sigmoid(a) d = Add(b, c) }"
RESIDUAL = "g (float[1,100] x) => (float[1,100] d) { a = Relu(x) b = Relu(a) c = Relu(b) d = Add(a, c) }"
SYMBOLIC = "g (float[rows,100] x) => (float[rows,100] b) { a = Relu(x) b = Sigmoid(a) }"
VIEWS = """g (float[4] x) => (float[4] e) <int64[2] s = {2, 2}, int64[1] t = {4}>
{ a = Relu(x) b = Reshape(a, s) c = Relu(b) d = Reshape(c, t) e = Relu(d) }"""


def test_a01_a_linear_chain_takes_two_slots_and_saves_half(tmp_path: Path) -> None:
    model = opened(tmp_path, chain(4, "1,100"))
    plan = activations(model)
    assert (len(plan.slots), plan.peak, plan.naive) == (2, 800, 1600)
    assert plan.savings == 0.5
    check_arena(model.program, {}, plan)


def test_a02_a_diamond_takes_at_least_two_slots(tmp_path: Path) -> None:
    plan = activations(opened(tmp_path, DIAMOND))
    assert len(plan.slots) == 3
    assert plan.live_peak == plan.peak == 1200


def test_a03_a_residual_pins_its_slot(tmp_path: Path) -> None:
    model = opened(tmp_path, RESIDUAL)
    plan = activations(model)
    pinned = plan.placements[value_of(model, "a").id]
    others = [item for item in plan.placements.values() if item.value != pinned.value]
    assert pinned.last == 3
    assert pinned.slot not in {item.slot for item in others}


def test_a04_disjoint_chains_share_slots(tmp_path: Path) -> None:
    text = """g (float[1,100] x) => (float[1,100] p, float[1,100] q)
    { a = Relu(x) b = Relu(a) p = Relu(b) c = Relu(x) d = Relu(c) q = Relu(d) }"""
    model = opened(tmp_path, text)
    plan = activations(model)
    slots = {name: plan.placements[value_of(model, name).id].slot for name in "abcdpq"}
    assert slots["c"] in {slots["a"], slots["b"]}
    assert (plan.naive, plan.peak) == (2400, 1200)


def test_a05_a_view_owns_no_slot(tmp_path: Path) -> None:
    model = opened(tmp_path, VIEWS)
    plan = activations(model)
    assert {model.program.values[value].name for value in plan.placements} == {"a", "c", "e"}
    assert not set(plan.views) & set(plan.placements)


def test_a06_a_view_extends_the_life_of_its_owner(tmp_path: Path) -> None:
    model = opened(tmp_path, VIEWS)
    placement = activations(model).placements[value_of(model, "a").id]
    assert (placement.first, placement.last) == (0, 2)


def test_a07_the_slot_of_a_graph_output_is_never_used_again(tmp_path: Path) -> None:
    text = """g (float[1,100] x) => (float[1,100] a, float[1,100] d)
    { a = Relu(x) b = Relu(x) c = Relu(b) d = Relu(c) }"""
    model = opened(tmp_path, text)
    plan = activations(model)
    output = plan.placements[value_of(model, "a").id]
    assert output.last == len(model.program.steps)
    assert [item.value for item in plan.placements.values() if item.slot == output.slot] == [output.value]


def test_a08_a_symbolic_size_defers_the_plan(tmp_path: Path) -> None:
    model = opened(tmp_path, SYMBOLIC)
    found = plan_activations(model.program, {}, exact_sizes())
    assert found == Deferred(("a", "b"))


def test_a09_a_bound_symbol_is_exact(tmp_path: Path) -> None:
    plan = activations(opened(tmp_path, SYMBOLIC), exact_sizes({"rows": 3}))
    assert plan.naive == 2 * 3 * 400


def test_a10_a_custom_oracle_decides(tmp_path: Path) -> None:
    plan = activations(opened(tmp_path, SYMBOLIC), lambda value: 7 if value.name == "a" else 11)
    assert (plan.naive, plan.peak, plan.live_peak) == (18, 18, 18)


@pytest.mark.parametrize("bound", [1, 2, 1000])
def test_a11_a_bounded_peak_scales_with_the_bound(tmp_path: Path, bound: int) -> None:
    plan = activations(opened(tmp_path, SYMBOLIC), bounded_sizes({"rows": bound}))
    assert plan.peak == 800 * bound


def test_a12_a_symbol_without_a_bound_defers(tmp_path: Path) -> None:
    model = opened(tmp_path, SYMBOLIC)
    assert plan_activations(model.program, {}, bounded_sizes({"other": 4})) == Deferred(("a", "b"))


def test_a13_the_validator_catches_an_overlap(tmp_path: Path) -> None:
    model = opened(tmp_path, RESIDUAL)
    plan = activations(model)
    a, b = value_of(model, "a").id, value_of(model, "b").id
    moved = plan.placements[b]._replace(slot=plan.placements[a].slot, offset=plan.placements[a].offset)
    with pytest.raises(AssertionError, match="share bytes"):
        check_arena(model.program, {}, replace(plan, placements={**plan.placements, b: moved}))


def test_a14_a_value_that_nobody_reads_retires_at_once() -> None:
    owners = [Owner(0, 0, 0), Owner(1, 1, 2), Owner(2, 2, 3)]
    plan = plan_arena(owners, {0: 400, 1: 400, 2: 400}, alignment=1)
    assert [plan.placements[value].slot for value in range(3)] == [0, 0, 1]


def test_a15_graph_inputs_count_only_when_asked(tmp_path: Path) -> None:
    model = opened(tmp_path, chain(2, "1,100"))
    assert activations(model).naive == 800
    plan = plan_activations(model.program, {}, exact_sizes(), ActivationOptions(include_inputs=True))
    assert not isinstance(plan, Deferred)
    assert (plan.naive, plan.peak) == (1200, 800)


def test_a16_best_fit_takes_the_smallest_free_slot_and_the_lowest_of_equals() -> None:
    owners = [Owner(0, 0, 1), Owner(1, 0, 1), Owner(2, 0, 1), Owner(3, 2, 3), Owner(4, 2, 3), Owner(5, 2, 3)]
    plan = plan_arena(owners, {0: 900, 1: 500, 2: 500, 3: 400, 4: 500, 5: 501}, alignment=1)
    assert [plan.placements[value].slot for value in range(6)] == [0, 1, 2, 1, 2, 0]
    assert plan.peak == 1900


def test_a17_an_empty_program_has_an_empty_plan() -> None:
    plan = plan_arena([], {})
    assert (plan.bytes, plan.peak, plan.naive, plan.live_peak, plan.savings) == (0, 0, 0, 0, 0.0)


def test_p16_activation_measures_are_there_once_asked(tmp_path: Path) -> None:
    model = opened(tmp_path, chain(6, "1,100"))
    plan = activations(model)
    assert len(plan.placements) == 6
    assert plan.naive > plan.peak
    assert plan.savings > 0


def test_p16_reshape_views_are_edges_and_no_assignments(tmp_path: Path) -> None:
    plan = activations(opened(tmp_path, VIEWS))
    assert len(plan.views) == 2
    assert len(plan.placements) == 3
    assert plan.naive == 48


def test_an_output_overwrites_a_dead_input_where_that_is_allowed() -> None:
    owners = [Owner(0, 0, 1), Owner(1, 1, 2, (0,)), Owner(2, 2, 3, (1,))]
    sizes = {0: 400, 1: 400, 2: 300}
    plan = plan_arena(owners, sizes)
    assert [plan.placements[value].slot for value in range(3)] == [0, 0, 1]
    assert (plan.live_peak, plan.peak_step) == (700, 2)


def test_one_input_is_overwritten_once() -> None:
    plan = plan_arena([Owner(0, 0, 1), Owner(1, 1, 2, (0,)), Owner(2, 1, 2, (0,))], {0: 8, 1: 8, 2: 8})
    assert len({item.slot for item in plan.placements.values()}) == 2


_NOTHING = Program("nothing", (), (), (), (), MappingProxyType({}))

intervals = st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 2000))


@given(st.lists(intervals, max_size=24), st.sampled_from((1, 64, 256)))
def test_random_lifetimes_pass_the_checker(items: list[tuple[int, int, int]], alignment: int) -> None:
    ordered = sorted(items)
    owners = [Owner(value, first, first + length) for value, (first, length, _) in enumerate(ordered)]
    sizes = {value: size for value, (_, _, size) in enumerate(ordered)}
    plan = plan_arena(owners, sizes, MappingProxyType({}), alignment)
    check_arena(_NOTHING, {}, plan)
    assert plan.bytes == arena_bytes(owners, sizes, alignment)
    assert plan.bytes == sum(align(slot.size, alignment) for slot in plan.slots)


@given(st.lists(intervals, max_size=16))
def test_planning_twice_gives_the_same(items: list[tuple[int, int, int]]) -> None:
    ordered = sorted(items)
    owners = [Owner(value, first, first + length) for value, (first, length, _) in enumerate(ordered)]
    sizes = {value: size for value, (_, _, size) in enumerate(ordered)}
    assert plan_arena(owners, sizes) == plan_arena(owners, sizes)


def test_the_session_arena_holds_what_no_binding_holds(tmp_path: Path) -> None:
    model = opened(tmp_path, chain(4, "1,100"))
    arena = Planner(model).index.owners
    assert [model.program.values[owner.value].name for owner in arena] == ["v1", "v2", "v3"]

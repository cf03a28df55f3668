"""Byte counts, bounds and match rules at their borders, where being off by one would go unnoticed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned_models import opened, planner_of, value_of

from vramscope.api import Planner, Scenario, make_plan, open_path
from vramscope.errors import ScenarioError, ShapeOverflowError
from vramscope.graph.dtypes import BYTES_LIMIT, ElementType
from vramscope.graph.expr import Interval, Symbol
from vramscope.graph.model import (
    Feed,
    KvForm,
    Minted,
    Value,
    ValueKind,
)
from vramscope.ops import table
from vramscope.ops.spec import Lifetime, WorkspaceQuery, WorkspaceRequirement
from vramscope.plan.arena import Owner, plan_arena
from vramscope.plan.bodies import body_key
from vramscope.plan.kv import plan_kv
from vramscope.plan.pool import BlockPool
from vramscope.plan.sizes import Resolver, symbol_ranges
from vramscope.plan.symbols import (
    Extents,
    PhaseBindings,
    decoder_bindings,
    feed_shape,
    kv_shape,
    mask_width,
    phase_extents,
    plain_bindings,
)
from vramscope.plan.types import BucketPolicy, Certainty, ComponentName, Exact, Phase
from vramscope.plan.verdict import largest_fit
from vramscope.plan.workspace import merge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vramscope.graph.expr import Shape
    from vramscope.graph.model import Model

STEP, PERSISTENT = Lifetime.STEP_SCOPED, Lifetime.SESSION_PERSISTENT
RELU = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"


@pytest.fixture
def llama(shared_models: Path) -> Model:
    return open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")


# ------------------------------------------------------------------------------------ scratch


def planned_scratch(
    monkeypatch: pytest.MonkeyPatch, operator: str, bytes_of: Callable[[WorkspaceQuery], int]
) -> None:
    """``operator`` asks for scratch here."""
    row = replace(
        table.TABLE["", operator],
        workspace=lambda query: WorkspaceRequirement(bytes_of(query), 1, STEP, "made up"),
    )
    monkeypatch.setattr(table, "TABLE", MappingProxyType({**table.TABLE, ("", operator): row}))


def test_a_scratch_of_one_byte_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    planned_scratch(monkeypatch, "Relu", lambda _: 1)
    plan = make_plan(opened(tmp_path, RELU), Scenario(extents={"N": 2}))
    assert plan.component(ComponentName.WORKSPACE).figure.bytes == 1
    assert plan.phases[0].nodes[0].workspace.bytes == 1


def test_scratch_in_a_body_counts_the_outputs_that_are_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planned_scratch(monkeypatch, "Split", lambda query: 1000 * query.outputs)
    text = """g (float[6] x, bool flag) => (float[2] y) {
      y = If (flag) <
        then_branch = t () => (float[2] p) { p, q, r = Split <num_outputs = 3> (x) },
        else_branch = e () => (float[2] s) { s, , u = Split <num_outputs = 3> (x) }
      >
    }"""
    plan = make_plan(opened(tmp_path, text), Scenario())
    assert plan.phases[0].workspace.bytes[STEP] == 3000
    fewer = text.replace("p, q, r", "p, , r")
    plan = make_plan(opened(tmp_path, fewer, name="fewer"), Scenario())
    assert plan.phases[0].workspace.bytes[STEP] == 2000


def test_an_alignment_of_one_is_one() -> None:
    merged = merge(
        [("a", WorkspaceRequirement(5, 1, STEP, "f")), ("b", WorkspaceRequirement(3, 4, STEP, "f"))]
    )
    assert (merged.bytes[STEP], merged.alignment[STEP], merged.blame[STEP]) == (5, 4, "a")
    assert (merged.bytes[PERSISTENT], merged.alignment[PERSISTENT], merged.blame[PERSISTENT]) == (0, 1, "")


# ------------------------------------------------------------------------------------ extents of a decoder


def test_the_extents_of_a_phase() -> None:
    scenario = Scenario(batch=3, prompt=9)
    assert phase_extents(Phase.PREFILL, scenario, 64) == Extents(3, 9, 0, 64)
    assert phase_extents(Phase.PREFILL, scenario, 5) == Extents(3, 5, 0, 5)
    assert phase_extents(Phase.DECODE, scenario, 64) == Extents(3, 1, 63, 64)


def value(shape: Shape | None) -> Value:
    return Value(0, "v", ElementType.FLOAT, shape, ValueKind.INPUT)


@pytest.mark.parametrize(
    ("axis", "shape", "expected"),
    [
        (2, (1, 2, 3, 4), (5, 7, 11, 13)),
        (1, (1, 2, 3, 4), (5, 11, 7, 13)),
        (-2, (1, 2, 3, 4), (5, 7, 11, 13)),
        (-3, (1, 2, 3, 4), (5, 11, 7, 13)),
        (2, None, (5, 7, 11, 13)),
        (-2, None, (5, 7, 11, 13)),
        (1, (1, 2, 3), (5, 11, 7 * 13)),
    ],
)
def test_the_shape_of_a_cache(
    llama: Model, axis: int, shape: Shape | None, expected: tuple[int, ...]
) -> None:
    assert llama.contract is not None
    pair = replace(llama.contract.kv[0], heads=7, head_size=13, sequence_axis=axis)
    assert kv_shape(pair, value(shape), 5, 11) == expected


def test_the_shapes_of_feeds(llama: Model) -> None:
    plain = llama.contract
    assert plain is not None
    packed = replace(plain, feeds={**plain.feeds, "table": Feed.BLOCK_TABLE})
    extents = Extents(3, 5, 7, 64)
    for feed in (Feed.TOKENS, Feed.POSITIONS):
        assert feed_shape(feed, value((1, 2)), extents, packed) == (3, 5)
        assert feed_shape(feed, value((1,)), extents, plain) == (5,)
        assert feed_shape(feed, value((1,)), extents, packed) == (15,)
        assert feed_shape(feed, value(()), extents, plain) == ()
        assert feed_shape(feed, value((Symbol("n"), 2, 3)), extents, plain) == (3, 5)
        assert feed_shape(feed, value((1, 2, 3, 4)), extents, plain) == (3, 5)
    assert feed_shape(Feed.POSITIONS, value((4, 2, 3)), extents, plain) == (4, 3, 5)
    assert feed_shape(Feed.TOKENS, value((4, 2, 3)), extents, plain) == (3, 5)
    for feed in (Feed.WRITE_INDICES, Feed.VALID_LENGTH):
        assert feed_shape(feed, value((1,)), extents, plain) == (3,)
    pool = replace(extents, pool=BlockPool(24, 16, 8), rows=11)
    assert feed_shape(Feed.BLOCK_TABLE, value((1, 2)), pool, packed) == (3, 8)
    assert feed_shape(Feed.SEQUENCE_STARTS, value((1,)), pool, packed) == (4,)
    assert feed_shape(Feed.PAST_LENGTHS, value((1,)), pool, packed) == (3,)
    assert feed_shape(Feed.LENGTH_BOUNDS, value((2,)), pool, packed) == (2,)
    assert feed_shape(Feed.LENGTH_BOUNDS, value((Symbol("n"),)), pool, packed) == (3,)
    assert feed_shape(Feed.TOKENS, value((1,)), pool, packed) == (11,)
    assert feed_shape(Feed.PAST_FLAG, value((9,)), extents, plain) == (1,)
    assert feed_shape(Feed.LOGITS_TO_KEEP, value(()), extents, plain) == ()


def test_a_mask_is_as_wide_as_the_cache_only_where_every_pair_is_frozen(llama: Model) -> None:
    contract = llama.contract
    assert contract is not None
    extents = Extents(1, 5, 7, 64)

    def width(**changes: object) -> int:
        return mask_width(replace(contract, **changes), extents)  # type: ignore[arg-type]  # fields by name

    first, second, *_ = contract.kv
    assert width() == 64
    assert width(pads_mask=False) == 12
    assert width(kv=()) == 12
    assert width(kv=(first, replace(second, form=KvForm.APPEND))) == 12
    assert width(kv=(first, replace(second, form=KvForm.MASKED))) == 64


def test_a_present_of_a_moving_cache_is_past_and_new_tokens(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "torchexp-tiny-llama")
    assert model.contract is not None
    bindings = decoder_bindings(model, Scenario(), Phase.PREFILL, Extents(1, 3, 5, 16))
    pair = model.contract.kv[0]
    assert pair.form.moving
    past, present = (value_of(model, name).id for name in (pair.input, pair.output))
    assert bindings.inputs[past][pair.sequence_axis] == 5
    assert bindings.outputs[present][pair.sequence_axis] == 8


def test_a_cache_that_cannot_be_shared_is_held_twice(llama: Model) -> None:
    contract = llama.contract
    assert contract is not None
    shared = plan_kv(llama, Scenario(batch=2), 32)
    apart = tuple(replace(pair, form=KvForm.GROW) for pair in contract.kv)
    doubled = plan_kv(replace(llama, contract=replace(contract, kv=apart)), Scenario(batch=2), 32)
    assert (doubled.bytes, doubled.bytes_per_token) == (2 * shared.bytes, shared.bytes_per_token)
    assert [row.bytes for row in doubled.rows] == [2 * row.bytes for row in shared.rows]


def test_a_static_extent_that_the_scenario_contradicts_is_refused(llama: Model) -> None:
    program = llama.program
    fixed = tuple(
        replace(item, shape=(1, *(item.shape or ())[1:])) if item.id in program.inputs else item
        for item in program.values
    )
    model = replace(llama, program=replace(program, values=fixed))
    with pytest.raises(ScenarioError, match="the graph fixes it to 1 and the scenario needs 2"):
        make_plan(model, Scenario(batch=2, context=32, prompt=8))
    assert make_plan(model, Scenario(batch=1, context=32, prompt=8)).kv.bytes > 0


# ------------------------------------------------------------------------------------ symbols


def ranges_of(
    bound: Mapping[str, int],
    declared: Mapping[str, Interval],
    growing: frozenset[str] = frozenset(),
    minted: Mapping[str, Minted] = MappingProxyType({}),
) -> Mapping[str, Interval]:
    sources = dict.fromkeys((*bound, *declared), "test")
    bindings = PhaseBindings(Phase.SINGLE, {}, {}, bound, sources, declared)
    return symbol_ranges(bindings, minted, growing).intervals


def test_a_growing_symbol_begins_at_nothing() -> None:
    growing = frozenset({"kv", "v"})
    assert ranges_of({"kv": 9}, {}, growing)["v"] == Interval(0, 9)
    assert ranges_of({"kv": 0}, {}, growing)["v"] == Interval(0, 0)
    assert ranges_of({"kv": 9}, {"v": Interval(0, None)}, growing)["v"] == Interval(0, 9)
    assert ranges_of({"kv": 0}, {"v": Interval(0, None)}, growing)["v"] == Interval(0, 0)


def chained(count: int) -> dict[str, Minted]:
    """``m0 ≤ m1 ≤ … ≤ n``."""
    names = [*(f"m{i}" for i in range(count)), "n"]
    return {name: Minted(name, "node", "Compress", Symbol(above)) for name, above in pairwise(names)}


@pytest.mark.parametrize(("count", "known"), [(15, True), (16, True), (17, False)])
def test_ceilings_are_followed_sixteen_deep(count: int, known: bool) -> None:
    found = ranges_of({"n": 5}, {}, minted=chained(count))
    assert ("m0" in found) == known
    assert found["m1"] == Interval(0, 5)


def resolver_of(model: Model, scenario: Scenario) -> Resolver:
    bindings = plain_bindings(model, scenario)
    index = Planner(model).index
    return Resolver(index, bindings, symbol_ranges(bindings, model.program.minted, frozenset()))


def test_an_extent_of_nothing_is_an_extent(tmp_path: Path) -> None:
    model = opened(tmp_path, RELU)
    resolver = resolver_of(model, Scenario(extents={"N": 0}))
    for name in ("x", "y"):
        found = value_of(model, name).id
        assert resolver.shape(found) == Exact((0, 4))
        assert resolver.size(found) == 0
    fixed = PhaseBindings(Phase.SINGLE, {model.program.inputs[0]: (0, 4)}, {}, {}, {}, {})
    caller = Resolver(Planner(model).index, fixed, symbol_ranges(fixed, {}, frozenset()))
    assert caller.shape(model.program.inputs[0]) == Exact((0, 4))
    plan = make_plan(model, Scenario(extents={"N": 0}))
    assert (plan.refusals, plan.total.bytes) == ((), 0)


def test_a_maximum_of_nothing_bounds_to_nothing(tmp_path: Path) -> None:
    text = RELU.replace("N", "K")
    plan = make_plan(opened(tmp_path, text), Scenario(maxima={"K": 0}))
    assert [row.figure.bytes for row in plan.bindings] == [0, 0]
    (bound,) = {item for shape in plan.phases[0].nodes[0].inputs for _, item in getattr(shape, "applied", ())}
    assert (bound.extent, bound.kind, bound.source) == (0, "ConfiguredMax", "declared maximum 0")


def test_what_is_too_large_names_the_node_that_gives_it_or_none(tmp_path: Path) -> None:
    read = "g (float[N,4] x) => (int64[2] y) { y = Shape(x) }"
    given = "g (float[N,4] x) => (int64[2] y) { h = Concat <axis = 0> (x, x) y = Shape(h) }"
    for text, extent, node in ((read, 2**60, ""), (given, 2**58, "Concat")):
        model = opened(tmp_path, text)
        with pytest.raises(ShapeOverflowError) as caught:
            make_plan(model, Scenario(extents={"N": extent}))
        assert caught.value.node.startswith(node)
        assert bool(caught.value.node) == bool(node)
    model = opened(tmp_path, read.replace("float[N,4]", "int8[N]").replace("int64[2]", "int64[1]"))
    plan = make_plan(model, Scenario(extents={"N": BYTES_LIMIT - 8}))
    assert plan.bindings[0].figure.bytes == BYTES_LIMIT - 8


# ------------------------------------------------------------------------------------ arena and bodies


def test_of_equal_peaks_the_first_is_named() -> None:
    plan = plan_arena([Owner(0, 0, 0), Owner(1, 2, 2), Owner(2, 4, 4)], {0: 8, 1: 8, 2: 4})
    assert (plan.live_peak, plan.peak_step) == (8, 0)


def test_nothing_is_taken_over_from_a_value_that_has_no_slot() -> None:
    plan = plan_arena(
        [Owner(1, 0, 3), Owner(2, 0, 3), Owner(3, 1, 2, reuses=(99,))], {1: 4, 2: 4, 3: 4, 99: 4}
    )
    assert len({item.slot for item in plan.placements.values()}) == 3


def test_the_key_of_a_region_is_no_value() -> None:
    keys = [body_key(step) for step in range(5)]
    assert len(set(keys)) == 5
    assert max(keys) < -1


def test_a_ceiling_in_either_branch_makes_the_arena_a_ceiling(tmp_path: Path) -> None:
    text = """g (float[4] x, float[K] k, bool flag) => (float[] y) {
      y = If (flag) <
        then_branch = t () => (float[] p) { %s p = ReduceSum <keepdims = 0> (a) },
        else_branch = e () => (float[] q) { %s q = ReduceSum <keepdims = 0> (b) }
      >
    }"""
    fixed, open_ = "{} = Relu(x)", "{} = Relu(k)"
    for number, (one, two) in enumerate([(fixed, open_), (open_, fixed), (fixed, fixed)]):
        graph = text % (one.format("a"), two.format("b"))
        plan = make_plan(opened(tmp_path, graph, name=f"m{number}"), Scenario(maxima={"K": 100}))
        figure = plan.component(ComponentName.ACTIVATIONS).figure
        assert figure.certainty is (Certainty.EXACT if one == two else Certainty.BOUND)


# ------------------------------------------------------------------------------------ limits


@given(
    st.integers(1, 30),
    st.integers(0, 30),
    st.lists(st.integers(0, 5), min_size=61, max_size=61),
    st.integers(0, 200),
)
def test_the_largest_fit_is_the_one_that_a_walk_finds(
    low: int, more: int, steps: list[int], available: int
) -> None:
    sizes = [int(item) for item in np.cumsum(steps)]
    high = low + more
    fitting = [n for n in range(low, high + 1) if sizes[n] <= available]
    assert largest_fit(lambda n: sizes[n], low, high, available) == (max(fitting) if fitting else None)


def test_budgets_and_counts_of_one_are_enough(llama: Model, tmp_path: Path) -> None:
    planner = Planner(llama)
    plan = planner.plan(Scenario(prompt=1, context=1, budget=1, bucket=BucketPolicy(1)))
    assert (plan.verdict.available, plan.verdict.largest_context, plan.verdict.largest_batch) == (
        1,
        None,
        None,
    )
    total = plan.total.known
    exactly = planner.plan(Scenario(prompt=1, context=1, budget=total)).verdict
    assert (exactly.headroom, exactly.largest_context, exactly.largest_batch) == (0, 1, 1)
    for budget in (0, -1):
        with pytest.raises(ScenarioError):
            planner.plan(Scenario(budget=budget))
        with pytest.raises(ScenarioError):
            planner.plan(Scenario(weight_budget=budget))
    with pytest.raises(ScenarioError, match="must stay"):
        planner.plan(Scenario(prompt=1, context=1, weight_budget=1))
    least_weights = plan.weights.bytes
    assert planner.plan(Scenario(prompt=1, context=1, weight_budget=least_weights)).weights.streaming is None
    assert planner.plan(Scenario(prompt=1, context=1, weight_budget=least_weights - 1)).weights.streaming
    text = "g (float[3,4] x) => (float[3,4] y) { y = Relu(x) }"
    verdict = planner_of(tmp_path, text).plan(Scenario(budget=2**20)).verdict
    assert (verdict.largest_batch, verdict.largest_context) == (None, None)


def test_the_largest_of_anything_is_allowed_and_one_more_is_not(llama: Model) -> None:
    with pytest.raises(ScenarioError, match="exceeds any device"):
        make_plan(llama, Scenario(batch=BYTES_LIMIT + 1))
    with pytest.raises(ShapeOverflowError):
        make_plan(llama, Scenario(batch=BYTES_LIMIT))


def test_the_total_alone_is_the_plans(llama: Model, tmp_path: Path) -> None:
    planner = Planner(llama)
    for scenario in (Scenario(batch=2, prompt=8, context=64), Scenario(prompt=8, context=64, runtime="cuda")):
        assert planner.total_bytes(scenario) == planner.plan(scenario).total.bytes
    plain = planner_of(tmp_path, RELU.replace("N", "K"))
    assert plain.total_bytes(Scenario()) is None
    assert (
        plain.total_bytes(Scenario(maxima={"K": 3}))
        == plain.plan(Scenario(maxima={"K": 3})).total.bytes
        == 96
    )

"""The verdict's words and limits, and what counts nothing, to the byte."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from made_plan import node_row, phase_plan
from planned_models import chain, opened, planner_of

from vramscope.api import Planner, Scenario, make_plan, open_path
from vramscope.errors import ScenarioError
from vramscope.ops.spec import Lifetime
from vramscope.plan.cards import SUGGESTIONS, _say, find_card, load_cards
from vramscope.plan.checks import check_scenario, idle_maxima
from vramscope.plan.extents import planned_scenario
from vramscope.plan.kv import NO_KV, Context, plan_kv
from vramscope.plan.planner import KEPT_SPECIALISATIONS, _some, available_bytes
from vramscope.plan.types import (
    CUDA_RUNTIME,
    OWN_RUNTIME,
    UNKNOWN,
    Component,
    ComponentName,
    Exact,
    Figure,
    KvPlan,
    Phase,
    PhasePlan,
    Refused,
    VerdictKind,
)
from vramscope.plan.verdict import Limits, blame_of, blame_words, judge, largest_fit, peak_node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RELU = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"
ROW = Exact((2, 3))


@pytest.fixture(scope="module")
def llama(shared_models: Path) -> Planner:
    return Planner(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))


def parts(**sizes: int) -> tuple[Component, ...]:
    """Every component; those named by their member have so many bytes, the others one."""
    return tuple(Component(name, Figure.exact(sizes.get(name.name, 1))) for name in ComponentName)


# ------------------------------------------------------------------------------------ blame


def phase_of(name: str, arena: int, scratch: int) -> PhasePlan:
    """A phase whose nodes are called ``name`` with its place behind it."""
    rows = tuple(node_row(step, f"{name}{step}" if step else "", Figure.exact(8), ROW) for step in range(3))
    made = phase_plan(Phase.SINGLE, rows)
    workspace = replace(
        made.workspace,
        bytes={Lifetime.STEP_SCOPED: scratch},
        blame={Lifetime.STEP_SCOPED: f"{name} scratch"},
    )
    return replace(made, arena=replace(made.arena, bytes=arena), workspace=workspace)


def test_the_largest_part_is_to_blame_or_the_node_behind_it() -> None:
    phases = (phase_of("a", 100, 9), phase_of("b", 300, 5), phase_of("c", 200, 7))
    assert blame_of(parts(ACTIVATIONS=2), phases, "out") == "node b1"
    assert blame_of(parts(WORKSPACE=2), phases, "out") == "node a scratch"
    assert blame_of(parts(WORKSPACE=2), phases[1:], "out") == "node c scratch"
    assert blame_of(parts(BINDINGS=2), phases, "out") == "node out"
    assert blame_of(parts(BINDINGS=2), phases) == "the inputs and outputs"
    assert blame_of(parts(WEIGHTS=2), phases, "out") == "the weights"
    assert blame_of(parts(KV_CACHE=3, WEIGHTS=2), phases, "out") == "the KV cache"


def test_the_peak_s_node_goes_by_its_operator_where_it_has_no_name() -> None:
    phase = phase_of("a", 1, 1)
    found = [peak_node(replace(phase, arena=replace(phase.arena, peak_step=step))) for step in (0, 1, 2, 3)]
    assert found == ["Gemm", "a1", "a2", ""]


def test_one_is_to_blame_and_several_are() -> None:
    assert [blame_words(item) for item in ("the weights", "the KV cache", "node adds")] == [
        "the weights are to blame",
        "the KV cache is to blame",
        "node adds is to blame",
    ]


def test_the_largest_output_is_blamed_on_its_node_and_an_input_on_none(tmp_path: Path) -> None:
    text = "g (float[8,4] x) => (float[1,4] y, float[1,4] z) { y = ReduceMax <axes = [0]> (x) z = Relu(y) }"
    old = '<ir_version: 8, opset_import: ["" : 17]>'
    small = Planner(opened(tmp_path, text, old)).plan(Scenario(budget=8)).verdict
    assert small.blame == "the inputs and outputs"
    wide = "g (float[1,4] x, float[8,1] k) => (float[8,4] y) { y = Add(x, k) }"
    model = opened(tmp_path, wide)
    named = make_plan(model, Scenario(budget=8)).verdict.blame
    assert named == f"node {model.program.steps[0].node.name}"


# ------------------------------------------------------------------------------------ sentences


def sentence(
    scenario: Scenario, total: Figure, available: int | None, limits: Limits, tokens: int = 0
) -> str:
    """The verdict's sentence, the weights being to blame."""
    context = Context(tokens, tokens, tokens, "") if tokens else None
    return judge(scenario, context, parts(WEIGHTS=9), total, available, limits, ()).sentence


@pytest.mark.parametrize(
    ("card", "budget", "where"),
    [("L4", None, " on L4"), ("L4", 2048, " in 2.00 KiB"), ("", 2048, " in 2.00 KiB"), ("", None, "")],
)
def test_where_it_fits_is_the_budget_before_the_card(card: str, budget: int | None, where: str) -> None:
    scenario = Scenario(batch=3, card=card, budget=budget)
    found = sentence(scenario, Figure.exact(100), 2048, Limits(), 1024)
    assert found == f"fits with 1.90 KiB to spare{where} at batch 3, context 1,024"
    assert sentence(scenario, Figure.exact(100), 100, Limits()) == f"fits with 0 B to spare{where} at batch 3"


@pytest.mark.parametrize(
    ("batch", "tokens", "limits", "words"),
    [
        (1, 64, Limits(2048, 5), "; the largest context that fits is 2,048"),
        (1, 64, Limits(None, None), "; no context fits"),
        (2, 64, Limits(None, None), "; no context fits at this batch"),
        (1, 64, Limits(None, 1), "; no context fits at this batch, the largest batch that fits is 1"),
        (2, 0, Limits(None, 1), "; the largest batch that fits is 1"),
        (2, 0, Limits(None, None), ""),
    ],
)
def test_what_is_short_says_what_would_fit(batch: int, tokens: int, limits: Limits, words: str) -> None:
    at = f" at batch {batch}" + (f", context {tokens}" if tokens else "")
    found = sentence(Scenario(batch=batch), Figure.exact(107), 100, limits, tokens)
    assert found == f"short by 7 B{at}{words}; the weights are to blame"


def test_without_a_card_what_is_needed_is_told() -> None:
    assert sentence(Scenario(), Figure.exact(107), None, Limits()) == (
        "needs 107 B at batch 1; choose a card to judge it"
    )


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (
            Refused("v", 0, "k", "node", "Relu", 1, "nothing bounds k"),
            "axis 0 (k) of v, input 1 of node, has no ceiling: nothing bounds k. Give k a maximum",
        ),
        (
            Refused("v", 2, "k", "", "", -1, "nothing bounds k"),
            "axis 2 (k) of v, an input of the graph, has no ceiling: nothing bounds k. Give k a maximum",
        ),
        (
            Refused("v", -1, "", "node", "Relu", -1, "it has no rank"),
            "the rank of v, an output of node, cannot be: it has no rank. "
            "Correct the shape that node is given",
        ),
    ],
)
def test_a_refusal_names_the_axis_and_the_place(refusal: Refused, words: str) -> None:
    phases = (phase_of("a", 1, 1), replace(phase_of("b", 1, 1), refusals=(refusal,)))
    verdict = judge(Scenario(), None, parts(), UNKNOWN, 100, Limits(), phases)
    assert (verdict.kind, verdict.headroom) == (VerdictKind.REFUSED, None)
    assert verdict.sentence == f"cannot be planned: {words}"


# ------------------------------------------------------------------------------------ the search


@pytest.mark.parametrize(
    ("total", "available", "found", "most"),
    [
        (lambda n: 7 * n + 100, 7 * 500 + 100, 500, 4),
        (lambda n: 7 * n + 100, 7 * 999 + 106, 999, 3),
        (lambda n: 7 * n + 100, 7 * 2 + 99, 1, 3),
        (lambda n: n * n, 300 * 300, 300, 16),
        (lambda n: n // 64 * 64, 500, 511, 13),
        (lambda n: None if n > 700 else n, 5000, 700, 18),
        (lambda n: 5 if n < 400 else 10**9, 5, 399, 30),
        (lambda n: 2 ** min(n, 60), 2**40, 40, 28),
    ],
)
def test_the_search_asks_for_few_totals(
    total: Callable[[int], int | None], available: int, found: int, most: int
) -> None:
    asked: list[int] = []

    def size(count: int) -> int | None:
        asked.append(count)
        return total(count)

    assert largest_fit(size, 1, 1000, available) == found
    assert len(asked) <= most
    assert all(1 <= count <= 1000 for count in asked)


def test_the_largest_batch_begins_at_one_and_ends_at_4096(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, RELU)
    for budget, batch in (
        (1, None),
        (31, None),
        (32, 1),
        (63, 1),
        (64, 2),
        (32 * 4096 - 1, 4095),
        (2**40, 4096),
    ):
        assert planner.plan(Scenario(batch=2, budget=budget)).verdict.largest_batch == batch
    fixed = planner_of(tmp_path, chain(1)).plan(Scenario(budget=2**40)).verdict
    assert (fixed.largest_batch, fixed.largest_context) == (None, None)


def test_the_largest_context_begins_at_the_prompt_and_ends_at_the_limit(llama: Planner) -> None:
    def largest(planner: Planner, budget: int) -> int | None:
        return planner.plan(Scenario(prompt=9, context=64, budget=budget)).verdict.largest_context

    totals = {n: llama.total_bytes(Scenario(prompt=9, context=n)) or 0 for n in (9, 10, 255, 256)}
    found = [largest(llama, totals[9] - 1), largest(llama, totals[9]), largest(llama, totals[10])]
    assert found == [None, 9, 10]
    assert [largest(llama, size) for size in (totals[256] - 1, totals[256], 2**40)] == [255, 256, 256]
    free = Planner(llama.model)
    contract = free.model.contract
    assert contract is not None
    free.model = replace(free.model, contract=replace(contract, context_limit=None))
    assert largest(free, 2**50) == 2**22


def test_what_is_available_is_the_budget_before_the_card(llama: Planner) -> None:
    memory = find_card("L4").memory_bytes
    cases = ((Scenario(card="L4"), memory), (Scenario(card="L4", budget=5), 5), (Scenario(), None))
    for scenario, available in (*cases, *cases):
        assert available_bytes(scenario) == available
        assert llama._available(scenario) == available


def test_a_plan_is_made_again_only_for_the_scratch_of_a_cuda_device(llama: Planner) -> None:
    own = llama.plan(Scenario(prompt=8, context=64))
    assert llama.suited(own, OWN_RUNTIME) is own
    cuda = llama.suited(own, CUDA_RUNTIME)
    assert (cuda.scenario.runtime, cuda.scenario.prompt) == (CUDA_RUNTIME, 8)
    assert llama.suited(cuda, CUDA_RUNTIME) is cuda
    assert llama.suited(cuda, OWN_RUNTIME) is cuda


def test_a_note_names_six_nodes_and_counts_the_others() -> None:
    assert [_some("abcdefgh"[:count]) for count in (1, 6, 7, 8)] == [
        "a",
        "a, b, c, d, e, f",
        "a, b, c, d, e, f and 1 more",
        "a, b, c, d, e, f and 2 more",
    ]


# ------------------------------------------------------------------------------------ what counts nothing


def test_what_is_no_decoder_has_a_cache_of_nothing(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, RELU)
    nothing = KvPlan(capacity=0, bytes_per_token=0, bytes=0, rows=(), transient=0, first=0)
    assert nothing == NO_KV
    plan = planner.plan(Scenario(batch=2))
    assert (plan.kv, plan.context, plan.total.bytes) == (nothing, 0, 64)
    assert planner.total_bytes(Scenario(batch=2)) == 64
    assert plan_kv(planner.model, Scenario(), 64) == nothing


def test_a_decoder_without_pairs_has_a_cache_of_nothing(llama: Planner) -> None:
    contract = llama.model.contract
    assert contract is not None
    bare = replace(llama.model, contract=replace(contract, kv=()))
    assert plan_kv(bare, Scenario(prompt=8), 64) == NO_KV


def test_a_refusal_names_six_cards_and_counts_the_others() -> None:
    cards = list(load_cards())
    names = [card.name for card in cards]
    assert SUGGESTIONS == 6
    assert _say([]) == "Name a card of the catalogue, or give a budget in bytes"
    assert _say(cards[:1]) == f"Choose one of: {names[0]}"
    assert _say(cards[:6]) == f"Choose one of: {', '.join(names[:6])}"
    assert _say(cards[:7]) == f"Choose one of: {', '.join(names[:6])} and 1 more"
    assert _say(cards[:9]) == f"Choose one of: {', '.join(names[:6])} and 3 more"


# ------------------------------------------------------------------------------------ numbers refused


def test_a_weight_budget_of_nothing_is_refused_and_of_one_byte_is_not_enough(llama: Planner) -> None:
    for budget in (0, -1):
        with pytest.raises(ScenarioError, match="it holds no weight"):
            check_scenario(Scenario(weight_budget=budget), ())
    check_scenario(Scenario(weight_budget=1), ())
    with pytest.raises(ScenarioError, match="must stay"):
        llama.plan(Scenario(weight_budget=1))


@pytest.mark.parametrize(
    ("symbols", "words"),
    [
        ("", "It has none: every extent is fixed"),
        ("abcdefgh", "It has a, b, c, d, e, f, g, h"),
        ("ihgfedcba", "It has a, b, c, d, e, f, g, h and 1 more"),
        ("abcdefghijk", "It has a, b, c, d, e, f, g, h and 3 more"),
    ],
)
def test_an_unknown_symbol_is_told_eight_others_and_how_many_more(symbols: str, words: str) -> None:
    for scenario in (Scenario(maxima={"zebra": 3}), Scenario(extents={"zebra": 3})):
        with pytest.raises(ScenarioError) as caught:
            check_scenario(scenario, tuple(symbols))
        assert caught.value.remedy == words
    with pytest.raises(ScenarioError) as caught:
        check_scenario(Scenario(maxima={"zebr": 3}), ("zebra", *"abcdefghij"))
    assert caught.value.remedy == "It has zebra"


def test_a_maximum_is_idle_where_every_phase_binds_its_symbol(llama: Planner) -> None:
    scenario = Scenario(prompt=8, context=64, maxima={"sequence_length": 9})
    prefill, decode = llama._bindings(scenario, llama._context(scenario))
    assert idle_maxima(llama.model, scenario, [prefill, decode]) == [
        "The maximum 9 of sequence_length changes nothing: input input_ids, axis 1 binds it to "
        "8 (prefill) and 1 (decode); --prompt-tokens sets it"
    ]
    free = replace(decode, symbols={"batch_size": 1})
    assert idle_maxima(llama.model, scenario, [prefill, free]) == []
    assert idle_maxima(llama.model, scenario, [free, prefill]) == []


# ------------------------------------------------------------------------------------ totals alone


def test_the_total_of_a_branch_counts_what_its_body_holds(tmp_path: Path) -> None:
    text = """g (float[256] x, bool flag) => (float[256] y) {
      y = If (flag) <
        then_branch = t () => (float[256] p) { a = Relu(x) b = Neg(a) c = Add(a, b) p = Relu(c) },
        else_branch = e () => (float[256] q) { q = Relu(x) }
      >
    }"""
    planner = planner_of(tmp_path, text)
    plan = planner.plan(Scenario())
    assert plan.component(ComponentName.ACTIVATIONS).figure.known >= 2 * 1024
    assert planner.total_bytes(Scenario()) == plan.total.bytes


BY_SHAPE = """g (float[K] x) => (float[M] y) <int64[1] four = {4}> {
  s = Shape(x) small = Equal(s, four)
  y = If (small) <
    then_branch = t () => (float[K] p) { a = Relu(x) b = Neg(a) p = Add(a, b) },
    else_branch = e () => (float[K] q) { q = Relu(x) }
  >
}"""
"""Which branch runs is decided by an extent."""


def test_where_shapes_decide_branches_the_total_is_that_of_the_branch_taken(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, BY_SHAPE)
    assert planner._branching
    for extent, total in ((4, 544), (5, 40), (100, 800)):
        scenario = Scenario(extents={"K": extent})
        plan = planner.plan(scenario)
        assert planner.total_bytes(scenario) == plan.total.bytes == total
        assert plan.specialised is not None
        assert planned_scenario(planner.model, plan).extents == {}
    asked = Scenario(maxima={"K": 9})
    assert planned_scenario(planner.model, planner.plan(asked)) is asked, "either branch is bounded"


def test_only_so_many_sets_of_extents_stay_planned(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, BY_SHAPE)
    for extent in range(1, KEPT_SPECIALISATIONS + 4):
        planner.plan(Scenario(extents={"K": extent}))
    assert KEPT_SPECIALISATIONS == 8
    assert [dict(key)["K"] for key in planner._specialised] == [4, 5, 6, 7, 8, 9, 10, 11]

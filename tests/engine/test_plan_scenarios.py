"""Numbers that cannot be planned are refused by name; maxima of bound symbols are told; runtimes differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from planned_models import chain, opened, planner_of

from vramscope.api import Planner, Scenario, make_plan, open_path, suggestions
from vramscope.errors import ScenarioError, ShapeOverflowError, SymbolConflictError
from vramscope.plan.suggest import headroom_after
from vramscope.plan.types import (
    REFERENCE_RUNTIME,
    BucketPolicy,
    Certainty,
    ComponentName,
    Phase,
    VerdictKind,
)
from vramscope.plan.verdict import largest_fit

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.plan.types import Plan


@pytest.fixture(scope="module")
def llama(shared_models: Path) -> Planner:
    """A tiny decoder whose limit is 256 tokens."""
    return Planner(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))


def plan(planner: Planner, **numbers: Any) -> Plan:  # noqa: ANN401 - fields of a Scenario
    """A plan with a short prompt and context unless told otherwise."""
    return planner.plan(Scenario(**{"prompt": 8, "context": 64, **numbers}))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"batch": 0}, "a batch of 0: it is below 1"),
        ({"batch": -3}, "a batch of -3"),
        ({"prompt": 0}, "a prompt of 0"),
        ({"prompt": -1}, "a prompt of -1"),
        ({"context": -1}, "a context of -1: it is negative"),
        ({"budget": 0}, "a budget of 0 bytes"),
        ({"budget": -5}, "a budget of -5 bytes"),
        ({"prompt": 65}, r"a prompt of 65 tokens: it does not fit a context of 64"),
        ({"bucket": BucketPolicy(minimum=0, growing=True)}, "a smallest KV bucket of 0"),
        ({"batch": 2**63}, "exceeds any device"),
        ({"runtime": "magic"}, "runtime 'magic'.*Choose vramscope.* or reference"),
        ({"card": "RTX 4900"}, r"card 'RTX 4900'.*RTX 4090"),
        ({"card": "Voodoo 2"}, "card 'Voodoo 2': not in the catalogue"),
        ({"maxima": {"sequence": 3}}, r"maximum of 'sequence'.*no such symbol.*sequence_length"),
        ({"maxima": {"zebra": 3}}, r"maximum of 'zebra'.*It has .*batch_size"),
        ({"maxima": {"batch_size": -1}}, "the maximum -1 of batch_size"),
        ({"maxima": {"batch_size": 2**70}}, "exceeds any device"),
        ({"batch": 4, "maxima": {"batch_size": 2}}, r"the maximum 2 of batch_size: input .* makes it 4"),
    ],
    ids=str,
)
def test_bad_numbers_are_refused_by_name(llama: Planner, numbers: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        plan(llama, **numbers)


def test_a_context_beyond_the_limit_names_its_source(llama: Planner) -> None:
    limit = llama.model.contract.context_limit if llama.model.contract else None
    assert limit is not None
    with pytest.raises(ScenarioError, match=f"{limit.value:,}") as caught:
        plan(llama, context=limit.value + 1)
    assert limit.source in str(caught.value)
    assert caught.value.remedy == f"Plan a context of at most {limit.value:,}"


def test_the_same_holds_for_models_that_are_no_decoders(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, chain(2))
    for scenario in (Scenario(batch=0), Scenario(prompt=-1), Scenario(budget=0)):
        with pytest.raises(ScenarioError, match=r"of (0|-1)"):
            planner.plan(scenario)
    with pytest.raises(ScenarioError, match="It has none: every extent is fixed"):
        planner.plan(Scenario(maxima={"x": 1}))


def test_a_maximum_of_a_bound_symbol_is_told_to_change_nothing(llama: Planner) -> None:
    with_maximum = plan(llama, maxima={"batch_size": 7})
    start = "The maximum 7 of batch_size changes nothing"
    told = [note for note in with_maximum.notes if note.startswith(start)]
    assert len(told) == 1
    assert "binds it to 1 (prefill) and 1 (decode); --batch sets it" in told[0]
    assert with_maximum.total == plan(llama).total


@pytest.mark.parametrize(
    ("symbol", "numbers", "option"),
    [
        ("batch_size", {"batch": 4}, "Declare at least 4, or lower --batch"),
        ("sequence_length", {"prompt": 9}, "Declare at least 9, or lower --prompt-tokens"),
        ("total_sequence_length", {}, "Declare at least 64, or lower --context"),
        ("past_sequence_length", {}, "Declare at least 64, or lower --context"),
    ],
)
def test_a_maximum_below_what_binds_the_symbol_names_the_option(
    llama: Planner, symbol: str, numbers: dict[str, int], option: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        plan(llama, maxima={symbol: 3}, **numbers)
    assert caught.value.remedy == option


def test_an_extent_of_a_bound_symbol_names_the_option(llama: Planner) -> None:
    with pytest.raises(SymbolConflictError) as caught:
        plan(llama, extents={"batch_size": 3})
    assert (caught.value.first, caught.value.second) == (1, 3)
    assert caught.value.remedy == "One symbol has one extent: set it with --batch"


def test_sizes_beyond_any_device_name_the_value(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, "g (float[rows,8] x) => (float[rows,8] y) { y = Relu(x) }")
    with pytest.raises(ShapeOverflowError, match=r"FLOAT\[4611686018427387904, 8\].*exceeds any device"):
        planner.plan(Scenario(maxima={"rows": 2**62}))


def test_an_unknown_node_has_no_kernel_and_is_told(tmp_path: Path) -> None:
    text = """g (float[2,4] x) => (float[2,4] y) { a = Relu(x) y = com.example.Mystery(a) }"""
    header = '<ir_version: 9, opset_import: ["" : 22, "com.example" : 1]>'
    planner = Planner(opened(tmp_path, text, header))
    made = planner.plan(Scenario())
    kernels = {row.operator: row.kernel for phase in made.phases for row in phase.nodes}
    assert kernels == {"Relu": "host", "Mystery": "none"}
    assert any("Mystery_0 (com.example::Mystery)" in note for note in made.notes)


def test_scratch_says_whose_it_is(llama: Planner) -> None:
    own = plan(llama, card="RTX 4090").component(ComponentName.WORKSPACE)
    reference = plan(llama, card="RTX 4090", runtime=REFERENCE_RUNTIME).component(ComponentName.WORKSPACE)
    assert "VRAMScope's host kernels" in own.detail
    assert "reference runtime's CUDA kernels" in reference.detail
    assert own.figure.certainty is Certainty.EXACT
    assert reference.figure.certainty is Certainty.BOUND
    assert (reference.figure.bytes or 0) >= 32 << 20


def test_the_largest_context_and_batch_fit_and_one_more_does_not(llama: Planner) -> None:
    budget = (plan(llama, context=100).total.bytes or 0) + 1
    verdict = plan(llama, context=200, budget=budget).verdict
    assert verdict.kind is VerdictKind.SHORT
    assert verdict.largest_context is not None
    assert (llama.total_bytes(Scenario(prompt=8, context=verdict.largest_context)) or 0) <= budget
    assert (llama.total_bytes(Scenario(prompt=8, context=verdict.largest_context + 1)) or 0) > budget
    wide = plan(llama, context=32, budget=4 * budget).verdict
    assert wide.largest_batch is not None
    assert (llama.total_bytes(Scenario(prompt=8, context=32, batch=wide.largest_batch)) or 0) <= 4 * budget
    assert (llama.total_bytes(Scenario(prompt=8, context=32, batch=wide.largest_batch + 1)) or 0) > 4 * budget


def test_a_plain_model_has_a_largest_batch(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, "g (float[batch,1024] x) => (float[batch,1024] y) { y = Relu(x) }")
    verdict = planner.plan(Scenario(batch=2, budget=10 * 2 * 4096 + 5)).verdict
    assert (verdict.kind, verdict.largest_batch, verdict.largest_context) == (VerdictKind.FITS, 10, None)


@pytest.mark.parametrize("edge", [0, 1, 2, 7, 999, 1000])
def test_the_largest_fit_is_found(edge: int) -> None:
    def total(count: int) -> int | None:
        return None if count > 900 else count * 10

    found = largest_fit(total, 1, 1000, edge * 10)
    assert found == (min(edge, 900) or None)


def test_every_suggestion_saves_what_it_says(llama: Planner) -> None:
    made = plan(llama, context=200, batch=4, budget=2**20)
    for item in suggestions(llama, made):
        fields = {name: (value,) if name == "as_if" else value for name, value in item.change.items()}
        again = plan(llama, **{"context": 200, "batch": 4, "budget": 2**20, **fields})
        assert (made.total.bytes or 0) - (again.total.bytes or 0) == item.saves
        assert headroom_after(made, item) == again.verdict.headroom
    fits = [(headroom_after(made, item) or 0) >= 0 for item in suggestions(llama, made)]
    assert fits == sorted(fits, reverse=True)
    assert False in fits, "some save bytes and still do not fit"
    unjudged = plan(llama, batch=4)
    assert {headroom_after(unjudged, item) for item in suggestions(llama, unjudged)} == {None}


def test_a_saving_of_next_to_nothing_is_not_suggested(llama: Planner) -> None:
    made = plan(llama, card="RTX 4090")
    assert 0 < made.weights.duplicate_bytes < (made.total.bytes or 0) // 1000
    assert "Store equal weights once" not in [item.title for item in suggestions(llama, made)]


def test_four_bits_save_what_a_4_bit_build_holds_less(shared_models: Path) -> None:
    wide = Planner(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))
    made = plan(wide)
    narrow = plan(Planner(open_path(shared_models / "tiny" / "tiny-llama-int4-cpu")))
    (found,) = [item for item in suggestions(wide, made) if "4-bit" in item.title]
    assert found.saves == made.total.known - narrow.total.known
    assert found.change == {"as_if": "int4"}


def test_where_nothing_fits_the_sentence_says_at_which_batch(llama: Planner) -> None:
    alone = plan(llama, budget=2**10).verdict
    assert alone.sentence.count("no context fits;") == 1
    several = plan(llama, budget=2**10, batch=4).verdict
    assert "no context fits at this batch;" in several.sentence
    least = plan(llama).total.bytes or 0
    fewer = plan(llama, budget=least, batch=64).verdict
    assert (fewer.largest_context, fewer.largest_batch) == (None, 1)
    assert "no context fits at this batch, the largest batch that fits is 1;" in fewer.sentence


def test_planning_is_pure(llama: Planner) -> None:
    first, second = plan(llama, card="RTX 4090"), plan(llama, card="RTX 4090")
    assert first == second
    assert make_plan(llama.model, first.scenario) == first
    assert [phase.phase for phase in first.phases] == [Phase.PREFILL, Phase.DECODE]

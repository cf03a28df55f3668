"""Every suggestion at its borders: when it is made, what it changes, and the bytes it saves, to the byte."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from planned_models import planner_of

from vramscope.api import Planner, Scenario, open_path, suggestions
from vramscope.plan.rewrites.table import REWRITES
from vramscope.plan.suggest import _is_worth_a_line, _other_exports, _scenario_changes, headroom_after
from vramscope.plan.types import REFERENCE_RUNTIME, Plan, Suggestion

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT, BATCH, PREFILL = "context", "batch", "prefill_chunk"


@pytest.fixture
def llama(shared_models: Path) -> Planner:
    """A tiny decoder, here without a limit of its own."""
    planner = Planner(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))
    contract = planner.model.contract
    assert contract is not None
    planner.model = replace(planner.model, contract=replace(contract, context_limit=None))
    return planner


def asked(planner: Planner, verdict: dict[str, Any] | None = None, **numbers: Any) -> Plan:  # noqa: ANN401 - fields of a Scenario
    """A plan whose verdict says what ``verdict`` says."""
    made = planner.plan(Scenario(**{"prompt": 8, "context": 64, **numbers}))
    return replace(made, verdict=replace(made.verdict, **(verdict or {})))


def changes(planner: Planner, plan: Plan) -> list[dict[str, int | str]]:
    """What the suggestions for the scenario change; each saves what a plan of it holds less."""
    made = list(_scenario_changes(planner, plan))
    for item in made:
        fields: dict[str, Any] = {"context": plan.context, **item.change}
        size = planner.total_bytes(replace(plan.scenario, **fields))
        assert item.saves == (0 if size is None else plan.total.known - size)
    return [dict(item.change) for item in made]


def saved(planner: Planner, plan: Plan) -> dict[str, int]:
    """What each other export of the model saves."""
    return {str(item.change["as_if"]): item.saves for item in _other_exports(planner, plan)}


# ------------------------------------------------------------------------------------ which, in what order


@pytest.mark.parametrize(
    ("saves", "total", "worth"),
    [
        (1, 1000, True),
        (1, 1001, False),
        (0, 0, False),
        (-1, 0, False),
        (2**20, 2**40, True),
        (2**20 - 1, 2**40, False),
    ],
)
def test_a_saving_of_a_thousandth_or_a_mebibyte_is_worth_a_line(saves: int, total: int, worth: bool) -> None:
    assert _is_worth_a_line(saves, total) is worth


def test_the_headroom_after_a_suggestion_is_todays_and_what_it_saves(llama: Planner) -> None:
    item = Suggestion("Do so", 7, {})
    found = [headroom_after(asked(llama, {"headroom": now}), item) for now in (-9, -7, 0, 5, None)]
    assert found == [-2, 0, 7, 12, None]


def test_the_largest_saving_comes_first_and_what_is_not_worth_a_line_is_left_out(llama: Planner) -> None:
    plan = asked(llama, batch=4)
    assert [(item.saves, dict(item.change)) for item in suggestions(llama, plan)] == [
        (218_752, {"as_if": "fp16"}),
        (204_544, {"as_if": "int4"}),
        (140_960, {"batch": 2}),
        (105_456, {"as_if": "kv4"}),
        (89_072, {"as_if": "kv8"}),
        (70_656, {"context": 32}),
        (57_336, {"as_if": "last-logits"}),
    ]
    plan = asked(llama, {"headroom": -100_000}, batch=4)
    found = [item.saves for item in suggestions(llama, plan) if "Stream" not in item.title]
    assert found == [item.saves for item in suggestions(llama, asked(llama, batch=4))]


def test_a_refused_plan_is_told_each_symbol_once(tmp_path: Path) -> None:
    text = "g (float[K,4] x, float[L,4] z) => (float[K,4] y, float[L,4] w) { y = Relu(x) w = Relu(z) }"
    planner = planner_of(tmp_path, text)
    found = suggestions(planner, planner.plan(Scenario()))
    assert [(item.title, item.saves, dict(item.change)) for item in found] == [
        ("Declare a maximum for K", 0, {"maxima": "K"}),
        ("Declare a maximum for L", 0, {"maxima": "L"}),
    ]


# ------------------------------------------------------------------------------------ the scenario


@pytest.mark.parametrize(
    ("prompt", "context", "largest", "found"),
    [
        (8, 64, None, [32]),
        (8, 65, 64, [64, 32]),
        (8, 64, 64, [32]),
        (8, 64, 65, [32]),
        (40, 64, None, [40]),
        (1, 3, None, [1]),
        (1, 2, None, [1]),
        (1, 1, None, []),
    ],
)
def test_the_context_is_lowered_to_what_fits_and_halved_down_to_the_prompt(
    llama: Planner, prompt: int, context: int, largest: int | None, found: list[int]
) -> None:
    plan = asked(llama, {"largest_context": largest}, prompt=prompt, context=context)
    assert changes(llama, plan) == [{CONTEXT: tokens} for tokens in found]


def test_what_is_no_decoder_has_no_context_to_halve(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    plan = planner.plan(Scenario(batch=2))
    assert changes(planner, plan) == [{BATCH: 1}]
    assert changes(planner, replace(plan, context=4)) == [{BATCH: 1}]
    assert set(saved(planner, plan).values()) == {0}


@pytest.mark.parametrize(
    ("batch", "largest", "found"),
    [(1, None, []), (2, None, [1]), (3, None, [1]), (7, None, [3]), (3, 2, [2]), (3, 3, [1]), (3, 4, [1])],
)
def test_the_batch_is_lowered_to_what_fits_or_halved(
    llama: Planner, batch: int, largest: int | None, found: list[int]
) -> None:
    plan = asked(llama, {"largest_batch": largest}, batch=batch)
    assert changes(llama, plan)[1:] == [{BATCH: count} for count in found]


@pytest.mark.parametrize(
    ("prompt", "chunk", "found"),
    [(256, 0, []), (257, 0, [256]), (600, 257, [256]), (600, 256, []), (60, 300, []), (100, 300, [256])],
)
def test_a_prompt_longer_than_256_tokens_is_put_in_passes(
    llama: Planner, prompt: int, chunk: int, found: list[int]
) -> None:
    plan = asked(llama, prompt=prompt, context=700, prefill_chunk=chunk)
    assert changes(llama, plan)[1:] == [{PREFILL: tokens} for tokens in found]


def test_weights_are_streamed_by_as_many_bytes_as_are_short(llama: Planner) -> None:
    weights = asked(llama).weights.bytes
    for headroom, room in (
        (None, None),
        (5, None),
        (0, None),
        (-1, weights - 1),
        (-1000, weights - 1000),
        (1 - weights, 1),
        (-weights, None),
        (-weights - 1, None),
    ):
        found = changes(llama, asked(llama, {"headroom": headroom}))[1:]
        assert found == ([] if room is None else [{"weight_budget": room}]), headroom
    assert len(changes(llama, asked(llama, {"headroom": -1000}, runtime=REFERENCE_RUNTIME))) == 1


# ------------------------------------------------------------------------------------ another export


def test_every_export_that_can_be_made_is_planned(llama: Planner) -> None:
    """Each saves what the plan of the model so exported holds less, whichever are assumed already."""
    for assumed in ((), ("last-logits",), ("int4", "kv8")):
        plan = asked(llama, batch=4, as_if=assumed)
        found = list(_other_exports(llama, plan))
        assert [item.change["as_if"] for item in found] == [
            rewrite.id for rewrite in REWRITES if rewrite.suggested and rewrite.id not in assumed
        ]
        for item in found:
            wanted = (*assumed, str(item.change["as_if"]))
            size = llama.total_bytes(replace(plan.scenario, as_if=wanted))
            assert item.saves == (0 if size is None else plan.total.known - size)


def test_what_each_export_saves(llama: Planner) -> None:
    plan = asked(llama, batch=4)
    assert (plan.kv.bytes, plan.weights.duplicate_bytes) == (131_072, 8)
    found = saved(llama, plan)
    assert found["last-logits"] == 4 * 7 * 512 * 4 - 8, "the index of the last row takes 8 bytes"
    assert found["kv8"] - found["kv4"] == 131_072 // 8 - 131_072 // 4
    assert (found["shared-kv"], found["unique-weights"]) == (0, 0), "refused: the constants differ in rank"


def test_other_exports_of_a_very_long_graph_are_not_looked_at(
    llama: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, steps = asked(llama, batch=4), len(llama.model.program.steps)
    monkeypatch.setattr("vramscope.plan.suggest.EXPLORED_STEPS", steps)
    assert list(_other_exports(llama, plan))
    monkeypatch.setattr("vramscope.plan.suggest.EXPLORED_STEPS", steps - 1)
    assert list(_other_exports(llama, plan)) == []


def test_an_export_says_how_it_is_made(llama: Planner) -> None:
    found = {item.change["as_if"]: item.how for item in _other_exports(llama, asked(llama))}
    assert found["last-logits"].endswith(
        "onnxruntime_genai.models.builder … --extra_options prune_lm_head=true"
    )
    assert all(found.values())


def test_of_what_is_no_decoder_only_weights_are_told(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    assert suggestions(planner, planner.plan(Scenario(extents={"N": 4}))) == ()

"""Every suggestion at its borders: when it is made, what it changes, and the bytes it saves, to the byte."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from planned_models import opened, planner_of

from vramscope.api import Planner, Scenario, make_plan, open_path, suggestions
from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import KvForm
from vramscope.plan.suggest import _is_worth_a_line, _model_changes, _scenario_changes, headroom_after
from vramscope.plan.types import REFERENCE_RUNTIME, BindingRow, Figure, KvRow, Plan, Suggestion

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
    """Bytes by the first words of each suggestion for the model."""
    return {" ".join(item.title.split()[:3]): item.saves for item in _model_changes(planner, plan)}


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
        (359_424, {}),
        (140_960, {"batch": 2}),
        (98_304, {}),
        (70_656, {"context": 32}),
        (57_344, {}),
    ]
    plan = asked(llama, {"headroom": -100_000}, batch=4)
    found = [item.saves for item in suggestions(llama, plan) if "Stream" not in item.title]
    assert found == [359_424, 140_960, 98_304, 70_656, 57_344]


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
    assert saved(planner, plan) == {"Use 4-bit weights": 0}


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


# ------------------------------------------------------------------------------------ the model


def test_what_each_change_of_the_model_saves(llama: Planner) -> None:
    plan = asked(llama, batch=4)
    assert (plan.kv.bytes, plan.weights.duplicate_bytes) == (131_072, 8)
    assert saved(llama, plan) == {
        "Store equal weights": 8,
        "Use 4-bit weights": 359_424,
        "Keep the KV": 131_072 - 32_768,
        "Keep only the": 4 * 7 * 512 * 4,
    }
    other = replace(plan, specialised=llama.model, weights=replace(plan.weights, duplicate_bytes=0))
    assert set(saved(llama, other)) == {"Keep the KV", "Keep only the"}


def test_a_cache_held_twice_would_be_held_once(llama: Planner) -> None:
    plan = asked(llama)
    forms = [(KvForm.GROW, 100), (KvForm.APPEND, 30), (KvForm.GROW, 14)]
    rows = tuple(KvRow(0, "key", "p", "q", (1,), size, form.value, "", shared=False) for form, size in forms)
    assert saved(llama, replace(plan, kv=replace(plan.kv, rows=rows)))["Share past and"] == 57
    assert "Share past and" not in saved(llama, replace(plan, kv=replace(plan.kv, rows=rows[1:2])))


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ((ElementType.FLOAT,), 751),
        ((ElementType.FLOAT16,), 501),
        ((ElementType.FLOAT16, ElementType.FLOAT), 751),
        ((ElementType.INT8,), None),
        ((ElementType.INT8, ElementType.BFLOAT16), 501),
        ((), None),
    ],
)
def test_a_cache_in_8_bits_is_told_of_the_widest(
    llama: Planner, types: tuple[ElementType, ...], found: int | None
) -> None:
    plan = asked(llama)
    contract = llama.model.contract
    assert contract is not None
    pairs = tuple(replace(contract.kv[0], dtype=dtype) for dtype in types)
    llama.model = replace(llama.model, contract=replace(contract, kv=pairs))
    assert saved(llama, replace(plan, kv=replace(plan.kv, bytes=1001))).get("Keep the KV") == found


@pytest.mark.parametrize(
    ("shape", "found"),
    [((1, 8, 100), 2801), ((3, 2, 100), 1601), ((3, 1, 100), None), ((8, 100), None), ((), None)],
)
def test_only_the_last_position_s_logits_are_needed(
    llama: Planner, shape: tuple[int, ...], found: int | None
) -> None:
    contract = llama.model.contract
    assert contract is not None
    row = BindingRow(contract.logits, "output", shape, Figure.exact(3201))
    plan = replace(asked(llama), bindings=(replace(row, name="x", shape=(1, 9, 9)), row))
    assert saved(llama, plan).get("Keep only the") == found
    if found:
        title = f"Keep only the last position's logits (of {shape[1]}), now 3.13 KiB"
        assert title in [item.title for item in _model_changes(llama, plan)]
    assert "Keep only the" not in saved(llama, replace(plan, bindings=plan.bindings[:1]))


def test_a_model_planned_at_its_extents_is_not_told_of_4_bits(tmp_path: Path) -> None:
    model = opened(tmp_path, "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    plan = replace(make_plan(model, Scenario()), specialised=model)
    assert list(_model_changes(Planner(model), plan)) == []

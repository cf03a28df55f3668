"""Rows are made by pure functions from messages and state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from vramscope.messages.live import EMPTY_SNAPSHOT, BlocksInfo
from vramscope.messages.planning import DEVICE_CONTEXT, BytesFigure, ScenarioInfo
from vramscope.messages.running import OutputInfo, RunModelInfo
from vramscope.protocol import ErrorInfo
from vramscope_app.rows.axes import axis_bars, axis_rows, ticks
from vramscope_app.rows.bar import legend, measured_bar, plan_bar
from vramscope_app.rows.live import LiveSeries, kv_fill, shares
from vramscope_app.rows.run import (
    blocks_words,
    capture_text,
    position_words,
    rates_text,
    run_summary,
    state_chip,
    verify_text,
)
from vramscope_app.rows.scenario import (
    SLIDER_STEPS,
    apply_change,
    choose_card,
    chosen_card,
    context_limit,
    context_to_slider,
    slider_to_context,
    target,
    wished,
)
from vramscope_app.rows.series import Series
from vramscope_app.rows.tables import decline_rows, output_rows, problem_rows
from vramscope_app.rows.verdict import death_message, verdict_message, verdict_sentence
from vramscope_app.state import AppState

if TYPE_CHECKING:
    from types import ModuleType


def test_refused_axes_stand_first_and_say_why(messages: ModuleType) -> None:
    rows = axis_rows(messages.plan(refused=True))
    assert [row.key for row in rows] == ["boxes", "total"]
    assert [cell.text for cell in rows[0].cells[2:8]] == [
        "none",
        "–",
        "–",
        "refused",
        "",
        "nothing bounds NonZero",
    ]
    assert rows[0].cells[2].edit == ""
    assert rows[1].cells[2].edit == "2048"
    assert "past ≤ 2047" in rows[1].detail
    assert "Declare a maximum for boxes to settle it" in rows[0].detail


def test_an_axis_that_the_scenario_fixes_cannot_be_edited(messages: ModuleType) -> None:
    fixed = msgspec.structs.replace(messages.axis("batch"), editable=False)
    assert axis_rows(msgspec.structs.replace(messages.plan(), axes=[fixed]))[0].cells[2].edit is None


def test_what_grows_says_what_is_in_use_and_what_is_reserved_ahead(messages: ModuleType) -> None:
    grows = msgspec.structs.replace(messages.axis("past"), grows=True)
    made = msgspec.structs.replace(messages.plan(), axes=[grows, messages.axis("other")])
    assert [row.cells[3].text for row in axis_rows(made)] == ["–", "–"]
    first, second = axis_rows(made, 48)
    assert [cell.text for cell in first.cells[3:5]] == ["48", "7.81 MiB"]
    assert first.cells[4].tip == f"{(2048 - 48) * 4096:,} bytes"
    assert [cell.text for cell in second.cells[3:5]] == ["–", "–"]


def test_axis_bars_share_a_scale_and_a_refused_one_has_no_end(messages: ModuleType) -> None:
    grows = msgspec.structs.replace(messages.axis("past"), grows=True, low=0)
    short = msgspec.structs.replace(messages.axis("short"), high=63)
    refused = messages.axis("boxes", refused="nothing bounds it")
    made = msgspec.structs.replace(messages.plan(), axes=[grows, short, refused])
    boxes, past, brief = axis_bars(made, 48)
    assert (boxes.refused, boxes.end, boxes.current) == (True, 1.0, None)
    assert "no ceiling" in boxes.tip
    assert (past.start, past.end) == (0.0, 1.0)
    assert past.current is not None
    assert 0.4 < past.current < past.end
    assert "48 in use now" in past.tip
    assert brief.end == pytest.approx(6 / 11, abs=0.01)
    marks = ticks(made)
    assert [text for _, text in marks] == ["1", "16", "256"]
    assert [place for place, _ in marks] == sorted(place for place, _ in marks)


def test_problems_come_failures_first_then_by_severity(messages: ModuleType) -> None:
    failure = ("prefill", ErrorInfo(code="Input", what="the prompt", why="it is empty", node="n"))
    rows = problem_rows(messages.model(), messages.plan(), [failure])
    assert [row.cells[1].text for row in rows] == [
        "prefill: the prompt: it is empty",
        "axis 1 of boxes has no ceiling",
        "a note",
    ]
    assert rows[1].node == "/model/layers.1/mlp/MatMul"
    assert len({row.key for row in rows}) == len(rows)


def test_without_a_plan_the_models_own_problems_are_shown(messages: ModuleType) -> None:
    assert [row.cells[1].text for row in problem_rows(messages.model(), None, [])] == [
        "an unused initializer"
    ]


def test_declines_keep_reason_and_node(messages: ModuleType) -> None:
    (row,) = decline_rows(messages.capture(declined=True).declines)
    assert row.node == "/model/layers.0/attn/GQA"
    assert row.cells[1].text == "the host reads its output"
    assert "2 segments, 1 eager seam" in capture_text(messages.capture(declined=True))
    assert capture_text(messages.capture()) == "✓ Captured 6 of 6 nodes: 1 segment, no device graph"
    drawn = messages.capture(dots=["digraph dot {}"])
    assert capture_text(drawn) == "✓ Captured 6 of 6 nodes: 1 segment, 40 device nodes"


def test_outputs_without_an_order_have_dashes() -> None:
    output = OutputInfo(name="y", dtype="bool", shape=[], minimum=None, maximum=None, mean=None)
    (row,) = output_rows(RunModelInfo(outputs=[output], milliseconds=1.0))
    assert [cell.text for cell in row.cells] == ["y", "bool scalar", "–"]
    given = OutputInfo(name="y", dtype="float32", shape=[2, 3], minimum=-1.0, maximum=2.5, mean=0.25)
    (row,) = output_rows(RunModelInfo(outputs=[given], milliseconds=1.0))
    assert [cell.text for cell in row.cells] == ["y", "float32 2×3", "-1 to 2.5, 0.25"]


def test_the_bar_never_shows_unknown_as_a_width(messages: ModuleType) -> None:
    bar = plan_bar(messages.plan())
    unknown = [block for block in bar.blocks if not block.known]
    assert [block.name for block in unknown] == ["device context"]
    assert unknown[0].width == 0.0
    assert bar.card == 1.0
    assert sum(block.width for block in bar.blocks) < 1.0


def test_the_card_ends_inside_the_bar_when_it_is_too_small(messages: ModuleType) -> None:
    made = messages.plan()
    small = msgspec.structs.replace(
        made, verdict=msgspec.structs.replace(made.verdict, available=messages.GIB)
    )
    bar = plan_bar(small)
    assert 0.2 < bar.card < 0.3
    assert sum(block.width for block in bar.blocks) == pytest.approx(1.0)


def test_measured_bytes_use_the_scale_of_the_plan(messages: ModuleType) -> None:
    measured = messages.snapshot().measured
    planned = plan_bar(messages.plan())
    assert measured_bar(measured, messages.plan()).blocks[0].width == planned.blocks[0].width
    assert measured_bar([], messages.plan()).blocks == ()
    entries = legend(messages.plan(), measured)
    assert [entry.measured for entry in entries] == ["3.00 GiB", "", "", "", "", ""]
    assert entries[-1].planned == "unknown"


@pytest.mark.parametrize("limit", [8, 256, 2048, 8192, 131072, 10_000_019])
def test_the_slider_reaches_both_ends_and_only_grows(limit: int) -> None:
    places = [slider_to_context(place, limit) for place in range(SLIDER_STEPS + 1)]
    assert places[0] == min(16, limit)
    assert places[-1] == limit
    assert places == sorted(places)
    for tokens in {places[0], places[500], places[-1]}:
        assert abs(slider_to_context(context_to_slider(tokens, limit), limit) - tokens) <= tokens * 0.05


def test_the_slider_stands_at_its_end_for_the_models_own_limit(messages: ModuleType) -> None:
    assert context_limit(messages.model()) == 8192
    assert context_to_slider(0, 8192) == SLIDER_STEPS


def test_a_card_is_chosen_by_name_label_or_amount(messages: ModuleType) -> None:
    cards, base = messages.hello().cards, ScenarioInfo()
    by_label = choose_card(base, "geforce rtx 4090 · 24.0 GiB", cards)
    assert by_label is not None
    assert by_label.card == "GeForce RTX 4090"
    budget = choose_card(by_label, "6 GiB", cards)
    assert budget is not None
    assert (budget.card, budget.budget) == ("", 6 * 2**30)
    assert chosen_card(budget, cards) == "6.00 GiB"
    assert choose_card(base, "no such card", cards).card == "no such card", "the engine says why not"
    assert choose_card(base, "3060", cards).card == "3060", "the engine knows short names: they are no bytes"
    assert target("3060") == {"budget": None, "card": "3060"}
    assert choose_card(base, "1,073,741,824", cards).budget == 2**30
    assert choose_card(base, "512k", cards).budget == 2**19
    by_ending = choose_card(base, "rtx 4060", cards)
    assert by_ending is not None
    assert by_ending.card == "GeForce RTX 4060"
    assert choose_card(by_label, "No card", cards) == base


def test_a_suggestion_changes_only_fields_that_a_scenario_has() -> None:
    assert apply_change(ScenarioInfo(), {"context": 512, "colour": "red"}) == ScenarioInfo(context=512)


def test_a_wished_context_takes_a_prompt_that_it_can_hold() -> None:
    made = wished(ScenarioInfo(prompt=64, context=2048), {"context": 32, "batch": 3})
    assert (made.context, made.prompt, made.batch) == (32, 16, 3)
    assert wished(ScenarioInfo(prompt=64), {}).prompt == 64


def test_the_verdict_is_words_icon_and_tone(messages: ModuleType) -> None:
    message = verdict_message(AppState(model=messages.model(), plan=messages.plan()))
    assert (message.tone, message.icon) == ("good", "fits")
    assert "≤ 4.00 GiB of 8.00 GiB" in message.body
    assert message.body.endswith("largest context 65,536 · largest batch 8 · largest part: weights")
    assert verdict_message(AppState()).title == "No model is open"


@pytest.mark.parametrize(
    ("context", "batch", "largest", "rest"),
    [
        (100, 1, "; the largest context that fits is 100; ", " · largest batch 1"),
        (None, 4, "; no context fits at this batch, the largest batch that fits is 4; ", ""),
        (None, None, "; no context fits; ", ""),
    ],
)
def test_a_short_verdict_says_each_thing_once(
    messages: ModuleType, context: int | None, batch: int | None, largest: str, rest: str
) -> None:
    made = messages.plan()
    numbers = {"headroom": -(2**30), "available": 3 * 2**30, "blame": "the weights"}
    verdict = msgspec.structs.replace(
        made.verdict, kind="does not fit", largest_context=context, largest_batch=batch, **numbers
    )
    short = msgspec.structs.replace(made, verdict=verdict)
    message = verdict_message(AppState(model=messages.model(), plan=short))
    assert largest + "the weights are to blame" in message.title
    assert message.body == f"≤ 4.00 GiB needed, 3.00 GiB available{rest}"


def test_a_bounded_device_context_stays_out_of_what_is_needed(messages: ModuleType) -> None:
    plan = messages.plan()
    verdict = msgspec.structs.replace(plan.verdict, kind="no card or budget given", headroom=None)
    unbounded = msgspec.structs.replace(plan, verdict=verdict)
    *parts, context = plan.components
    assert context.name == DEVICE_CONTEXT
    figure = messages.bound(600 * messages.MIB)
    parts.append(msgspec.structs.replace(context, figure=figure))
    bounded = msgspec.structs.replace(unbounded, components=parts)
    assert verdict_sentence(bounded) == verdict_sentence(unbounded)
    assert "3.86 GiB" in verdict_sentence(bounded)


def test_a_model_without_a_cache_shows_none(messages: ModuleType) -> None:
    made, measured = messages.plan(), messages.components()
    none = [
        msgspec.structs.replace(item, figure=BytesFigure(bytes=0, certainty="exact"))
        if item.name == "KV cache"
        else item
        for item in made.components
    ]
    plain = msgspec.structs.replace(made, components=none)
    assert "KV cache" in [item.name for item in legend(made, none)], "a decoder's cache before its first run"
    assert "KV cache" not in [item.name for item in legend(plain, none)]
    assert "KV cache" not in [item.name for item in plan_bar(plain).blocks]
    assert [item.planned for item in legend(plain, measured) if item.name == "KV cache"] == ["–"]


def test_no_death_is_no_message() -> None:
    assert death_message(AppState()).title == ""


def test_run_words(messages: ModuleType) -> None:
    state = AppState(run=messages.run(), live=messages.snapshot())
    assert state_chip(state) == ("● ready", "good")
    assert "×" not in rates_text(state), "20 steps in a fraction of a second say nothing"
    long = msgspec.structs.replace(messages.snapshot(), steps_eager=20, steps_replayed=16)
    assert "×1.50" in rates_text(AppState(run=messages.run(), live=long))
    full = AppState(run=messages.run(finished="context full"))
    assert state_chip(full)[0] == "● finished"
    assert run_summary(full).startswith("■ Stopped: context full – all 256 tokens")
    ended = run_summary(AppState(run=messages.run(finished="no free KV block")))
    assert ended.startswith("■ Stopped: no free KV block – no block of the KV cache is free")
    assert "the model chose to end" in run_summary(AppState(run=messages.run(finished="end of sequence")))
    assert verify_text(messages.verify()).startswith("✓ Replay equals eager over 8 steps")
    different = msgspec.structs.replace(messages.verify(), equal=False, first_difference=3)
    assert verify_text(different).startswith("✗ Replay differs from eager at step 3")


def test_a_series_keeps_its_newest_points() -> None:
    series = Series(2, capacity=10)
    for place in range(95):
        series.append(place, -place)
    assert series.column(0).tolist() == list(range(85, 95))
    assert series.last().tolist() == [94, -94]


def test_steps_get_their_allocations_from_the_ledger(messages: ModuleType) -> None:
    live = LiveSeries()
    live.add_token(messages.token(0))
    assert len(live.steps) == 0
    live.add_snapshot(messages.snapshot(30, allocated=123, allocations=20))
    for step in range(1, 4):
        live.add_token(messages.token(step, replayed=step > 1))
    live.add_snapshot(messages.snapshot(60, allocated=123))
    assert live.steps.column(1).tolist() == [20, 0, 0, 0]
    assert live.steps.column(3).tolist() == [0, 0, 1, 1]
    assert live.time.column(0).tolist() == [0, 1]
    assert live.time.last()[1:3].tolist() == [123, 20]
    live.clear()
    live.add_token(messages.token(0))
    live.add_snapshot(messages.snapshot(90))
    assert live.steps.column(1).tolist() == [0]


@pytest.mark.parametrize(
    ("made", "steps", "last", "counts"),
    [(0, 3, 0, [0, 0, 0]), (5, 1, 2, [5]), (5, 3, 2, [3, 0, 2]), (5, 0, 5, []), (1, 2, 4, [0, 1])],
)
def test_no_allocation_is_lost_between_two_snapshots(
    made: int, steps: int, last: int, counts: list[int]
) -> None:
    assert shares(made, steps, last) == counts


def test_a_paged_cache_tells_its_blocks() -> None:
    blocks = BlocksInfo(block_size=16, blocks=13, taken=5, held=80, used=70)
    assert position_words(0, 0, None) == "no prompt yet"
    assert position_words(70, 200, None) == "70 of 200 tokens"
    assert position_words(70, 200, blocks) == "70 of 200 tokens · 5 of 13 blocks"
    assert blocks_words(None) == ""
    assert blocks_words(blocks) == "5 blocks of 16 tokens are taken: 70 of 80 held tokens are used"
    snapshot = msgspec.structs.replace(EMPTY_SNAPSHOT, position=70, capacity=200)
    assert kv_fill(snapshot) == 35
    assert kv_fill(msgspec.structs.replace(snapshot, blocks=blocks)) == pytest.approx(100 * 5 / 13)

"""What would make it fit: changes to the scenario or the model, each planned to say what it saves."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import bit_width
from vramscope.graph.model import KvForm
from vramscope.plan.four_bits import four_bit_savings
from vramscope.plan.prefill import widest_pass
from vramscope.plan.types import OWN_RUNTIME, Plan, Scenario, Suggestion, VerdictKind
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.plan.planner import Planner

SMALL_SHARE, SMALL_BYTES = 1000, 2**20
"""A saving under one part in so many of the total, and under so many bytes, is not worth a line."""


SMALL_BLOCK = 16
"""Positions of a block of a paged cache that is suggested: the last one of a sequence wastes at most 15."""


def suggestions(planner: Planner, plan: Plan) -> tuple[Suggestion, ...]:
    """Changes that save bytes worth a line: those that make it fit first, then the largest saving.

    When an axis is refused: the symbols to declare a maximum for.
    """
    if plan.verdict.kind is VerdictKind.REFUSED:
        return _declare_maxima(plan)
    found = [*_scenario_changes(planner, plan), *_model_changes(planner, plan)]
    worth = [item for item in found if _is_worth_a_line(item.saves, plan.total.known)]
    return tuple(sorted(worth, key=lambda item: ((headroom_after(plan, item) or 0) < 0, -item.saves)))


def headroom_after(plan: Plan, item: Suggestion) -> int | None:
    """Bytes to spare after a suggestion (negative: still so many short); None without a card or budget."""
    now = plan.verdict.headroom
    return None if now is None else now + item.saves


def _is_worth_a_line(saves: int, total: int) -> bool:
    return saves > 0 and (saves >= SMALL_BYTES or saves * SMALL_SHARE >= total)


def _declare_maxima(plan: Plan) -> tuple[Suggestion, ...]:
    symbols = dict.fromkeys(refusal.symbol for refusal in plan.refusals if refusal.symbol)
    return tuple(
        Suggestion(f"Declare a maximum for {symbol}", 0, MappingProxyType({"maxima": symbol}))
        for symbol in symbols
    )


def _scenario_changes(planner: Planner, plan: Plan) -> Iterable[Suggestion]:
    scenario = replace(plan.scenario, context=plan.context)
    limit = plan.verdict.largest_context
    if limit is not None and limit < plan.context:
        yield _compare(
            planner, plan, replace(scenario, context=limit), f"Lower the context to {limit:,}", context=limit
        )
    if planner.model.contract is not None and plan.context > 1:
        half = max(plan.context // 2, scenario.prompt)
        yield _compare(
            planner, plan, replace(scenario, context=half), f"Halve the context to {half:,}", context=half
        )
    batch = plan.verdict.largest_batch
    if batch is not None and batch < scenario.batch:
        yield _compare(
            planner, plan, replace(scenario, batch=batch), f"Lower the batch to {batch}", batch=batch
        )
    elif scenario.batch > 1:
        less = scenario.batch // 2
        yield _compare(planner, plan, replace(scenario, batch=less), f"Halve the batch to {less}", batch=less)
    yield from _weight_budget(planner, plan, scenario)
    if plan.kv.pool.block_size > SMALL_BLOCK and not scenario.kv_blocks:
        title = f"Blocks of {SMALL_BLOCK} tokens instead of {plan.kv.pool.block_size:,}"
        other = replace(scenario, block_size=SMALL_BLOCK)
        yield _compare(planner, plan, other, title, block_size=SMALL_BLOCK)
    if widest_pass(scenario.prompt, scenario.prefill_chunk) > 256:
        title = "Prefill in passes of at most 256 tokens"
        yield _compare(planner, plan, replace(scenario, prefill_chunk=256), title, prefill_chunk=256)


def _weight_budget(planner: Planner, plan: Plan, scenario: Scenario) -> Iterable[Suggestion]:
    """Streaming as many weights as the plan is short of, where that works and the host device is meant."""
    short = -(plan.verdict.headroom or 0)
    room = plan.weights.bytes - short
    if short <= 0 or room <= 0 or scenario.runtime != OWN_RUNTIME:
        return
    other = replace(scenario, weight_budget=room)
    title = f"Stream weights from the file beyond {format_bytes(room)} (host device; slower)"
    yield _compare(planner, plan, other, title, weight_budget=room)


def _compare(planner: Planner, plan: Plan, other: Scenario, title: str, **change: int) -> Suggestion:
    """A change with what it saves: nothing where it cannot be planned."""
    size = planner.total_bytes(other)
    saves = 0 if size is None else plan.total.known - size
    return Suggestion(title, saves, MappingProxyType(dict(change)))


def _model_changes(planner: Planner, plan: Plan) -> Iterable[Suggestion]:
    nothing: MappingProxyType[str, int | str] = MappingProxyType({})
    contract = planner.model.contract
    if plan.weights.duplicate_bytes:
        yield Suggestion("Store equal weights once", plan.weights.duplicate_bytes, nothing)
    if plan.specialised is None:
        title = "Use 4-bit weights in matrix products (blocks of 32; an estimate)"
        yield Suggestion(title, four_bit_savings(planner.index), nothing)
    if contract is None:
        return
    unshared = sum(row.bytes // 2 for row in plan.kv.rows if row.form == KvForm.GROW.value)
    if unshared:
        yield Suggestion("Share past and present in one buffer", unshared, nothing)
    width = max((bit_width(pair.dtype) for pair in contract.kv), default=0)
    if width > 8:
        saved = plan.kv.bytes - plan.kv.bytes * 8 // width
        yield Suggestion(f"Keep the KV cache in 8 bits instead of {width}", saved, nothing)
    logits = next((row for row in plan.bindings if row.name == contract.logits), None)
    if logits is not None and len(logits.shape) == 3 and logits.shape[1] > 1:
        saved = logits.figure.known - logits.figure.known // logits.shape[1]
        now = format_bytes(logits.figure.known)
        title = f"Keep only the last position's logits (of {logits.shape[1]:,}), now {now}"
        yield Suggestion(title, saved, nothing)

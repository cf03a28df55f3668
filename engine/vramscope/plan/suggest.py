"""What would make it fit: other scenarios, other exports of the model, each planned to say what it saves."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.plan.prefill import widest_pass
from vramscope.plan.rewrites.table import REWRITES
from vramscope.plan.types import OWN_RUNTIME, Plan, Scenario, Suggestion, VerdictKind
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.plan.planner import Planner

SMALL_SHARE, SMALL_BYTES = 1000, 2**20
"""A saving under one part in so many of the total, and under so many bytes, is not worth a line."""


SMALL_BLOCK = 16
"""Positions of a block of a paged cache that is suggested: the last one of a sequence wastes at most 15."""

EXPLORED_STEPS = 20_000
"""Other exports are looked at in graphs of so many steps: each is a model of its own to index, once."""


def suggestions(planner: Planner, plan: Plan) -> tuple[Suggestion, ...]:
    """Changes that save bytes worth a line: those that make it fit first, then the largest saving.

    When an axis is refused: the symbols to declare a maximum for.
    """
    if plan.verdict.kind is VerdictKind.REFUSED:
        return _declare_maxima(plan)
    found = [*_scenario_changes(planner, plan), *_other_exports(planner, plan)]
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


def _compare(planner: Planner, plan: Plan, other: Scenario, title: str, **change: int | str) -> Suggestion:
    """A change with what it saves: nothing where it cannot be planned."""
    size = planner.total_bytes(other)
    saves = 0 if size is None else plan.total.known - size
    return Suggestion(title, saves, MappingProxyType(dict(change)))


def _other_exports(planner: Planner, plan: Plan) -> Iterable[Suggestion]:
    """Every rewrite of the model that can be made exactly, beside those that the plan assumes already.

    Nothing of a graph with more steps than :data:`EXPLORED_STEPS`; ``as_if`` plans that as well.
    """
    scenario = replace(plan.scenario, context=plan.context)
    explored = REWRITES if len(planner.model.program.steps) <= EXPLORED_STEPS else ()
    for rewrite in explored:
        if rewrite.suggested and rewrite.id not in scenario.as_if:
            other = replace(scenario, as_if=(*scenario.as_if, rewrite.id))
            found = _compare(planner, plan, other, rewrite.action, as_if=rewrite.id)
            yield replace(found, how=rewrite.how(planner.model.contract))

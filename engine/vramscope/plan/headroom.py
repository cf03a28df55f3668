"""How much room is left: the total at every context and batch of a grid, against what may be used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.graph.expr import Symbol
from vramscope.graph.specialise import input_symbols
from vramscope.plan.kv import DEFAULT_CONTEXT
from vramscope.plan.options import is_batch

if TYPE_CHECKING:
    from vramscope.plan.planner import Planner
    from vramscope.plan.types import Plan, Scenario

BATCHES = (1, 2, 4, 8)
"""Batches of the grid; the scenario's own joins them."""

SMALLEST_CONTEXT = 256
"""No context below is in the grid, unless the model's limit is."""


@dataclass(frozen=True, slots=True)
class HeadroomCell:
    """The total at one context (0: the model has none) and batch; None where it cannot be planned."""

    context: int
    batch: int
    bytes: int | None
    fits: bool | None
    """None where the bytes are unknown or nothing says what may be used."""


def headroom(planner: Planner, plan: Plan) -> tuple[HeadroomCell, ...]:
    """The grid around ``plan``, context by context and batch by batch, both rising.

    Contexts are the powers of two from 256 up to the model's limit, the limit and the plan's own.
    A prompt longer than a context is cut to it.
    """
    batches, contexts = _batches(planner, plan), _contexts(planner, plan)
    return tuple(_cell(planner, plan, context, batch) for context in contexts for batch in batches)


def _batches(planner: Planner, plan: Plan) -> list[int]:
    """The scenario's own alone where no input counts sequences."""
    symbols = input_symbols(planner.model.program)
    if planner.model.contract is None and not any(is_batch(Symbol(name)) for name in symbols):
        return [plan.scenario.batch]
    return sorted({*BATCHES, plan.scenario.batch})


def _contexts(planner: Planner, plan: Plan) -> list[int]:
    contract = planner.model.contract
    if contract is None:
        return [0]
    limit = contract.context_limit.value if contract.context_limit else max(plan.context, DEFAULT_CONTEXT)
    powers = {1 << bit for bit in range(limit.bit_length()) if SMALLEST_CONTEXT <= 1 << bit <= limit}
    return sorted(powers | {limit, plan.context})


def _cell(planner: Planner, plan: Plan, context: int, batch: int) -> HeadroomCell:
    scenario: Scenario = replace(plan.scenario, batch=batch)
    if context:
        scenario = replace(scenario, context=context, prompt=min(scenario.prompt, context))
    size, available = planner.total_bytes(scenario), plan.verdict.available
    fits = None if size is None or available is None else size <= available
    return HeadroomCell(context, batch, size, fits)

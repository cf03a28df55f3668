"""How much room is left over contexts and batches: totals, components, and where each stops fitting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.errors import InputError, ScenarioError
from vramscope.graph.expr import Symbol
from vramscope.graph.specialise import input_symbols
from vramscope.plan.kv import DEFAULT_CONTEXT
from vramscope.plan.options import is_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope.plan.planner import Planner
    from vramscope.plan.types import Component, Plan, Scenario

BATCHES = (1, 2, 4, 8)
"""Batches of the grid; the scenario's own joins them."""

SMALLEST_CONTEXT = 256
"""No context below is in the grid, unless the model's limit is."""

OPEN_CONTEXT = 131_072
"""Where an even range ends for a model that states no limit."""


@dataclass(frozen=True, slots=True)
class Line:
    """One batch: its total bytes at each context (None: not plannable)."""

    batch: int
    totals: tuple[int | None, ...]
    largest: tuple[int | None, ...]
    """Per amount that was asked about the largest context that fits it; None when none does."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """Components at each context for the scenario's own batch, and a line for every batch asked for."""

    contexts: tuple[int, ...]
    """Tokens; 0 where the model has no context."""
    components: tuple[tuple[Component, ...], ...]
    """Per context the components of its plan; empty where it cannot be planned or nobody asked."""
    lines: tuple[Line, ...]


def grid(planner: Planner, plan: Plan) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Contexts and batches around ``plan``, both rising.

    Contexts are the powers of two from 256 up to the model's limit, the limit and the plan's own; 0 alone for
    a model without one. The scenario's batch is alone where no input counts sequences.
    """
    contract = planner.model.contract
    if contract is None:
        symbols = input_symbols(planner.model.program)
        counts = any(is_batch(Symbol(name)) for name in symbols)
        return (0,), tuple(sorted({*(BATCHES if counts else ()), plan.scenario.batch}))
    limit = contract.context_limit.value if contract.context_limit else max(plan.context, DEFAULT_CONTEXT)
    powers = {1 << bit for bit in range(limit.bit_length()) if SMALLEST_CONTEXT <= 1 << bit <= limit}
    return tuple(sorted(powers | {limit, plan.context})), tuple(sorted({*BATCHES, plan.scenario.batch}))


def even_contexts(planner: Planner, scenario: Scenario, count: int) -> tuple[int, ...]:
    """``count`` contexts spread evenly from the prompt to the model's limit, and the scenario's own."""
    contract = planner.model.contract
    limit = contract.context_limit.value if contract and contract.context_limit else OPEN_CONTEXT
    low = min(scenario.prompt, limit)
    span = max(count - 1, 1)
    found = {low + (limit - low) * place // span for place in range(count)}
    own = {scenario.context} if low <= scenario.context <= limit else set()
    return tuple(sorted(found | own))


def _never() -> None:
    """Nobody asks to stop."""


def plan_headroom(
    planner: Planner,
    scenario: Scenario,
    contexts: Sequence[int],
    batches: Sequence[int],
    *,
    amounts: Sequence[int] = (),
    parts: bool = True,
    cancel: Callable[[], None] = _never,
) -> Headroom:
    """Plans every context at every batch.

    Args:
        planner: of the model.
        scenario: everything but context and batch; its batch is the one whose components are told. A prompt
            longer than a context is cut to it.
        contexts: tokens, ascending; 0 leaves the context as it is.
        batches: whose totals are wanted.
        amounts: bytes; the largest context that fits is looked for in each.
        parts: whether the components are wanted: they take a whole plan a context.
        cancel: asked before every plan.

    Raises:
        InputError: contexts of a model that is no decoder.
        CancelledError: the user asked to stop.
    """
    if planner.model.contract is None and any(contexts):
        raise InputError(str(planner.model.path.name), "it is no decoder: no context fills its memory")
    bare = replace(scenario, card="", budget=None)
    components = []
    for tokens in contexts if parts else ():
        cancel()
        components.append(_components(planner, _at(bare, tokens, scenario.batch)))
    lines = [_line(planner, bare, contexts, batch, amounts, cancel) for batch in batches]
    return Headroom(tuple(contexts), tuple(components), tuple(lines))


def _at(scenario: Scenario, tokens: int, batch: int) -> Scenario:
    made = replace(scenario, batch=batch)
    return replace(made, context=tokens, prompt=min(made.prompt, tokens)) if tokens else made


def _components(planner: Planner, scenario: Scenario) -> tuple[Component, ...]:
    try:
        return planner.plan(scenario).components
    except ScenarioError:
        return ()


def _line(
    planner: Planner,
    scenario: Scenario,
    contexts: Sequence[int],
    batch: int,
    amounts: Sequence[int],
    cancel: Callable[[], None],
) -> Line:
    totals: list[int | None] = []
    for tokens in contexts:
        cancel()
        totals.append(planner.total_bytes(_at(scenario, tokens, batch)))
    largest: list[int | None] = []
    for amount in amounts:
        cancel()
        largest.append(planner.largest_context(replace(scenario, batch=batch), amount))
    return Line(batch, tuple(totals), tuple(largest))

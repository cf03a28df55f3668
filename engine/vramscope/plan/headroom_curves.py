"""Headroom over contexts: what each component takes, and where each batch stops fitting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.errors import InputError, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope.plan.planner import Planner
    from vramscope.plan.types import Component, Scenario

OPEN_CONTEXT = 131_072
"""Where the range ends for a model that states no limit."""


@dataclass(frozen=True, slots=True)
class Line:
    """Total bytes of one batch at each context (None: not plannable), and its largest context that fits."""

    batch: int
    totals: tuple[int | None, ...]
    largest_context: int | None


@dataclass(frozen=True, slots=True)
class Headroom:
    """Components at each context for the scenario's own batch, and a line for every batch asked for."""

    contexts: tuple[int, ...]
    components: tuple[tuple[Component, ...], ...]
    """Per context the components of its plan; empty where it cannot be planned."""
    lines: tuple[Line, ...]


def _never() -> None:
    """Nobody asks to stop."""


def even_contexts(planner: Planner, scenario: Scenario, count: int) -> tuple[int, ...]:
    """``count`` contexts spread evenly from the prompt to the model's limit, and the scenario's own."""
    contract = planner.model.contract
    limit = contract.context_limit.value if contract and contract.context_limit else OPEN_CONTEXT
    low = min(scenario.prompt, limit)
    span = max(count - 1, 1)
    found = {low + (limit - low) * place // span for place in range(count)}
    own = {scenario.context} if low <= scenario.context <= limit else set()
    return tuple(sorted(found | own))


def plan_headroom(
    planner: Planner,
    scenario: Scenario,
    contexts: Sequence[int],
    batches: Sequence[int],
    cancel: Callable[[], None] = _never,
) -> Headroom:
    """Plans every context, and the totals of every batch beside.

    Args:
        planner: of a decoder.
        scenario: everything but the context; its batch is the one whose components are told.
        contexts: tokens, ascending.
        batches: whose totals are wanted.
        cancel: asked before every plan.

    Raises:
        InputError: the model is no decoder.
        CancelledError: the user asked to stop.
    """
    if planner.model.contract is None:
        raise InputError(str(planner.model.path.name), "it is no decoder: no context fills its memory")
    components = []
    for tokens in contexts:
        cancel()
        components.append(_components(planner, replace(scenario, context=tokens, card="", budget=None)))
    lines = [_line(planner, replace(scenario, batch=batch), contexts, cancel) for batch in batches]
    return Headroom(tuple(contexts), tuple(components), tuple(lines))


def _components(planner: Planner, scenario: Scenario) -> tuple[Component, ...]:
    try:
        return planner.plan(scenario).components
    except ScenarioError:
        return ()


def _line(planner: Planner, scenario: Scenario, contexts: Sequence[int], cancel: Callable[[], None]) -> Line:
    totals = []
    for tokens in contexts:
        cancel()
        totals.append(planner.total_bytes(replace(scenario, context=tokens)))
    cancel()
    return Line(scenario.batch, tuple(totals), _largest(planner, scenario))


def _largest(planner: Planner, scenario: Scenario) -> int | None:
    """The largest context that fits the card or budget; None without one, or when none fits."""
    try:
        return planner.plan(scenario).verdict.largest_context
    except ScenarioError:
        return None

"""Planning a model as if it were exported otherwise: planners of rewritten models, kept, and their plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.errors import ScenarioError
from vramscope.plan.rewrites.table import ordered, rewritten
from vramscope.plan.types import Assumption
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope.graph.model import Model
    from vramscope.plan.planner import Planner
    from vramscope.plan.rewrites.types import Rewrite
    from vramscope.plan.types import Plan, Scenario

KEPT = 16
"""So many rewritten models stay planned; the oldest goes first."""


@dataclass(frozen=True, slots=True)
class AssumedModel:
    """A rewritten model's planner, and what of the model stays as it was."""

    planner: Planner
    notes: tuple[str, ...]


class AssumedModels:
    """One model under every set of rewrites that was asked for."""

    def __init__(self, model: Model, make: Callable[[Model], Planner]) -> None:
        """``make``: a planner of a model."""
        self._model = model
        self._make = make
        self._kept: dict[tuple[str, ...], AssumedModel | ScenarioError] = {}

    def under(self, ids: Sequence[str]) -> AssumedModel:
        """The model with these rewrites, and its planner.

        Raises:
            ScenarioError: an unknown id, or a rewrite that cannot be made exactly.
        """
        rewrites = ordered(ids)
        key = tuple(rewrite.id for rewrite in rewrites)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._made(rewrites)
            if len(self._kept) > KEPT:
                self._kept.pop(next(iter(self._kept)))
        if isinstance(found, AssumedModel):
            return found
        raise found

    def _made(self, rewrites: Sequence[Rewrite]) -> AssumedModel | ScenarioError:
        try:
            made = rewritten(self._model, rewrites)
        except ScenarioError as error:
            return error
        return AssumedModel(self._make(made.model), made.notes)


def assumed_plan(planner: Planner, assumed: AssumedModel, scenario: Scenario) -> Plan:
    """The plan of the rewritten model, which says what it assumes and what the file as it is would take."""
    bare = replace(scenario, as_if=())
    plan = assumed.planner.plan(bare)
    contract = planner.model.contract
    assumes = tuple(
        Assumption(rewrite.id, rewrite.title, rewrite.how(contract)) for rewrite in ordered(scenario.as_if)
    )
    plain = planner.total_bytes(bare)
    return replace(
        plan,
        scenario=scenario,
        specialised=plan.specialised or assumed.planner.model,
        assumes=assumes,
        as_it_is=plain,
        notes=(*_larger(plan, plain), *assumed.notes, *plan.notes),
    )


def _larger(plan: Plan, plain: int | None) -> tuple[str, ...]:
    """That a rewrite costs bytes instead of saving them, where it does."""
    more = (plan.total.bytes or 0) - (plain or 0)
    if plain is None or more <= 0:
        return ()
    return (f"So exported it takes {format_bytes(more)} more than the file as it is",)

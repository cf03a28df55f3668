"""Planning a model that is no decoder at known extents, where shapes decide which branches run.

A branch that an extent chooses has no ceiling that a maximum could prove: a smaller input may take the other
branch. So such a model is planned for exactly the extents that are given, and the plan says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from vramscope.errors import ModelGraphError, ScenarioError
from vramscope.graph.expr import Symbol
from vramscope.graph.specialise import input_symbols, specialise
from vramscope.plan.axes import axis_rows
from vramscope.plan.options import is_batch
from vramscope.plan.sizes import symbol_ranges
from vramscope.plan.symbols import bind_symbols
from vramscope.plan.types import AxisRow, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vramscope.graph.model import Model, Program, Step
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.types import Plan, Scenario

Axes: TypeAlias = "tuple[AxisRow, ...]"


def exact_extents(program: Program, scenario: Scenario) -> Mapping[str, int] | None:
    """The extent of every input symbol by the scenario's extents and batch; None where one is open."""
    return _complete(program, scenario, {})


def largest_extents(program: Program, scenario: Scenario) -> Mapping[str, int] | None:
    """As :func:`exact_extents`, with a symbol's maximum where the scenario gives no extent."""
    return _complete(program, scenario, scenario.maxima)


def _complete(program: Program, scenario: Scenario, maxima: Mapping[str, int]) -> Mapping[str, int] | None:
    symbols = input_symbols(program)
    batches = {name: scenario.batch for name in symbols if is_batch(Symbol(name))}
    known = {**maxima, **batches, **scenario.extents}
    return {name: known[name] for name in sorted(symbols)} if symbols <= known.keys() else None


def inner_scenario(scenario: Scenario, model: Model, specialised: Model) -> Scenario:
    """The same question to the specialised model, whose inputs have no symbols."""
    maxima = {
        name: maximum
        for name, maximum in scenario.maxima.items()
        if name not in input_symbols(model.program) and name in specialised.program.minted
    }
    return replace(scenario, maxima=maxima, extents={})


def planned_scenario(model: Model, plan: Plan) -> Scenario:
    """The plan's scenario as its own model understands it: a specialised one has no input symbols left."""
    if plan.specialised is None:
        return plan.scenario
    return inner_scenario(plan.scenario, model, plan.specialised)


def model_at(model: Model, extents: Mapping[str, int]) -> Model:
    """``model`` specialised to these extents.

    Raises:
        ScenarioError: the graph cannot compute inputs of these extents.
    """
    try:
        return specialise(model, extents)
    except ModelGraphError as error:
        where = ", ".join(f"{name} = {extent:,}" for name, extent in extents.items())
        raise ScenarioError(
            f"the extents {where}",
            f"{error.what} cannot compute them: {error.why}",
            "Give the extents that the model was made for",
            error.node,
        ) from error


def extents_notes(scenario: Scenario, extents: Mapping[str, int]) -> Iterator[str]:
    """That the plan holds for these extents alone, where there are any."""
    if not extents:
        return
    where = ", ".join(f"{name} = {extent:,}" for name, extent in extents.items())
    maxima = [name for name in extents if name in scenario.maxima and name not in scenario.extents]
    taken = f" (the maxima of {', '.join(maxima)} are taken as extents)" if maxima else ""
    yield f"Which branches run depends on shapes: planned for exactly {where}{taken}"


def missing_note(program: Program, scenario: Scenario) -> str:
    """What a plan needs that was refused although shapes decide branches: the extents that are not given."""
    known = {*scenario.maxima, *scenario.extents}
    symbols = sorted(name for name in input_symbols(program) - known if not is_batch(Symbol(name)))
    which = ", ".join(symbols)
    return f"Which branches run, and so which shapes follow, depends on extents that are open: give {which}"


def input_axes(index: PlanningIndex, model: Model, scenario: Scenario, extents: Mapping[str, int]) -> Axes:
    """The rows of the input symbols, each at its extent."""
    given = replace(scenario, maxima={}, extents=extents)
    bindings = bind_symbols(model, given, Phase.SINGLE, {}, {})
    ranges = symbol_ranges(bindings, {}, frozenset())
    rows = axis_rows(index, [(bindings, ranges)], model.program.minted)
    return tuple(row for row in rows if row.symbol in extents)


def branch_notes(program: Program) -> Iterator[str]:
    """A sentence for each If of the main graph whose condition is data."""
    for step in program.steps[program.constant_steps :]:
        if step.node.operator == "If" and step.bodies:
            yield _branch_note(program, step)


def _branch_note(program: Program, step: Step) -> str:
    condition = program.values[step.inputs[0]].name
    if len(step.bodies) == 1:
        only = next(iter(step.bodies))
        return f"{step.node.name} is planned with its {only} alone, for the other cannot run on these extents"
    taken = f"which branch of {step.node.name} is taken"
    return f"{condition!r} decides while it runs {taken}: the larger is planned"

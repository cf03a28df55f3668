"""The planner: one pure call from a model and a scenario to the whole plan.

:class:`Planner` keeps what no scenario changes (the index of lifetimes and shape classes), so that a
re-plan is arithmetic over a few dozen shape classes and one walk over the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.errors import ScenarioError, ShapeOverflowError, UnboundedAxisError
from vramscope.graph.growing import growing_symbols
from vramscope.graph.specialise import depends_on_shapes
from vramscope.plan.arena import arena_bytes
from vramscope.plan.assuming import AssumedModels, assumed_plan
from vramscope.plan.axes import axis_rows
from vramscope.plan.binding_rows import STATE_BYTES_PER_SEQUENCE, binding_rows, io_values, output_maker
from vramscope.plan.bodies import body_notes, body_regions
from vramscope.plan.cards import Card, find_card
from vramscope.plan.checks import check_scenario, idle_maxima
from vramscope.plan.components import plan_components, total_of
from vramscope.plan.extents import (
    branch_notes,
    exact_extents,
    extents_notes,
    inner_scenario,
    input_axes,
    largest_extents,
    missing_note,
    model_at,
)
from vramscope.plan.index import build_index
from vramscope.plan.kv import NO_KV, Context, context_notes, plan_kv, resolve_context
from vramscope.plan.options import is_batch
from vramscope.plan.outside import sequence_notes
from vramscope.plan.phase import phase_owners, phase_workspace, plan_phase
from vramscope.plan.reuse import ArenaReuse
from vramscope.plan.sizes import Resolver, symbol_ranges
from vramscope.plan.streaming import StreamedWeights
from vramscope.plan.symbols import (
    PhaseBindings,
    decoder_bindings,
    phase_extents,
    plain_bindings,
)
from vramscope.plan.types import (
    CUDA_RUNTIME,
    BucketPolicy,
    Figure,
    Phase,
    Plan,
    Refused,
    Scenario,
    WorkspacePlan,
)
from vramscope.plan.verdict import Limits, judge, largest_fit
from vramscope.plan.weights import plan_weights
from vramscope.plan.workspace import nested_requirements, slot_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.graph.model import Model


def make_plan(model: Model, scenario: Scenario) -> Plan:
    """Plans ``scenario`` for ``model``. Nothing is executed and no weight byte is read.

    Raises:
        ScenarioError: a number that cannot be planned (a context beyond the limit, a budget of 0).
        SymbolConflictError: two inputs give one symbol different extents.
        ShapeOverflowError: a tensor larger than any device can address.
    """
    return Planner(model).plan(scenario)


_LimitKey = tuple[int, tuple[int, ...], BucketPolicy, tuple[tuple[str, int], ...], str, int, int | None]
"""What the largest context depends on: everything of a scenario but the context itself."""

SHOWN_NAMES = 6
"""How many nodes a note names."""

KEPT_SPECIALISATIONS = 8
"""So many sets of extents stay planned; the oldest goes first."""

LARGEST_BATCH = 4096
"""No larger batch is looked for."""

LARGEST_CONTEXT = 2**22
"""No longer context is looked for where the model states no limit."""


class Planner:
    """Plans one model for any number of scenarios."""

    def __init__(self, model: Model) -> None:
        """Builds the scenario-free index of ``model``."""
        self.model = model
        self.index = build_index(model)
        self.growing = growing_symbols(model.program, model.contract)
        self._weights = StreamedWeights(self.index, plan_weights(self.index))
        self._reuse = ArenaReuse(self.index)
        self._io = io_values(model)
        self._cards: dict[str, Card] = {}
        self._limits: dict[_LimitKey, int | None] = {}
        self._branching = model.contract is None and depends_on_shapes(model.program)
        self._specialised: dict[tuple[tuple[str, int], ...], Planner] = {}
        self._assumed = AssumedModels(model, Planner)

    def plan(self, scenario: Scenario) -> Plan:
        """The plan of one scenario; raises as :func:`make_plan` does.

        Where shapes decide branches and every extent is given, or the scenario assumes another export, the
        plan is of its own ``specialised`` model.
        """
        scenario = self.catalogued(scenario)
        if scenario.as_if:
            return assumed_plan(self, self._assumed.under(scenario.as_if), scenario)
        check_scenario(scenario, self.index.mentions.keys())
        exact = exact_extents(self.model.program, scenario) if self._branching else None
        if exact or (exact is not None and self.model.contradicted):
            return self._plan_at(scenario, exact)
        plan = self.part(scenario)
        largest = largest_extents(self.model.program, scenario) if self._branching else None
        if not plan.refusals or not self._branching or largest == {}:
            return plan
        if largest is None:
            return replace(plan, notes=(missing_note(self.model.program, scenario), *plan.notes))
        return self._plan_at(scenario, largest)

    def catalogued(self, scenario: Scenario) -> Scenario:
        """The scenario with the catalogue's name of the card that it is judged against.

        Raises:
            ScenarioError: a card that the catalogue does not have.
        """
        if scenario.budget is not None or not scenario.card:
            return scenario
        return replace(scenario, card=self._card(scenario.card).name)

    def under(self, scenario: Scenario) -> Planner:
        """The planner of the model as the scenario assumes it; this one where it assumes nothing.

        Raises:
            ScenarioError: a rewrite that is not known or cannot be made.
        """
        return self._assumed.under(scenario.as_if).planner if scenario.as_if else self

    def _plan_at(self, scenario: Scenario, extents: Mapping[str, int]) -> Plan:
        """The plan of the model at these extents, with the axes of the model as it was opened."""
        inner = self._at(extents)
        plan = inner.part(inner_scenario(scenario, self.model, inner.model))
        return replace(
            plan,
            scenario=scenario,
            axes=input_axes(self.index, self.model, scenario, extents),
            notes=(*extents_notes(scenario, extents), *inner.model.problems, *plan.notes),
            specialised=inner.model,
        )

    def _at(self, extents: Mapping[str, int]) -> Planner:
        key = tuple(sorted(extents.items()))
        if key not in self._specialised:
            if len(self._specialised) >= KEPT_SPECIALISATIONS:
                self._specialised.pop(next(iter(self._specialised)))
            self._specialised[key] = Planner(model_at(self.model, extents))
        return self._specialised[key]

    def part(self, scenario: Scenario) -> Plan:
        """The plan of the model as it is, whatever its branches depend on."""
        available = self._available(scenario)
        context = self._context(scenario)
        kv = plan_kv(self.model, scenario, context.capacity) if context else NO_KV
        bindings = self._bindings(scenario, context)
        ranges = [symbol_ranges(item, self.model.program.minted, self.growing) for item in bindings]
        phases = [
            plan_phase(self.index, item, Resolver(self.index, item, found), scenario.runtime)
            for item, found in zip(bindings, ranges, strict=True)
        ]
        rows = binding_rows(self.index, self.model, self._io, phases, scenario)
        weights = self._weights.under(scenario.weight_budget)
        components = plan_components(weights, kv, phases, rows, scenario)
        total = total_of(components, phases)
        limits = self._fits(scenario, available, total)
        return Plan(
            scenario=scenario,
            context=context.tokens if context else 0,
            context_source=context.source if context else "",
            weights=weights,
            kv=kv,
            bindings=rows,
            phases=tuple(phases),
            components=components,
            total=total,
            verdict=judge(
                scenario,
                context,
                components,
                total,
                available,
                limits,
                tuple(phases),
                output_maker(self.index, rows),
            ),
            axes=axis_rows(self.index, list(zip(bindings, ranges, strict=True)), self.model.program.minted),
            notes=(*self._notes(scenario, bindings), *body_notes(phases)),
        )

    def suited(self, plan: Plan, runtime: str) -> Plan:
        """``plan``, made again where it counts the scratch of other kernels than a CUDA device's own."""
        if runtime != CUDA_RUNTIME or plan.scenario.runtime == runtime:
            return plan
        return self.plan(replace(plan.scenario, runtime=runtime))

    def total_bytes(self, scenario: Scenario) -> int | None:
        """The plan's total alone, without rows.

        None when an axis is refused, the scenario is not plannable or no device could hold it.
        """
        try:
            if scenario.as_if:
                return self.under(scenario).total_bytes(replace(scenario, as_if=()))
            extents = exact_extents(self.model.program, scenario) if self._branching else None
            inner = None if extents is None else self._at(extents)
        except ScenarioError:
            return None
        if inner is not None:
            return inner.part_bytes(inner_scenario(scenario, self.model, inner.model))
        return self.part_bytes(scenario)

    def part_bytes(self, scenario: Scenario) -> int | None:
        """As :meth:`total_bytes`, of the model as it is."""
        try:
            weights = self._weights.under(scenario.weight_budget).bytes
            context = self._context(scenario)
            kv = plan_kv(self.model, scenario, context.capacity) if context else NO_KV
            phases = [self._phase_bytes(item, scenario) for item in self._bindings(scenario, context)]
        except (ScenarioError, ShapeOverflowError, UnboundedAxisError):
            return None
        arena = max(phase.arena for phase in phases)
        scratch = slot_bytes([phase.workspace for phase in phases])
        io_bytes: int = sum(max(sizes) for sizes in zip(*(phase.io for phase in phases), strict=True))
        state = scenario.batch * STATE_BYTES_PER_SEQUENCE if context else 0
        return weights + kv.bytes + kv.transient + arena + scratch + io_bytes + state

    def _phase_bytes(self, bindings: PhaseBindings, scenario: Scenario) -> _PhaseBytes:
        found = symbol_ranges(bindings, self.model.program.minted, self.growing)
        resolver = Resolver(self.index, bindings, found)
        refused = self._reuse.unsettled(resolver)
        if refused is not None:
            self._settled(resolver, refused)
        workspace, _ = phase_workspace(self.index, resolver, scenario.runtime)
        io_sizes = tuple(self._settled(resolver, value) for value in self._io)
        return _PhaseBytes(self._arena_bytes(resolver), workspace, io_sizes)

    def _arena_bytes(self, resolver: Resolver) -> int:
        bodies = body_regions(self.index, resolver)
        return (
            arena_bytes(*phase_owners(self.index, resolver, bodies))
            if bodies
            else self._reuse.bytes(resolver)
        )

    def _settled(self, resolver: Resolver, value: int) -> int:
        size = resolver.size(value)
        if size is None:
            shape = resolver.shape(value)
            assert isinstance(shape, Refused)
            raise shape.error()
        return size

    def _available(self, scenario: Scenario) -> int | None:
        """As :func:`available_bytes`."""
        if scenario.budget is not None or not scenario.card:
            return available_bytes(scenario)
        return self._card(scenario.card).memory_bytes

    def _card(self, text: str) -> Card:
        """As :func:`find_card`, looked up once."""
        if text not in self._cards:
            self._cards[text] = find_card(text)
        return self._cards[text]

    def _context(self, scenario: Scenario) -> Context | None:
        contract = self.model.contract
        return None if contract is None else resolve_context(contract, scenario)

    def _bindings(self, scenario: Scenario, context: Context | None) -> list[PhaseBindings]:
        if context is None:
            return [plain_bindings(self.model, scenario)]
        return [
            decoder_bindings(self.model, scenario, phase, phase_extents(phase, scenario, *context.room))
            for phase in (Phase.PREFILL, Phase.DECODE)
        ]

    def _fits(self, scenario: Scenario, available: int | None, total: Figure) -> Limits:
        if available is None or total.bytes is None:
            return Limits()
        known = {scenario.batch: total.bytes}
        batch = None
        if self._has_batch():
            batch = largest_fit(
                lambda count: known.get(count) or self.total_bytes(replace(scenario, batch=count)),
                1,
                LARGEST_BATCH,
                available,
            )
        return Limits(self.largest_context(scenario, available), batch)

    def _has_batch(self) -> bool:
        program = self.model.program
        dims = (dim for value in program.inputs for dim in program.values[value].shape or ())
        return self.model.contract is not None or any(is_batch(dim) for dim in dims)

    def largest_context(self, scenario: Scenario, available: int) -> int | None:
        """The largest context of a decoder whose total is at most ``available``; None when none is."""
        if scenario.as_if:
            return self.under(scenario).largest_context(replace(scenario, as_if=()), available)
        contract = self.model.contract
        if contract is None:
            return None
        maxima = tuple(sorted((*scenario.maxima.items(), *scenario.extents.items())))
        sizes = (scenario.prompt, scenario.prefill_chunk, scenario.block_size, scenario.kv_blocks)
        runtime, weights = scenario.runtime, scenario.weight_budget
        key = (scenario.batch, sizes, scenario.bucket, maxima, runtime, available, weights)
        if key not in self._limits:
            limit = contract.context_limit.value if contract.context_limit else LARGEST_CONTEXT
            self._limits[key] = largest_fit(
                lambda tokens: self.total_bytes(replace(scenario, context=tokens)),
                scenario.prompt,
                limit,
                available,
            )
        return self._limits[key]

    def _notes(self, scenario: Scenario, bindings: Sequence[PhaseBindings]) -> tuple[str, ...]:
        notes = [*idle_maxima(self.model, scenario, bindings), *self._nested_notes(scenario, bindings)]
        if self.model.contract is not None:
            notes += [*self.model.contract.notes, *context_notes(self.model.contract, scenario)]
        steps = zip(self.index.main_steps, self.index.facts, strict=True)
        helpless = [
            f"{step.node.name} ({step.node.qualified})" for step, facts in steps if facts.kernel == "none"
        ]
        notes += [*branch_notes(self.model.program), *sequence_notes(self.model.program)]
        if helpless:
            notes.append(
                f"Planned but not run here, for no kernel and no reference has them: {_some(helpless)}"
            )
        return tuple(notes)

    def _nested_notes(self, scenario: Scenario, bindings: Sequence[PhaseBindings]) -> list[str]:
        """Nodes inside bodies whose scratch is not in the plan, for a shape there is not known."""
        notes: dict[str, None] = {}
        for item in bindings if self.index.with_bodies else ():
            found = symbol_ranges(item, self.model.program.minted, self.growing)
            resolver = Resolver(self.index, item, found)
            for name, need in nested_requirements(self.index, resolver, scenario.runtime):
                if isinstance(need, Refused):
                    where = f"input {need.input_index} ({need.value})"
                    notes[
                        f"Scratch of {name} is not in the plan: {where}, axis {need.axis}: {need.reason}"
                    ] = None
        return list(notes)


@dataclass(frozen=True, slots=True)
class _PhaseBytes:
    """What one phase adds to the total; ``io``: the bytes of each input and output that is no KV buffer."""

    arena: int
    workspace: WorkspacePlan
    io: tuple[int, ...]


def _some(names: Sequence[str]) -> str:
    """The first names and how many more there are."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more


def available_bytes(scenario: Scenario) -> int | None:
    """Bytes that may be used: the budget, else the card's memory, else None.

    Raises:
        ScenarioError: a budget that is not positive, or a card that the catalogue does not have.
    """
    if scenario.budget is not None:
        if scenario.budget <= 0:
            raise ScenarioError(
                f"a budget of {scenario.budget} bytes", "nothing fits into it", "Give a budget above 0"
            )
        return scenario.budget
    return find_card(scenario.card).memory_bytes if scenario.card else None

"""The planner: one pure call from a model and a scenario to the whole plan.

:class:`Planner` keeps what no scenario changes (the index of lifetimes and shape classes), so that a
re-plan is arithmetic over a few dozen shape classes and one walk over the steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vramscope.errors import ScenarioError
from vramscope.graph.dtypes import tensor_bytes
from vramscope.graph.growing import growing_symbols
from vramscope.plan.axes import axis_rows
from vramscope.plan.cards import find_card
from vramscope.plan.index import build_index
from vramscope.plan.kv import NO_KV, Context, plan_kv, resolve_context
from vramscope.plan.phase import phase_arena, phase_workspace, plan_phase
from vramscope.plan.sizes import Resolver, SymbolRanges, symbol_ranges
from vramscope.plan.symbols import PhaseBindings, decoder_bindings, phase_extents, plain_bindings
from vramscope.plan.types import (
    UNKNOWN,
    BindingRow,
    Bounded,
    BucketPolicy,
    Component,
    ComponentName,
    Figure,
    KvPlan,
    Phase,
    PhasePlan,
    Plan,
    Refused,
    Scenario,
    WeightPlan,
    WorkspacePlan,
)
from vramscope.plan.verdict import Limits, judge, largest_fit
from vramscope.plan.weights import plan_weights, resident_roots
from vramscope.plan.workspace import slot_bytes

if TYPE_CHECKING:
    from vramscope.graph.model import Model, Value

STATE_BYTES_PER_SEQUENCE = 3 * 8
"""Decode state on the device, per sequence: the last token, the position and the valid length, int64 each."""


def make_plan(model: Model, scenario: Scenario) -> Plan:
    """Plans ``scenario`` for ``model``. Nothing is executed and no weight byte is read.

    Raises:
        ScenarioError: a number that cannot be planned (a context beyond the limit, a budget of 0).
        SymbolConflictError: two inputs give one symbol different extents.
        ShapeOverflowError: a tensor larger than any device can address.
    """
    return Planner(model).plan(scenario)


_LimitKey = tuple[int, int, BucketPolicy, tuple[tuple[str, int], ...], int]
"""What the largest context depends on: everything of a scenario but the context itself."""


class Planner:
    """Plans one model for any number of scenarios."""

    def __init__(self, model: Model) -> None:
        """Builds the scenario-free index of ``model``."""
        self.model = model
        self.index = build_index(model)
        self.growing = growing_symbols(model.program, model.contract)
        self._weights = plan_weights(self.index, self._constant_sizes())
        self._limits: dict[_LimitKey, int | None] = {}

    def plan(self, scenario: Scenario) -> Plan:
        """The plan of one scenario; raises as :func:`make_plan` does."""
        available = available_bytes(scenario)
        context = self._context(scenario)
        kv = plan_kv(self.model, scenario, context.capacity) if context else NO_KV
        phases = []
        ranges: list[tuple[PhaseBindings, SymbolRanges]] = []
        for bindings in self._bindings(scenario, context):
            found = symbol_ranges(bindings, self.model.program.minted, self.growing)
            ranges.append((bindings, found))
            phases.append(plan_phase(self.index, bindings, Resolver(self.index, bindings, found)))
        rows = self._binding_rows(phases, scenario)
        components = _components(self._weights, kv, phases, rows)
        total = _total(components, phases)
        refused = any(phase.refusals for phase in phases)
        limits = self._fits(scenario, available) if available is not None and not refused else Limits()
        return Plan(
            scenario=scenario,
            context=context.tokens if context else 0,
            context_source=context.source if context else "",
            weights=self._weights,
            kv=kv,
            bindings=rows,
            phases=tuple(phases),
            components=components,
            total=total,
            verdict=judge(scenario, context, components, total, available, limits, tuple(phases)),
            axes=axis_rows(self.index, ranges, self.model.program.minted),
            notes=self._notes(),
        )

    def total_bytes(self, scenario: Scenario) -> int | None:
        """The plan's total alone, without rows.

        None when an axis is refused or the scenario is not plannable.
        """
        try:
            context = self._context(scenario)
            kv = plan_kv(self.model, scenario, context.capacity) if context else NO_KV
            arena = 0
            workspaces: list[WorkspacePlan] = []
            sizes: dict[int, int] = {}
            for bindings in self._bindings(scenario, context):
                found = symbol_ranges(bindings, self.model.program.minted, self.growing)
                resolver = Resolver(self.index, bindings, found)
                plan = phase_arena(self.index, resolver, dict(bindings.symbols))
                arena = max(arena, plan.bytes)
                workspaces.append(phase_workspace(self.index, resolver)[0])
                for value in self._io_values():
                    sizes[value] = max(sizes.get(value, 0), resolver.size(value) or 0)
        except ScenarioError:
            return None
        state = scenario.batch * STATE_BYTES_PER_SEQUENCE if context else 0
        scratch = slot_bytes(workspaces)
        io_bytes = sum(sizes.values()) + state
        return self._weights.bytes + kv.bytes + kv.transient + arena + scratch + io_bytes

    def _context(self, scenario: Scenario) -> Context | None:
        contract = self.model.contract
        return None if contract is None else resolve_context(contract, scenario)

    def _bindings(self, scenario: Scenario, context: Context | None) -> list[PhaseBindings]:
        if context is None:
            return [plain_bindings(self.model, scenario)]
        return [
            decoder_bindings(self.model, scenario, phase, phase_extents(phase, scenario, context.capacity))
            for phase in (Phase.PREFILL, Phase.DECODE)
        ]

    def _constant_sizes(self) -> dict[int, int]:
        bindings = plain_bindings(self.model, Scenario())
        ranges = symbol_ranges(bindings, self.model.program.minted, frozenset())
        resolver = Resolver(self.index, bindings, ranges)
        folded = resident_roots(self.index).keys() - self.model.program.weights.keys()
        return {value: resolver.size(value) or 0 for value in folded}

    def _io_values(self) -> list[int]:
        """Graph inputs and outputs that are not KV buffers."""
        contract = self.model.contract
        names = {name for pair in contract.kv for name in (pair.input, pair.output)} if contract else set()
        program = self.model.program
        return [
            item for item in (*program.inputs, *program.outputs) if program.values[item].name not in names
        ]

    def _binding_rows(self, phases: list[PhasePlan], scenario: Scenario) -> tuple[BindingRow, ...]:
        rows = [self._binding_row(value, phases) for value in self._io_values()]
        if self.model.contract is not None:
            state = Figure.exact(scenario.batch * STATE_BYTES_PER_SEQUENCE)
            rows.append(BindingRow("decode state", "state", (3, scenario.batch), state))
        return tuple(rows)

    def _binding_row(self, value: int, phases: list[PhasePlan]) -> BindingRow:
        item: Value = self.model.program.values[value]
        direction = "input" if value in self.model.program.inputs else "output"
        best: tuple[int, tuple[int, ...], bool] = (-1, (), False)
        for phase in phases:
            shape = phase.shapes[value]
            if isinstance(shape, Refused):
                return BindingRow(item.name, direction, (), UNKNOWN)
            size = tensor_bytes(item.dtype, shape.shape)
            if size > best[0]:
                best = (size, shape.shape, isinstance(shape, Bounded))
        return BindingRow(item.name, direction, best[1], Figure.of(best[0], bounded=best[2]))

    def _fits(self, scenario: Scenario, available: int) -> Limits:
        contract = self.model.contract
        if contract is None:
            return Limits()
        maxima = tuple(sorted(scenario.maxima.items()))
        key = (scenario.batch, scenario.prompt, scenario.bucket, maxima, available)
        if key not in self._limits:
            limit = contract.context_limit.value if contract.context_limit else 2**22
            self._limits[key] = largest_fit(
                lambda tokens: self.total_bytes(replace(scenario, context=tokens)),
                max(scenario.prompt, 1),
                limit,
                available,
            )
        batch = largest_fit(
            lambda count: self.total_bytes(replace(scenario, batch=count)), 1, 4096, available
        )
        return Limits(self._limits[key], batch)

    def _notes(self) -> tuple[str, ...]:
        notes = [*self.model.problems]
        if self.model.contract is not None:
            notes.extend(self.model.contract.notes)
        loops = [
            step.node.name
            for step, spec in zip(self.model.program.steps, self.index.specs, strict=True)
            if spec.control_flow and step.node.operator != "If"
        ]
        if loops:
            notes.append(
                f"Memory inside the bodies of {', '.join(loops)} is not planned: it is counted as it runs"
            )
        return tuple(notes)


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


def _components(
    weights: WeightPlan, kv: KvPlan, phases: list[PhasePlan], rows: tuple[BindingRow, ...]
) -> tuple[Component, ...]:
    unknown = any(phase.refusals for phase in phases)
    bounded = any(
        isinstance(phase.shapes[value], Bounded)
        for phase in phases
        for value in phase.arena.placements
        if value >= 0
    )
    arena = max(phase.arena.bytes for phase in phases)
    scratch = slot_bytes([phase.workspace for phase in phases])
    largest = max(phases, key=lambda phase: phase.arena.bytes)
    figures = [row.figure for row in rows]
    bindings = UNKNOWN if UNKNOWN in figures else Figure.exact(sum(figure.known for figure in figures))
    kv_detail = f"{kv.capacity:,} tokens, {kv.bytes_per_token:,} B a token a sequence" if kv.rows else "none"
    if kv.transient:
        kv_detail += f"; {kv.transient:,} B of it only while the bucket grows"
    return (
        Component(ComponentName.WEIGHTS, Figure.exact(weights.bytes), f"{len(weights.rows)} stored tensors"),
        Component(ComponentName.KV_CACHE, Figure.exact(kv.bytes + kv.transient), kv_detail),
        Component(
            ComponentName.ACTIVATIONS,
            UNKNOWN if unknown else Figure.of(arena, bounded=bounded),
            f"arena of the {largest.phase.value} phase",
        ),
        Component(
            ComponentName.WORKSPACE,
            UNKNOWN if unknown else Figure.of(scratch, bounded=bounded),
            "kernels' scratch",
        ),
        Component(ComponentName.BINDINGS, bindings, f"{len(rows)} buffers"),
        Component(ComponentName.CONTEXT, UNKNOWN, "unknown until measured on the device; not in the total"),
    )


def _total(components: tuple[Component, ...], phases: list[PhasePlan]) -> Figure:
    if any(phase.refusals for phase in phases):
        return UNKNOWN
    known = [item.figure for item in components if item.name is not ComponentName.CONTEXT]
    bounded = any(figure.certainty.value == "bound" for figure in known)
    return Figure.of(sum(figure.known for figure in known), bounded=bounded)

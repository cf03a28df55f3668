"""One phase of a plan: every value's shape and bytes, the arena, the workspace, a row per node."""

from __future__ import annotations

from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.ops.cuda_kernels import runs_on_cuda
from vramscope.ops.spec import NO_WORKSPACE
from vramscope.plan.arena import ArenaPlan, Owner, plan_arena
from vramscope.plan.bodies import BodyRegion, body_regions, region_owners
from vramscope.plan.types import (
    CUDA_RUNTIME,
    OWN_RUNTIME,
    UNKNOWN,
    Bounded,
    Exact,
    Figure,
    NodeRow,
    PhasePlan,
    Refused,
    WorkspacePlan,
)
from vramscope.plan.workspace import constant_requirements, merge, nested_requirements, requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vramscope.graph.model import Step
    from vramscope.ops.spec import WorkspaceRequirement
    from vramscope.plan.index import PlanningIndex, StepFacts
    from vramscope.plan.sizes import Resolver
    from vramscope.plan.symbols import PhaseBindings


def phase_owners(
    index: PlanningIndex, resolver: Resolver, bodies: Mapping[int, BodyRegion]
) -> tuple[Sequence[Owner], dict[int, int]]:
    """Who needs arena memory in one phase, in order of definition, and the bytes of each.

    Values that cannot be sized are left out: they are refusals of the plan.
    """
    sizes: dict[int, int] = {}
    regions = region_owners(bodies, sizes)
    size_of = resolver.size
    refused = False
    for owner in index.owners:
        size = size_of(owner.value)
        if size is None:
            refused = True
        else:
            sizes[owner.value] = size
    owners: Sequence[Owner] = index.owners
    if refused:
        owners = [owner for owner in owners if owner.value in sizes]
    return (sorted((*owners, *regions), key=lambda owner: owner.first) if regions else owners), sizes


def phase_workspace(
    index: PlanningIndex, resolver: Resolver, runtime: str = OWN_RUNTIME
) -> tuple[WorkspacePlan, dict[int, WorkspaceRequirement]]:
    """The workspace slots of one phase, bodies and loading included, and what each main step asked for."""
    needs = requirements(index, resolver, runtime)
    named = [(index.program.steps[step].node.name, need) for step, need in needs.items()]
    nested = nested_requirements(index, resolver, runtime)
    named.extend((name, need) for name, need in nested if not isinstance(need, Refused))
    named.extend(constant_requirements(index, resolver, runtime))
    return merge(named), needs


def plan_phase(
    index: PlanningIndex, bindings: PhaseBindings, resolver: Resolver, runtime: str = OWN_RUNTIME
) -> PhasePlan:
    """Everything about one phase."""
    program = index.program
    bodies = body_regions(index, resolver)
    owners, sizes = phase_owners(index, resolver, bodies)
    arena = plan_arena(owners, sizes, index.root_of)
    workspace, needs = phase_workspace(index, resolver, runtime)
    shapes = resolver.shapes()
    live, made = live_bytes(arena, len(program.steps)), bytes_at_peak(arena)
    rows = tuple(
        _node_row(
            step,
            facts,
            (shapes, resolver),
            needs.get(step.index, NO_WORKSPACE),
            (live[step.index], made.get(step.index, 0)),
            _who_runs(step, facts, runtime),
        )
        for step, facts in zip(index.main_steps, index.facts, strict=True)
    )
    return PhasePlan(
        phase=bindings.phase,
        symbols=bindings.symbols,
        shapes=MappingProxyType(shapes),
        arena=arena,
        workspace=workspace,
        nodes=rows,
        refusals=tuple(_refusals(index, shapes)),
        bodies=MappingProxyType({program.steps[step].node.name: item for step, item in bodies.items()}),
    )


def _refusals(index: PlanningIndex, shapes: Mapping[int, Exact | Bounded | Refused]) -> Iterable[Refused]:
    """The first refused value of each symbol among inputs and values that need memory.

    Of values without a rank, or with an extent that cannot be, only those are told whose node reads no such
    value: the others follow.
    """
    told: set[str] = set()
    for value in sorted({owner.value for owner in index.owners} | index.bound | index.constants):
        shape = shapes[value]
        if not isinstance(shape, Refused) or shape.symbol in told:
            continue
        if shape.axis < 0 or not shape.symbol:
            if not _follows(index, shapes, value):
                yield shape
            continue
        told.add(shape.symbol)
        yield shape


def _follows(index: PlanningIndex, shapes: Mapping[int, Exact | Bounded | Refused], value: int) -> bool:
    step = index.makers.get(value, -1)
    inputs = index.program.steps[step].inputs if step >= 0 else ()
    refused = [shape for item in inputs if isinstance(shape := shapes.get(item), Refused)]
    return any(shape.axis < 0 or not shape.symbol for shape in refused)


def live_bytes(arena: ArenaPlan, steps: int) -> list[int]:
    """Arena bytes alive at each of ``steps`` steps; a value overwritten in place counts no more then."""
    change = [0] * (steps + 2)
    for size, first, last in _lives(arena):
        change[first] += size
        change[min(last, steps) + 1] -= size
    return list(accumulate(change))


def bytes_at_peak(arena: ArenaPlan) -> dict[int, int]:
    """Per step the bytes of what it made that are alive at the peak step: together all of ``live_peak``."""
    made: dict[int, int] = {}
    for size, first, last in _lives(arena):
        if first <= arena.peak_step <= last:
            made[first] = made.get(first, 0) + size
    return made


def _lives(arena: ArenaPlan) -> Iterable[tuple[int, int, int]]:
    """Of every value its bytes and the first and last step that has it: not one that overwrites it."""
    begun = {(placement.slot, placement.first) for placement in arena.placements.values()}
    for _, slot, _, size, first, last in arena.placements.values():
        overwritten = last > first and (slot, last) in begun
        yield size, first, last - 1 if overwritten else last


def _node_row(
    step: Step,
    facts: StepFacts,
    sizes: tuple[Mapping[int, Exact | Bounded | Refused], Resolver],
    need: WorkspaceRequirement,
    alive: tuple[int, int],
    kernel: str,
) -> NodeRow:
    node = step.node
    shapes, resolver = sizes
    return NodeRow(
        step.index,
        node.name,
        node.operator,
        node.domain,
        node.scope,
        kernel,
        tuple([shapes[value] for value in facts.inputs]),
        tuple([shapes[value] for value in facts.outputs]),
        facts.weight_bytes,
        _output_figure(facts, shapes, resolver),
        need,
        *alive,
    )


def _who_runs(step: Step, facts: StepFacts, runtime: str) -> str:
    on_card = runtime == CUDA_RUNTIME and runs_on_cuda(step.node.domain, step.node.operator)
    return "cuda" if on_card else facts.kernel


def _output_figure(
    facts: StepFacts, shapes: Mapping[int, Exact | Bounded | Refused], resolver: Resolver
) -> Figure:
    total, bounded = 0, False
    for value in facts.own:
        size = resolver.size(value)
        if size is None:
            return UNKNOWN
        total += size
        bounded = bounded or isinstance(shapes[value], Bounded)
    return Figure.of(total, bounded=bounded)

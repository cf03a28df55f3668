"""One phase of a plan: every value's shape and bytes, the arena, the workspace, a row per node."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import tensor_bytes
from vramscope.graph.expr import Dim, evaluate
from vramscope.graph.model import ABSENT, Program, Step, ValueKind
from vramscope.ops.spec import NO_WORKSPACE
from vramscope.plan.arena import ArenaPlan, Owner, align, plan_arena
from vramscope.plan.types import (
    UNKNOWN,
    Bounded,
    Exact,
    Figure,
    NodeRow,
    PhasePlan,
    Refused,
    WorkspacePlan,
)
from vramscope.plan.workspace import merge, requirement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.ops.spec import WorkspaceRequirement
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.sizes import Resolver
    from vramscope.plan.symbols import PhaseBindings

BODY_ALIGNMENT = 64
"""Values of a control-flow body are laid one after the other at this alignment."""


def body_key(step: int) -> int:
    """The arena key of the region in which a step's bodies keep their values (never a value id)."""
    return -2 - step


def phase_arena(index: PlanningIndex, resolver: Resolver, symbols: dict[str, int]) -> ArenaPlan:
    """The arena of one phase; values that cannot be sized are left out (they are refusals of the plan)."""
    sizes: dict[int, int] = {}
    owners: list[Owner] = []
    for owner in _with_bodies(index, symbols, sizes):
        size = sizes[owner.value] if owner.value < 0 else resolver.size(owner.value)
        if size is not None:
            sizes[owner.value] = size
            owners.append(owner)
    return plan_arena(owners, sizes, index.root_of)


def _with_bodies(index: PlanningIndex, symbols: dict[str, int], sizes: dict[int, int]) -> Iterable[Owner]:
    regions: list[Owner] = []
    for step in index.program.steps[index.program.constant_steps :]:
        if step.bodies and index.specs[step.index].control_flow and step.node.operator == "If":
            size = max((_body_bytes(body, symbols) or 0 for body in step.bodies.values()), default=0)
            if size:
                sizes[body_key(step.index)] = size
                regions.append(Owner(body_key(step.index), step.index, step.index))
    if not regions:
        return index.owners
    return sorted((*index.owners, *regions), key=lambda owner: owner.first)


def _body_bytes(body: Program, symbols: dict[str, int]) -> int | None:
    """Bytes of every value a body computes, one after the other; None when one has no exact shape."""
    total = 0
    for step in body.steps:
        for value in step.outputs:
            if value == ABSENT:
                continue
            shape = _exact(body.values[value].shape, symbols)
            if shape is None or body.values[value].is_sequence:
                return None
            total += align(tensor_bytes(body.values[value].dtype, shape), BODY_ALIGNMENT)
        nested = [_body_bytes(inner, symbols) for inner in step.bodies.values()]
        if None in nested:
            return None
        total += max((size for size in nested if size is not None), default=0)
    return total


def _exact(shape: tuple[Dim, ...] | None, symbols: dict[str, int]) -> tuple[int, ...] | None:
    if shape is None:
        return None
    extents = [evaluate(dim, symbols) for dim in shape]
    found = tuple(extent for extent in extents if extent is not None)
    return found if len(found) == len(extents) else None


def phase_workspace(
    index: PlanningIndex, resolver: Resolver
) -> tuple[WorkspacePlan, dict[int, WorkspaceRequirement]]:
    """The workspace slots of one phase, and what each step asked for."""
    requirements = {
        step.index: need
        for step in index.program.steps[index.program.constant_steps :]
        if index.specs[step.index].workspace is not None
        and (need := requirement(index, resolver, step)).bytes > 0
    }
    names = {step: index.program.steps[step].node.name for step in requirements}
    return merge(requirements, names), requirements


def plan_phase(index: PlanningIndex, bindings: PhaseBindings, resolver: Resolver) -> PhasePlan:
    """Everything about one phase."""
    program = index.program
    symbols = dict(bindings.symbols)
    arena = phase_arena(index, resolver, symbols)
    workspace, requirements = phase_workspace(index, resolver)
    shapes = {value.id: resolver.shape(value.id) for value in program.values}
    live = _live_bytes(arena, len(program.steps))
    rows = tuple(
        _node_row(index, resolver, shapes, step, requirements.get(step.index), live[step.index])
        for step in program.steps[program.constant_steps :]
    )
    return PhasePlan(
        phase=bindings.phase,
        symbols=bindings.symbols,
        shapes=MappingProxyType(shapes),
        arena=arena,
        workspace=workspace,
        nodes=rows,
        refusals=tuple(_refusals(index, shapes)),
    )


def _refusals(index: PlanningIndex, shapes: dict[int, Exact | Bounded | Refused]) -> Iterable[Refused]:
    """Inputs that nothing settles, and values that need memory and have no ceiling."""
    needed = {owner.value for owner in index.owners} | index.bound
    for value in sorted(needed):
        shape = shapes[value]
        if isinstance(shape, Refused):
            yield shape


def _live_bytes(arena: ArenaPlan, steps: int) -> list[int]:
    change = [0] * (steps + 2)
    for placement in arena.placements.values():
        change[placement.first] += placement.size
        change[min(placement.last, steps) + 1] -= placement.size
    total, live = 0, []
    for delta in change:
        total += delta
        live.append(total)
    return live


def _node_row(
    index: PlanningIndex,
    resolver: Resolver,
    shapes: dict[int, Exact | Bounded | Refused],
    step: Step,
    need: WorkspaceRequirement | None,
    live: int,
) -> NodeRow:
    spec = index.specs[step.index]
    node = step.node
    return NodeRow(
        step=step.index,
        name=node.name,
        operator=node.operator,
        domain=node.domain,
        scope=node.scope,
        kernel="host" if spec.kernel is not None else "reference",
        inputs=tuple(shapes[value] for value in step.inputs if value != ABSENT),
        outputs=tuple(shapes[value] for value in step.outputs if value != ABSENT),
        weight_bytes=_weight_bytes(index, step),
        output_bytes=_output_figure(index, resolver, shapes, step),
        workspace=need or NO_WORKSPACE,
        live_bytes=live,
    )


def _weight_bytes(index: PlanningIndex, step: Step) -> int:
    total = 0
    for value in step.inputs:
        if value == ABSENT:
            continue
        source = index.program.weights.get(index.root_of[value])
        if source is not None:
            total += source.size
    return total


def _output_figure(
    index: PlanningIndex,
    resolver: Resolver,
    shapes: dict[int, Exact | Bounded | Refused],
    step: Step,
) -> Figure:
    total, bounded = 0, False
    for position, value in enumerate(step.outputs):
        if value == ABSENT or not index.wanted[step.index][position] or index.root_of[value] != value:
            continue
        size = resolver.size(value)
        if size is None or index.program.values[value].kind is ValueKind.WEIGHT:
            return UNKNOWN
        total += size
        bounded = bounded or isinstance(shapes[value], Bounded)
    return Figure.of(total, bounded=bounded)

"""Planned scratch: what each node asks for in one phase, and the largest of each lifetime."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.errors import ModelGraphError, VramscopeError
from vramscope.graph.model import ABSENT, Step
from vramscope.ops.cuda_workspace import CUDA_WORKSPACE
from vramscope.ops.formulas import REFERENCE_WORKSPACE
from vramscope.ops.spec import (
    ABSENT_META,
    NO_WORKSPACE,
    Lifetime,
    TensorMeta,
    WorkspaceQuery,
    WorkspaceRequirement,
)
from vramscope.ops.table import spec_for
from vramscope.plan.planned import CONTROL_FLOW_SCOPE, walk_steps
from vramscope.plan.types import (
    CUDA_RUNTIME,
    OWN_RUNTIME,
    REFERENCE_RUNTIME,
    Bounded,
    Exact,
    Refused,
    WorkspacePlan,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vramscope.graph.model import Program
    from vramscope.ops.spec import OpSpec, Workspace
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.sizes import Resolver


def estimator_of(spec: OpSpec, runtime: str) -> Workspace | None:
    """Who says how much scratch the operator needs in ``runtime``."""
    if runtime == CUDA_RUNTIME:
        return CUDA_WORKSPACE.get((spec.domain, spec.name))
    if runtime == REFERENCE_RUNTIME:
        return REFERENCE_WORKSPACE.get((spec.domain, spec.name))
    return spec.workspace


def requirements(
    index: PlanningIndex, resolver: Resolver, runtime: str = OWN_RUNTIME
) -> dict[int, WorkspaceRequirement]:
    """What each main step asks for, by step index; steps that need nothing are left out.

    Steps of one group with equal shapes are asked once.
    """
    answers: dict[tuple[int, tuple[Exact | Bounded | Refused, ...]], WorkspaceRequirement] = {}
    found: dict[int, WorkspaceRequirement] = {}
    for question in index.scratch:
        key = (question.group, tuple(resolver.shape(value) for value in question.bound))
        need = answers.get(key)
        if need is None:
            need = answers[key] = requirement(index, resolver, index.program.steps[question.step], runtime)
        if need.bytes > 0:
            found[question.step] = need
    return found


def requirement(
    index: PlanningIndex, resolver: Resolver, step: Step, runtime: str = OWN_RUNTIME
) -> WorkspaceRequirement:
    """The scratch of one step from metadata alone; none when an input's shape is refused."""
    estimator = estimator_of(index.specs[step.index], runtime)
    if estimator is None:
        return NO_WORKSPACE
    metas: list[TensorMeta] = []
    for value in step.inputs:
        if value == ABSENT:
            metas.append(ABSENT_META)
            continue
        shape = resolver.shape(value)
        if isinstance(shape, Refused):
            return NO_WORKSPACE
        metas.append(TensorMeta(index.program.values[value].dtype, shape.shape))
    return ask(estimator, WorkspaceQuery(step.node, tuple(metas), sum(index.wanted[step.index])))


def constant_requirements(
    index: PlanningIndex, resolver: Resolver, runtime: str = OWN_RUNTIME
) -> Iterator[tuple[str, WorkspaceRequirement]]:
    """What each constant step asks for while weights are loaded, in the session's slot."""
    for step in index.program.steps[: index.program.constant_steps]:
        if estimator_of(index.specs[step.index], runtime) is not None:
            yield step.node.name, requirement(index, resolver, step, runtime)


def nested_requirements(
    index: PlanningIndex, resolver: Resolver, runtime: str = OWN_RUNTIME
) -> Iterator[tuple[str, WorkspaceRequirement | Refused]]:
    """What each node inside control-flow bodies asks for, by its scope (semantics 1.9).

    A :class:`Refused` instead where an input's shape does not follow from the enclosing graph's extents.
    """
    for step in index.with_bodies:
        for name, body in step.bodies.items():
            scope = f"{CONTROL_FLOW_SCOPE}node#{step.index}/{name}/"
            for place, program, inner in walk_steps(body, scope):
                spec = spec_for(inner.node)
                estimator = estimator_of(spec, runtime)
                if estimator is not None:
                    where = f"{place}node#{inner.index} '{inner.node.qualified}'"
                    yield where, _nested(program, inner, resolver, estimator, where)


def _nested(
    program: Program, step: Step, resolver: Resolver, estimator: Workspace, where: str
) -> WorkspaceRequirement | Refused:
    metas: list[TensorMeta] = []
    for position, value in enumerate(step.inputs):
        if value == ABSENT:
            metas.append(ABSENT_META)
            continue
        item = program.values[value]
        answer = resolver.resolve(item.shape)
        if isinstance(answer, tuple):
            axis, reason = answer
            return Refused(item.name, axis, "", where, step.node.qualified, position, reason)
        metas.append(TensorMeta(item.dtype, answer.shape))
    wanted = sum(value != ABSENT for value in step.outputs)
    return ask(estimator, WorkspaceQuery(step.node, tuple(metas), wanted))


def ask(estimator: Workspace, query: WorkspaceQuery) -> WorkspaceRequirement:
    """The estimator's answer; it takes ranks and types for granted that a damaged file need not have.

    Raises:
        ModelGraphError: the inputs are not such as the operator takes.
    """
    try:
        return estimator(query)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        given = ", ".join(f"{meta.dtype.name} {list(meta.shape)}" for meta in query.inputs if meta.present)
        what = f"inputs of {query.node.operator}"
        why = f"it does not take such types and ranks: {given}"
        raise ModelGraphError(what, why, "Export the model again", query.node.qualified) from error


def merge(needs: Iterable[tuple[str, WorkspaceRequirement]]) -> WorkspacePlan:
    """The peak of each lifetime: the largest bytes and the strictest alignment, kept independently (1.2).

    Args:
        needs: what each node asks for, with its name for blame.

    Raises:
        VramscopeError: a requirement with bytes and an alignment that is not positive.
    """
    size = dict.fromkeys(Lifetime, 0)
    alignment = dict.fromkeys(Lifetime, 1)
    blame = dict.fromkeys(Lifetime, "")
    for name, need in needs:
        if need.bytes and need.alignment < 1:
            raise VramscopeError(f"workspace of {name}", f"its alignment is {need.alignment}")
        if need.bytes > size[need.lifetime]:
            size[need.lifetime], blame[need.lifetime] = need.bytes, name
        if need.bytes:
            alignment[need.lifetime] = max(alignment[need.lifetime], need.alignment)
    return WorkspacePlan(MappingProxyType(size), MappingProxyType(alignment), MappingProxyType(blame))


def slot_bytes(phases: list[WorkspacePlan]) -> int:
    """Bytes of the two workspace slots: each is as large as the phase that needs it most."""
    return sum(max(phase.bytes[lifetime] for phase in phases) for lifetime in Lifetime)

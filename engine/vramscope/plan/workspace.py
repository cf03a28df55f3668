"""Planned scratch: what each node asks for in one phase, and the largest of each lifetime."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.errors import VramscopeError
from vramscope.graph.model import ABSENT, Step
from vramscope.ops.spec import (
    ABSENT_META,
    NO_WORKSPACE,
    Lifetime,
    TensorMeta,
    WorkspaceQuery,
    WorkspaceRequirement,
)
from vramscope.plan.types import Refused, WorkspacePlan

if TYPE_CHECKING:
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.sizes import Resolver

EMPTY = WorkspacePlan(
    MappingProxyType(dict.fromkeys(Lifetime, 0)),
    MappingProxyType(dict.fromkeys(Lifetime, 1)),
    MappingProxyType(dict.fromkeys(Lifetime, "")),
)


def requirement(index: PlanningIndex, resolver: Resolver, step: Step) -> WorkspaceRequirement:
    """The scratch of one step from metadata alone; none when an input's shape is refused."""
    estimator = index.specs[step.index].workspace
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
    return estimator(WorkspaceQuery(step.node, tuple(metas), sum(index.wanted[step.index])))


def merge(requirements: dict[int, WorkspaceRequirement], names: dict[int, str]) -> WorkspacePlan:
    """The peak of each lifetime: the largest bytes and the strictest alignment, kept independently (1.2).

    Raises:
        VramscopeError: a requirement with bytes and an alignment that is not positive.
    """
    size = dict.fromkeys(Lifetime, 0)
    alignment = dict.fromkeys(Lifetime, 1)
    blame = dict.fromkeys(Lifetime, "")
    for step, need in requirements.items():
        if need.bytes and need.alignment < 1:
            raise VramscopeError(f"workspace of {names[step]}", f"its alignment is {need.alignment}")
        if need.bytes > size[need.lifetime]:
            size[need.lifetime], blame[need.lifetime] = need.bytes, names[step]
        if need.bytes:
            alignment[need.lifetime] = max(alignment[need.lifetime], need.alignment)
    return WorkspacePlan(MappingProxyType(size), MappingProxyType(alignment), MappingProxyType(blame))


def slot_bytes(phases: list[WorkspacePlan]) -> int:
    """Bytes of the two workspace slots: each is as large as the phase that needs it most."""
    return sum(max(phase.bytes[lifetime] for phase in phases) for lifetime in Lifetime)

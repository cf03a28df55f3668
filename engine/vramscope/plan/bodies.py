"""Memory inside control-flow bodies: the region in which a step's bodies keep the values they compute.

The values of one run of a body lie one after the other. An If needs the larger of its branches; a Loop or a
Scan needs one trip, for every trip starts over: what a trip hands on is copied out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.graph.model import ABSENT
from vramscope.plan.arena import Owner
from vramscope.plan.shapes import Bounded
from vramscope.plan.sizes import value_bytes
from vramscope.units import align

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.graph.model import Program
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.sizes import Resolver
    from vramscope.plan.types import PhasePlan

BODY_ALIGNMENT = 64
"""Values of a control-flow body are laid one after the other at this alignment."""


@dataclass(frozen=True, slots=True)
class BodyRegion:
    """What a step's bodies need.

    Attributes:
        bytes: of the region.
        bounded: whether only a ceiling of some extent is known.
        missing: the first value that cannot be sized and why; empty when the region holds all.
    """

    bytes: int
    bounded: bool = False
    missing: str = ""


NO_BODY = BodyRegion(0)


def body_key(step: int) -> int:
    """The arena key of the region in which a step's bodies keep their values (never a value id)."""
    return -2 - step


def body_regions(index: PlanningIndex, resolver: Resolver) -> dict[int, BodyRegion]:
    """What the bodies of each main step need, by step index."""
    return {
        step.index: _largest([_region(body, resolver) for body in step.bodies.values()])
        for step in index.with_bodies
        if index.specs[step.index].control_flow
    }


def region_owners(regions: Mapping[int, BodyRegion], sizes: dict[int, int]) -> list[Owner]:
    """The regions as owners of arena memory, each alive at its own step; their sizes go into ``sizes``."""
    owners: list[Owner] = []
    for step, region in regions.items():
        if region.bytes:
            sizes[body_key(step)] = region.bytes
            owners.append(Owner(body_key(step), step, step))
    return owners


def body_notes(phases: Sequence[PhasePlan]) -> list[str]:
    """A sentence for each node whose bodies are not wholly planned."""
    notes = {
        f"Memory inside the bodies of {name} is not all planned ({region.missing}): the rest is counted "
        "as it runs, beside the plan's total"
        for phase in phases
        for name, region in phase.bodies.items()
        if region.missing
    }
    return sorted(notes)


def _region(body: Program, resolver: Resolver) -> BodyRegion:
    total = NO_BODY
    for step in body.steps:
        for value in step.outputs:
            if value != ABSENT:
                total = _sum(total, _value_region(body, value, resolver, step.node.name))
        total = _sum(total, _largest([_region(inner, resolver) for inner in step.bodies.values()]))
    return total


def _value_region(body: Program, value: int, resolver: Resolver, node: str) -> BodyRegion:
    item = body.values[value]
    if item.is_sequence:
        return BodyRegion(0, missing=f"{item.name} is a sequence")
    answer = resolver.resolve(item.shape)
    if isinstance(answer, tuple):
        axis, reason = answer
        where = f"axis {axis} of {item.name}" if axis >= 0 else item.name
        return BodyRegion(0, missing=f"{where}: {reason}")
    size = align(value_bytes(item, answer.shape, node), BODY_ALIGNMENT)
    return BodyRegion(size, bounded=isinstance(answer, Bounded))


def _sum(first: BodyRegion, second: BodyRegion) -> BodyRegion:
    return BodyRegion(
        first.bytes + second.bytes, first.bounded or second.bounded, first.missing or second.missing
    )


def _largest(regions: list[BodyRegion]) -> BodyRegion:
    """Room for any one of several bodies; a ceiling or a gap in one of them is told even if it is smaller."""
    return BodyRegion(
        max((region.bytes for region in regions), default=0),
        any(region.bounded for region in regions),
        next((region.missing for region in regions if region.missing), ""),
    )

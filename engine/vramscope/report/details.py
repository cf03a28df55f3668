"""What an inspector needs of every node: its values with their bounds, scratch by region, its neighbours.

A document keeps each value of a phase once, and nodes by the places of their values: bounded, and enough to
answer for a report what the open model would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.graph.dtypes import tensor_bytes
from vramscope.graph.model import ABSENT, AttributeValue
from vramscope.messages.node import PlannedValue, RegionInfo
from vramscope.plan.index import body_captures
from vramscope.plan.types import Bounded, Exact, Refused
from vramscope.report.rows import UNKNOWN, shape_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.graph.dtypes import ElementType
    from vramscope.graph.model import Model, Program, Step
    from vramscope.plan.types import NodeRow, PhasePlan, Plan

LONGEST_ATTRIBUTE = 120
MOST_NODES = 20_000
"""Rows of all phases together; a larger plan is saved without details."""


class ValueItem(PlannedValue, frozen=True, kw_only=True):
    """One value as a document keeps it."""

    folded: str = ""
    """The node that makes it before anything runs; no row of the phase."""


class NodeItem(msgspec.Struct, frozen=True, kw_only=True):
    """One node by its step; values by their places in the phase's list."""

    step: int
    opset: int
    attributes: list[str]
    inputs: list[int]
    outputs: list[int]
    captures: list[int] = []
    """Values that the node's bodies read."""
    alignment: int = 1
    lifetime: str = ""
    formula: str = ""
    regions: list[RegionInfo] = []


class PhaseDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Every value and node of one phase."""

    values: list[ValueItem]
    nodes: list[NodeItem]


def phase_details(plan: Plan, model: Model) -> dict[str, PhaseDetail]:
    """The details of a plan's phases; none for a plan that is too large."""
    if sum(len(phase.nodes) for phase in plan.phases) > MOST_NODES:
        return {}
    program = (plan.specialised or model).program
    return {phase.phase.value: _detail(program, phase) for phase in plan.phases}


def _detail(program: Program, phase: PhasePlan) -> PhaseDetail:
    places: dict[int, int] = {}

    def placed(values: Iterable[int]) -> list[int]:
        return [places.setdefault(value, len(places)) for value in values]

    nodes = []
    for row in phase.nodes:
        step, need = program.steps[row.step], row.workspace
        nodes.append(
            NodeItem(
                step=row.step,
                opset=step.node.opset,
                attributes=attributes(step),
                inputs=placed(given(step.inputs)),
                outputs=placed(given(step.outputs)),
                captures=placed(dict.fromkeys(given(body_captures(step)))),
                alignment=need.alignment,
                lifetime=lifetime(row),
                formula=need.formula,
                regions=regions(row),
            )
        )
    steps = program.steps[: program.constant_steps]
    folded = {value: step.node.name for step in steps for value in step.outputs}
    values = [value_item(program, phase, value, folded.get(value, "")) for value in places]
    return PhaseDetail(values=values, nodes=nodes)


def given(values: Iterable[int]) -> list[int]:
    """Values that are there."""
    return [value for value in values if value != ABSENT]


def attributes(step: Step) -> list[str]:
    """A node's attributes, each in a line."""
    return [f"{name} = {_attribute(value)}" for name, value in step.node.attributes.items()]


def _attribute(value: AttributeValue) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_ATTRIBUTE else f"{text[:LONGEST_ATTRIBUTE]}…"


def lifetime(row: NodeRow) -> str:
    """How long a node's scratch lives; empty without any."""
    return row.workspace.lifetime.value if row.workspace.bytes else ""


def regions(row: NodeRow) -> list[RegionInfo]:
    """The named parts of a node's scratch."""
    return [RegionInfo(name=item.name, offset=item.offset, size=item.size) for item in row.workspace.regions]


def value_item(program: Program, phase: PhasePlan, value: int, folded: str = "") -> ValueItem:
    """One value as it is planned in a phase; ``folded`` by the constant node that makes it."""
    item, planned = program.values[value], phase.shapes[value]
    symbolic = "×".join(map(str, item.shape)) or "scalar" if item.shape is not None else "unknown rank"
    weight = program.weights.get(value)
    size = weight.size if weight is not None else _bytes(item.dtype, planned)
    return ValueItem(
        name=item.name,
        kind=item.kind.value,
        dtype=item.dtype.name,
        symbolic=symbolic,
        shape=shape_text(planned),
        bytes=UNKNOWN if item.is_sequence else size,
        bounds=_bounds(planned),
        folded=folded,
    )


def _bytes(dtype: ElementType, planned: Exact | Bounded | Refused) -> int:
    return UNKNOWN if isinstance(planned, Refused) else tensor_bytes(dtype, planned.shape)


def _bounds(planned: Exact | Bounded | Refused) -> list[str]:
    if isinstance(planned, Bounded):
        return [f"axis {axis}: {bound}" for axis, bound in planned.applied]
    if isinstance(planned, Refused):
        return [f"axis {planned.axis}: {planned.reason}", *planned.derivation]
    return []

"""The ``node`` request: one node of a plan with its values, bounds, scratch and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope.graph.dtypes import tensor_bytes
from vramscope.graph.model import ABSENT, AttributeValue, ValueKind
from vramscope.messages.node import NodeInfo, RegionInfo, ValueInfo
from vramscope.plan.types import Bounded, Exact, Refused
from vramscope.report.rows import UNKNOWN, shape_text, workspace_bytes

if TYPE_CHECKING:
    from vramscope.graph.dtypes import ElementType
    from vramscope.graph.model import Model, Program, Step
    from vramscope.messages.node import NodeParams
    from vramscope.plan.types import NodeRow, PhasePlan, Plan

LONGEST_ATTRIBUTE = 120
MOST_READERS = 64


def node_detail(plan: Plan, model: Model, ticket: int, params: NodeParams) -> NodeInfo:
    """One node.

    Raises:
        InputError: the plan has no such phase or step.
    """
    program = (plan.specialised or model).program
    phase, row = _find(plan, params)
    step = program.steps[row.step]
    need = row.workspace
    return NodeInfo(
        ticket=ticket,
        phase=params.phase,
        step=row.step,
        name=row.name,
        operator=step.node.qualified,
        opset=step.node.opset,
        kernel=row.kernel,
        attributes=[f"{name} = {_attribute(value)}" for name, value in step.node.attributes.items()],
        inputs=[_value(program, phase, value, _makers(program, value)) for value in _given(step.inputs)],
        outputs=[_value(program, phase, value, _readers(program, value)) for value in _given(step.outputs)],
        workspace_bytes=workspace_bytes(row),
        workspace_alignment=need.alignment,
        workspace_lifetime=need.lifetime.value if need.bytes else "",
        formula=need.formula,
        regions=[RegionInfo(name=item.name, offset=item.offset, size=item.size) for item in need.regions],
    )


def _find(plan: Plan, params: NodeParams) -> tuple[PhasePlan, NodeRow]:
    for phase in plan.phases:
        for row in phase.nodes:
            if phase.phase.value == params.phase and row.step == params.step:
                return phase, row
    raise InputError(f"step {params.step} of phase {params.phase!r}", "the newest plan has no such node")


def _given(values: tuple[int, ...]) -> list[int]:
    return [value for value in values if value != ABSENT]


def _attribute(value: AttributeValue) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_ATTRIBUTE else f"{text[:LONGEST_ATTRIBUTE]}…"


def _value(program: Program, phase: PhasePlan, value: int, nodes: list[str]) -> ValueInfo:
    item, planned = program.values[value], phase.shapes[value]
    symbolic = "×".join(map(str, item.shape)) or "scalar" if item.shape is not None else "unknown rank"
    weight = program.weights.get(value)
    size = weight.size if weight is not None else _bytes(item.dtype, planned)
    return ValueInfo(
        name=item.name,
        kind=item.kind.value,
        dtype=item.dtype.name,
        symbolic=symbolic,
        shape=shape_text(planned),
        bytes=UNKNOWN if item.is_sequence else size,
        bounds=_bounds(planned),
        nodes=nodes,
    )


def _bytes(dtype: ElementType, planned: Exact | Bounded | Refused) -> int:
    return UNKNOWN if isinstance(planned, Refused) else tensor_bytes(dtype, planned.shape)


def _bounds(planned: Exact | Bounded | Refused) -> list[str]:
    if isinstance(planned, Bounded):
        return [f"axis {axis}: {bound}" for axis, bound in planned.applied]
    if isinstance(planned, Refused):
        return [f"axis {planned.axis}: {planned.reason}", *planned.derivation]
    return []


def _makers(program: Program, value: int) -> list[str]:
    if program.values[value].kind is not ValueKind.ACTIVATION:
        return []
    return [step.node.name for step in program.steps if value in step.outputs]


def _readers(program: Program, value: int) -> list[str]:
    found = [step.node.name for step in program.steps if _reads(step, value)]
    return found[:MOST_READERS]


def _reads(step: Step, value: int) -> bool:
    return value in step.inputs or any(value in body.captures.values() for body in step.bodies.values())

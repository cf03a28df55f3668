"""The ``node`` request: one node of a plan or of a report with its values, scratch and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope.graph.model import ValueKind
from vramscope.messages.node import NodeInfo, ValueInfo
from vramscope.report.details import attributes, given, lifetime, regions, value_item
from vramscope.report.rows import UNKNOWN, workspace_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.graph.model import Model, Program, Step
    from vramscope.messages.node import NodeParams
    from vramscope.plan.types import NodeRow, PhasePlan, Plan
    from vramscope.report.details import PhaseDetail, ValueItem
    from vramscope.report.document import PlanDocument

MOST_READERS = 64


def node_detail(plan: Plan, model: Model, ticket: int, params: NodeParams) -> NodeInfo:
    """One node.

    Raises:
        InputError: the plan has no such phase or step.
    """
    program = (plan.specialised or model).program
    phase, row = _find(plan, params)
    step = program.steps[row.step]

    def told(value: int, nodes: list[str]) -> ValueInfo:
        return _value(value_item(program, phase, value), nodes)

    return NodeInfo(
        ticket=ticket,
        phase=params.phase,
        step=row.step,
        name=row.name,
        operator=step.node.qualified,
        opset=step.node.opset,
        kernel=row.kernel,
        attributes=attributes(step),
        inputs=[told(value, _makers(program, value)) for value in given(step.inputs)],
        outputs=[told(value, _readers(program, value)) for value in given(step.outputs)],
        workspace_bytes=workspace_bytes(row),
        workspace_alignment=row.workspace.alignment,
        workspace_lifetime=lifetime(row),
        formula=row.workspace.formula,
        regions=regions(row),
    )


def _no_such_node(params: NodeParams, where: str) -> InputError:
    return InputError(f"step {params.step} of phase {params.phase!r}", f"{where} has no such node")


def _find(plan: Plan, params: NodeParams) -> tuple[PhasePlan, NodeRow]:
    for phase in plan.phases:
        for row in phase.nodes:
            if phase.phase.value == params.phase and row.step == params.step:
                return phase, row
    raise _no_such_node(params, "the newest plan")


def _value(item: ValueItem, nodes: list[str]) -> ValueInfo:
    return ValueInfo(
        name=item.name,
        kind=item.kind,
        dtype=item.dtype,
        symbolic=item.symbolic,
        shape=item.shape,
        bytes=item.bytes,
        bounds=item.bounds,
        nodes=nodes,
    )


def _makers(program: Program, value: int) -> list[str]:
    if program.values[value].kind is not ValueKind.ACTIVATION:
        return []
    return [step.node.name for step in program.steps if value in step.outputs]


def _readers(program: Program, value: int) -> list[str]:
    found = [step.node.name for step in program.steps if _reads(step, value)]
    return found[:MOST_READERS]


def _reads(step: Step, value: int) -> bool:
    return value in step.inputs or any(value in body.captures.values() for body in step.bodies.values())


def reported_node(document: PlanDocument, ticket: int, params: NodeParams) -> NodeInfo:
    """One node of a report.

    Raises:
        InputError: the report has no such phase or step, or no details.
    """
    detail = details_of(document, params.phase)
    rows = rows_of(document, params.phase)
    item = next((node for node in detail.nodes if node.step == params.step), None)
    if item is None or params.step not in rows:
        raise _no_such_node(params, "the report")
    row, names = rows[params.step], {step: str(row["name"]) for step, row in rows.items()}
    makers = {value: node.step for node in detail.nodes for value in node.outputs}

    def fed(value: int) -> list[str]:
        folded = detail.values[value].folded
        return [names[makers[value]]] if value in makers else [folded] if folded else []

    def read(value: int) -> list[str]:
        found = [node.step for node in detail.nodes if value in node.inputs or value in node.captures]
        return _named(found, names)[:MOST_READERS]

    domain = str(row["domain"]) or "ai.onnx"
    scratch = row["workspace_bytes"]
    return NodeInfo(
        ticket=ticket,
        phase=params.phase,
        step=item.step,
        name=names[item.step],
        operator=f"{domain}::{row['operator']}",
        opset=item.opset,
        kernel=str(row["kernel"]),
        attributes=item.attributes,
        inputs=[_value(detail.values[value], fed(value)) for value in item.inputs],
        outputs=[_value(detail.values[value], read(value)) for value in item.outputs],
        workspace_bytes=scratch if isinstance(scratch, int) else UNKNOWN,
        workspace_alignment=item.alignment,
        workspace_lifetime=item.lifetime,
        formula=item.formula,
        regions=item.regions,
    )


def _named(steps: Iterable[int], names: dict[int, str]) -> list[str]:
    return [names[step] for step in steps if step in names]


def details_of(document: PlanDocument, phase: str) -> PhaseDetail:
    """A phase's details.

    Raises:
        InputError: the report has none.
    """
    found = document.details.get(phase)
    if found is None:
        cure = "Open its model, or save the report again with this version"
        raise InputError(f"the nodes of phase {phase!r}", "the report was saved without their details", cure)
    return found


def rows_of(document: PlanDocument, phase: str) -> dict[int, dict[str, int | str | None]]:
    """A phase's rows by step, their cells by column."""
    columns = document.node_columns
    rows = (dict(zip(columns, row, strict=True)) for row in document.nodes.get(phase, []))
    return {int(row["step"] or 0): row for row in rows}

"""A plan as one versioned document: the model, the plan, every weight, KV buffer, binding and node row.

It is what ``.vramscope.json`` holds, and what every other report is written from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.headroom import HeadroomCurves
from vramscope.messages.model import ModelInfo
from vramscope.messages.planning import BytesFigure, HeadroomInfo, PlanInfo
from vramscope.messages.reporting import RunRecord
from vramscope.report.arena import Block
from vramscope.report.details import PhaseDetail
from vramscope.report.rows import COLUMNS, node_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.plan.types import Plan

FORMAT = "vramscope-plan"
VERSION = 1
"""Raised whenever a field changes its meaning."""
MINOR = 2
"""Raised whenever a field comes in, which an older version passes over: 1 brought curves and details, 2 what
each node holds at the peak."""


class WeightItem(msgspec.Struct, frozen=True, kw_only=True):
    """One stored weight."""

    name: str
    dtype: str
    shape: list[int]
    bytes: int
    users: int
    duplicate_of: str


class KvItem(msgspec.Struct, frozen=True, kw_only=True):
    """One KV buffer."""

    layer: int
    role: str
    input: str
    output: str
    shape: list[int]
    bytes: int
    form: str
    reason: str
    shared: bool


class BindingItem(msgspec.Struct, frozen=True, kw_only=True):
    """One graph input or output that lives for the session."""

    name: str
    direction: str
    shape: list[int]
    figure: BytesFigure


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Everything; ``nodes`` maps a phase's name to rows in the order of ``node_columns``."""

    format: str
    version: int
    model: ModelInfo
    plan: PlanInfo
    weights: list[WeightItem]
    kv: list[KvItem]
    bindings: list[BindingItem]
    node_columns: list[str]
    nodes: dict[str, list[tuple[int | str | None, ...]]]
    headroom: list[HeadroomInfo] = []
    """Totals at other contexts and batches, where they were asked for."""
    identity: str = ""
    """A digest of the graph's nodes and of its weights' names, types and shapes, not of their bytes."""
    run: RunRecord | None = None
    """What was measured, where the model had run."""
    arenas: dict[str, list[Block]] = {}
    """By phase where each value lies in the arena: name, offset, size, first and last step."""
    minor: int = 0
    curves: HeadroomCurves | None = None
    """Components and totals over contexts, of a decoder."""
    details: dict[str, PhaseDetail] = {}
    """By phase what an inspector shows of its nodes; none in a plan of very many."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What a document holds beside the plan itself, where somebody wants it."""

    headroom: Sequence[HeadroomInfo] = ()
    curves: HeadroomCurves | None = None
    arenas: dict[str, list[Block]] = field(default_factory=dict)
    details: dict[str, PhaseDetail] = field(default_factory=dict)


def document(
    model: ModelInfo,
    info: PlanInfo,
    plan: Plan,
    run: RunRecord | None = None,
    more: Extras = Extras(),
) -> PlanDocument:
    """The document of one plan; unknown bytes of a node are null."""
    return PlanDocument(
        format=FORMAT,
        version=VERSION,
        model=model,
        plan=info,
        weights=_weights(plan),
        kv=_kv(plan),
        bindings=_bindings(plan),
        node_columns=list(COLUMNS),
        nodes={
            phase.phase.value: [
                tuple(None if cell == -1 else cell for cell in node_cells(row, phase)) for row in phase.nodes
            ]
            for phase in plan.phases
        },
        headroom=list(more.headroom),
        identity=_identity(plan),
        run=run,
        arenas=more.arenas,
        minor=MINOR,
        curves=more.curves,
        details=more.details,
    )


def _identity(plan: Plan) -> str:
    """Nodes in the order of the program, and every stored weight."""
    found = sha256()
    for node in plan.phases[0].nodes if plan.phases else ():
        found.update(repr((node.name, node.domain, node.operator)).encode())
    for weight in plan.weights.rows:
        found.update(repr((weight.name, weight.dtype, tuple(weight.shape))).encode())
    return found.hexdigest()


def _weights(plan: Plan) -> list[WeightItem]:
    return [
        WeightItem(
            name=row.name,
            dtype=row.dtype,
            shape=list(row.shape),
            bytes=row.bytes,
            users=row.users,
            duplicate_of=row.duplicate_of,
        )
        for row in plan.weights.rows
    ]


def _kv(plan: Plan) -> list[KvItem]:
    return [
        KvItem(
            layer=row.layer,
            role=row.role,
            input=row.input,
            output=row.output,
            shape=list(row.shape),
            bytes=row.bytes,
            form=row.form,
            reason=row.reason,
            shared=row.shared,
        )
        for row in plan.kv.rows
    ]


def _bindings(plan: Plan) -> list[BindingItem]:
    return [
        BindingItem(
            name=row.name,
            direction=row.direction,
            shape=list(row.shape),
            figure=BytesFigure(bytes=row.figure.bytes, certainty=row.figure.certainty.value),
        )
        for row in plan.bindings
    ]

"""A small plan made by hand, with hostile names and every kind of figure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import ElementType
from vramscope.graph.expr import Symbol
from vramscope.graph.model import Model, Node, Program, Step, Value, ValueKind, WeightSource
from vramscope.ops.spec import NO_WORKSPACE, Lifetime, WorkspaceRequirement
from vramscope.plan.arena import ArenaPlan
from vramscope.plan.types import (
    UNKNOWN,
    AxisBound,
    AxisRow,
    BindingRow,
    Bounded,
    Certainty,
    Component,
    ComponentName,
    Exact,
    Figure,
    KvPlan,
    KvRow,
    NodeRow,
    Phase,
    PhasePlan,
    Plan,
    Refused,
    Scenario,
    Suggestion,
    Verdict,
    VerdictKind,
    WeightPlan,
    WeightRow,
    WorkspacePlan,
)

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "=<script>alert('&\"x\"')</script>"
"""A name that must come out of every report as text."""

REFUSED = Refused("y", 0, "n", HOSTILE, "Reshape", 1, "nothing bounds n")


def node_row(step: int, name: str, output: Figure, shape: Exact | Bounded | Refused) -> NodeRow:
    """A row with 64 bytes of scratch at step 1."""
    workspace = WorkspaceRequirement(64, 256) if step == 1 else NO_WORKSPACE
    scope, inputs = ("model", "layers.0"), (Exact((2, 3)),)
    return NodeRow(step, name, "Gemm", "", scope, "host", inputs, (shape,), 24, output, workspace, 40, 16)


def phase_plan(phase: Phase, rows: tuple[NodeRow, ...]) -> PhasePlan:
    """A phase of these rows with an arena of 512 bytes whose peak is at step 1."""
    arena = ArenaPlan((), MappingProxyType({}), MappingProxyType({}), 512, 300, 700, 280, peak_step=1)
    empty: MappingProxyType[Lifetime, int] = MappingProxyType({})
    workspace = WorkspacePlan(
        MappingProxyType({Lifetime.STEP_SCOPED: 64}), empty, MappingProxyType({Lifetime.STEP_SCOPED: "b"})
    )
    refusals = tuple(
        shape for row in rows for shape in (*row.inputs, *row.outputs) if isinstance(shape, Refused)
    )
    return PhasePlan(
        phase, MappingProxyType({"batch": 2}), MappingProxyType({}), arena, workspace, rows, refusals
    )


def made_plan(kind: VerdictKind = VerdictKind.SHORT) -> Plan:
    """Three nodes in prefill, one in decode; the third is refused when ``kind`` says so."""
    bound = AxisBound("seq", 256, "KvCapacity", "KV bucket")
    rows = [
        node_row(0, HOSTILE, Figure.exact(24), Exact((2, 3))),
        node_row(1, "b", Figure.of(1024, bounded=True), Bounded((2, 256), ((1, bound),))),
    ]
    if kind is VerdictKind.REFUSED:
        rows.append(node_row(2, "c", UNKNOWN, REFUSED))
    sizes = {ComponentName.WEIGHTS: Figure.exact(2**20), ComponentName.CONTEXT: UNKNOWN}
    components = tuple(Component(name, sizes.get(name, Figure.exact(512)), HOSTILE) for name in ComponentName)
    total = Figure.of(2**20 + 4 * 512, bounded=True)
    verdict = Verdict(kind, total, 2**20, -2048, f"blame {HOSTILE}", 128, 1, f"Does not fit: {HOSTILE}")
    return Plan(
        scenario=Scenario(batch=2, prompt=3, context=256, budget=2**20),
        context=256,
        context_source="asked for",
        weights=WeightPlan(2**20, (WeightRow("w", "FLOAT", (512, 512), 2**20, 2, ""),), 2**20, 0),
        kv=KvPlan(256, 8, 2048, (KvRow(0, "key", "past", "present", (2, 256), 2048, "capacity", "", True),)),
        bindings=(BindingRow("x", "input", (2, 3), Figure.exact(24)),),
        phases=(phase_plan(Phase.PREFILL, tuple(rows)), phase_plan(Phase.DECODE, tuple(rows[:1]))),
        components=components,
        total=total,
        verdict=verdict,
        axes=(
            AxisRow("seq", 1, 256, Certainty.BOUND, "KvCapacity", "KV bucket", ("seq in [1, 256]",), 3, "b"),
            AxisRow("n", 0, None, Certainty.UNKNOWN, "", "", (), 1, "c", refused="nothing bounds n"),
        ),
        notes=("one node runs through onnx.reference",),
    )


SUGGESTIONS = (Suggestion("Halve the context to 128", 1024, MappingProxyType({"context": 128})),)


def made_model(folder: Path) -> Model:
    """One Gemm with a tied weight; no decoder."""
    node = Node(HOSTILE, "Gemm", "", 22)
    weight = WeightSource(ElementType.FLOAT, (512, 512), 2**20, identity="w")
    values = (
        Value(0, "x", ElementType.FLOAT, (Symbol("batch"), 3), ValueKind.INPUT),
        Value(1, "w", ElementType.FLOAT, (512, 512), ValueKind.WEIGHT),
        Value(2, "w2", ElementType.FLOAT, (512, 512), ValueKind.WEIGHT),
        Value(3, "y", ElementType.FLOAT, None, ValueKind.ACTIVATION),
    )
    program = Program(
        "main",
        values,
        (Step(0, node, (0, 1, 2), (3,)),),
        (0,),
        (3,),
        MappingProxyType({1: weight, 2: weight}),
    )
    return Model(
        path=folder / "model.onnx",
        folder=folder,
        producer="a test",
        opsets=MappingProxyType({"": 22}),
        program=program,
        contract=None,
        problems=("the opset is old",),
    )

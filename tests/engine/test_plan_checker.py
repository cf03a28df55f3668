"""Every plan passes the independent checker: shared models, bundled samples, random programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_checker import check_arena, check_plan

from vramscope.api import Planner, Scenario, open_path
from vramscope.errors import ScenarioError
from vramscope.graph.dtypes import ElementType
from vramscope.graph.expr import Dim, Symbol
from vramscope.graph.model import Model, Node, Program, Step, Value, ValueKind
from vramscope.plan.types import BucketPolicy

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared"
TINY = sorted((SHARED / "models" / "tiny").glob("*")) if (SHARED / "models").is_dir() else []
SAMPLES = sorted(folder for folder in (REPOSITORY / "resources" / "samples").iterdir() if folder.is_dir())
BATCHES = (1, 3)
CONTEXTS = (64, 200, 256)
REFUSALS = ("limit", "fixes it", "a growing KV cache")
"""Words of the refusals that a real model may meet: its limit, a static extent, a pool that does not grow."""


@pytest.mark.parametrize("folder", [*TINY, *SAMPLES], ids=lambda folder: folder.name)
def test_plans_of_real_models(folder: Path) -> None:
    if not any(folder.glob("*.onnx")):
        pytest.skip(f"{folder.name} has no model yet")
    planner = Planner(open_path(folder))
    maxima = {name: 4 for name in ("passage_count",) if name in planner.index.mentions}
    planned = 0
    for batch in BATCHES:
        for context in CONTEXTS:
            scenario = Scenario(batch=batch, prompt=16, context=context, maxima=maxima, budget=2**40)
            for bucket in (BucketPolicy(), BucketPolicy(minimum=32, growing=True)):
                try:
                    plan = planner.plan(replace(scenario, bucket=bucket))
                except ScenarioError as error:
                    assert any(words in str(error) for words in REFUSALS)  # noqa: PT017 - one of many scenarios
                    continue
                check_plan(planner, plan)
                planned += 1
    assert planned


def _value(identity: int, shape: tuple[Dim, ...] | None, kind: ValueKind = ValueKind.ACTIVATION) -> Value:
    return Value(identity, f"v{identity}", ElementType.FLOAT, shape, kind)


IN_PLACE = ("Add", "Mul", "Relu", "Sigmoid")
SHAPES: tuple[tuple[Dim, ...], ...] = ((4,), (2, 2), (8,), (Symbol("rows"),), (Symbol("rows"), 3), (5,), (0,))


@st.composite
def programs(draw: DrawFn) -> Program:
    """A random DAG of one- and two-input operators, some of them views, with random sizes and outputs."""
    values = [_value(0, (Symbol("rows"), 3), ValueKind.INPUT), _value(1, (4,), ValueKind.INPUT)]
    steps: list[Step] = []
    for index in range(draw(st.integers(1, 14))):
        operator = draw(
            st.sampled_from(("Add", "Mul", "Relu", "Sigmoid", "Identity", "Reshape", "Concat", "Split"))
        )
        count = 1 if operator in ("Relu", "Sigmoid", "Identity", "Split") else 2
        inputs = tuple(draw(st.integers(0, len(values) - 1)) for _ in range(count))
        first = values[inputs[0]].shape
        shape = first if operator in (*IN_PLACE, "Identity") else draw(st.sampled_from(SHAPES))
        if operator == "Reshape":
            shape = first[::-1] if first else first
        outputs = tuple(range(len(values), len(values) + (2 if operator == "Split" else 1)))
        values.extend(_value(identity, shape) for identity in outputs)
        steps.append(Step(index, Node(f"n{index}", operator, "", 22), inputs, outputs))
    made = [value.id for value in values if value.kind is ValueKind.ACTIVATION]
    outputs = tuple(draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True)))
    return Program("random", tuple(values), tuple(steps), (0, 1), outputs, MappingProxyType({}))


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(programs(), st.integers(0, 9))
def test_plans_of_random_programs(program: Program, extent: int) -> None:
    planner = Planner(_model(program))
    check_plan(planner, planner.plan(Scenario(maxima={"rows": extent})))


@settings(max_examples=100, deadline=None)
@given(programs())
def test_an_unbounded_axis_leaves_the_total_unknown(program: Program) -> None:
    planner = Planner(_model(program))
    plan = planner.plan(Scenario())
    check_plan(planner, plan)
    assert {refusal.symbol for refusal in plan.refusals} == {"rows"}
    assert plan.total.bytes is None
    assert planner.total_bytes(Scenario()) is None


def _model(program: Program) -> Model:
    return Model(REPOSITORY / "random.onnx", REPOSITORY, "", MappingProxyType({"": 22}), program, None)


def test_the_checker_catches_an_overlap() -> None:
    program = Program(
        "two",
        tuple(
            _value(identity, (4,), ValueKind.INPUT if identity == 0 else ValueKind.ACTIVATION)
            for identity in range(4)
        ),
        (
            Step(0, Node("a", "Concat", "", 22), (0,), (1,)),
            Step(1, Node("b", "Concat", "", 22), (0,), (2,)),
            Step(2, Node("c", "Concat", "", 22), (1, 2), (3,)),
        ),
        (0,),
        (3,),
        MappingProxyType({}),
    )
    arena = Planner(_model(program)).plan(Scenario()).phases[0].arena
    check_arena(program, {}, arena)
    first = arena.placements[1]
    clash = {**arena.placements, 2: arena.placements[2]._replace(slot=first.slot, offset=first.offset)}
    with pytest.raises(AssertionError, match="values 1 and 2 share bytes at step 1"):
        check_arena(program, {}, replace(arena, placements=clash))

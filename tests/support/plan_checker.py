"""A second opinion on a plan.

Lifetimes and overlaps by brute force from the program, no code shared with it.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from math import prod
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import bit_width
from vramscope.graph.expr import evaluate
from vramscope.graph.model import ABSENT, Program, ValueKind
from vramscope.ops.spec import Lifetime
from vramscope.ops.table import spec_for
from vramscope.plan.types import Bounded, Exact, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Model, Step
    from vramscope.plan.arena import ArenaPlan
    from vramscope.plan.planner import Planner
    from vramscope.plan.types import PhasePlan, Plan

STRIDED_FORMS = ("append", "grow")


def check_plan(planner: Planner, plan: Plan) -> None:
    """Every invariant of a plan: arena, workspace, components.

    Raises:
        AssertionError: names the phase and the value or component that is wrong.
    """
    for phase in plan.phases:
        check_phase(planner.model, phase)
    scratch = sum(max(phase.workspace.bytes[key] for phase in plan.phases) for key in Lifetime)
    arena = max(phase.arena.bytes for phase in plan.phases)
    found = {item.name.value: item.figure.bytes for item in plan.components}
    if plan.total.bytes is None:
        assert plan.refusals
        assert found["activations"] is None
        return
    assert found["activations"] == arena
    assert found["workspace"] == scratch
    assert found["KV cache"] == sum(row.bytes for row in plan.kv.rows) + plan.kv.transient
    assert found["inputs and outputs"] == sum(row.figure.known for row in plan.bindings)
    assert plan.total.bytes == sum(size for size in found.values() if size is not None)
    assert planner.total_bytes(plan.scenario) == plan.total.bytes


def check_phase(model: Model, phase: PhasePlan) -> None:
    """The arena and the workspace of one phase."""
    program = model.program
    views = view_roots(model)
    needed = needed_owners(program, views)
    sized = {value for value in needed if not isinstance(phase.shapes[value], Refused)}
    placed = {value for value in phase.arena.placements if value >= 0}
    where = phase.phase.value
    assert placed == sized, f"{where}: {_names(program, placed ^ sized)} placed or left out wrongly"
    for value in placed:
        placement = phase.arena.placements[value]
        assert placement.size == size_of(program, phase, value), program.values[value].name
        born, dies = lifetime(program, views, value)
        assert (placement.first, placement.last) == (born, dies), program.values[value].name
    check_arena(program, views, phase.arena)
    check_parts_of_the_peak(phase)
    _check_scratch(phase)


def check_arena(program: Program, views: Mapping[int, int], arena: ArenaPlan) -> None:
    """No two values alive together share a byte; slots, offsets and all totals are right."""
    placements = list(arena.placements.values())
    assert not set(views) & set(arena.placements), "a view owns memory"
    for item in placements:
        slot = arena.slots[item.slot]
        assert slot.offset == item.offset
        assert 0 <= item.size <= slot.size
        assert item.offset % arena.alignment == 0
        assert item.offset + item.size <= arena.bytes
    for one, other in combinations(placements, 2):
        first, second = sorted((one, other), key=lambda item: item.first)
        apart = one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
        if apart or second.first > first.last or 0 in (one.size, other.size):
            continue
        legal = second.first == first.last and may_overwrite(program, views, first.value, second.value)
        assert legal, f"values {first.value} and {second.value} share bytes at step {second.first}"
    slots = sorted(arena.slots, key=lambda slot: slot.offset)
    for before, after in pairwise(slots):
        assert before.offset + before.size <= after.offset, "slots overlap"
    assert arena.naive == sum(item.size for item in placements)
    assert arena.peak == sum(slot.size for slot in arena.slots)
    assert arena.live_peak <= arena.peak <= arena.naive
    assert arena.peak <= arena.bytes < arena.peak + arena.alignment * (len(arena.slots) + 1)
    live = {step: live_at(arena, step) for step in {item.first for item in placements}}
    assert arena.live_peak == max(live.values(), default=0)
    if live:
        assert live.get(arena.peak_step, 0) == arena.live_peak


def check_parts_of_the_peak(phase: PhasePlan) -> None:
    """Each node's part of the peak is of what it makes, and the parts are all that is alive then."""
    made: dict[int, int] = {}
    for item in phase.arena.placements.values():
        made[item.first] = made.get(item.first, 0) + item.size
    assert all(0 <= row.peak_bytes <= made.get(row.step, 0) for row in phase.nodes)
    assert sum(row.peak_bytes for row in phase.nodes) == phase.arena.live_peak


def live_at(arena: ArenaPlan, step: int) -> int:
    """Bytes alive once all outputs of ``step`` have their place: what was overwritten then counts no more."""
    alive = [item for item in arena.placements.values() if item.first <= step <= item.last]
    begun = {item.slot for item in alive if item.first == step}
    return sum(item.size for item in alive if item.first == step or item.slot not in begun)


def may_overwrite(program: Program, views: Mapping[int, int], old: int, new: int) -> bool:
    """Whether the operator that makes ``new`` may write over ``old``: listed, read once, the same shape."""
    step = next((item for item in program.steps if new in item.outputs), None)
    if step is None or old < 0:
        return False
    listed = spec_for(step.node).in_place
    position = step.outputs.index(new)
    sources = [source for output, source in listed if output == position and source < len(step.inputs)]
    roots = [_root(value, views) for value in step.inputs]
    one, other = program.values[old], program.values[new]
    same = (
        one.shape == other.shape and one.shape is not None and bit_width(one.dtype) == bit_width(other.dtype)
    )
    return any(roots[source] == old for source in sources) and roots.count(old) == 1 and same


def view_roots(model: Model) -> dict[int, int]:
    """Every view and the value whose bytes it is, found by walking the table's rows until nothing changes."""
    program = model.program
    bound = {*program.inputs, *program.outputs}
    pairs = model.contract.kv if model.contract else ()
    strided = {pair.input for pair in pairs if pair.form.value in STRIDED_FORMS}
    direct: dict[int, int] = {}
    for step in program.steps:
        spec = spec_for(step.node)
        constant = step.index < program.constant_steps
        for output, source in (*spec.view, *(spec.strided_view if constant else ())):
            if max(output - len(step.outputs), source - len(step.inputs)) >= 0:
                continue
            value, origin = step.outputs[output], step.inputs[source]
            if ABSENT in (value, origin) or value in bound:
                continue
            if program.values[_root(origin, direct)].name not in strided:
                direct[value] = origin
    return {value: _root(value, direct) for value in direct}


def needed_owners(program: Program, views: Mapping[int, int]) -> set[int]:
    """Results of main steps that somebody reads, that no binding holds and that are no views."""
    bound = {*program.inputs, *program.outputs}
    read = {value for step in program.steps for value in _reads(step)}
    return {
        value
        for step in program.steps[program.constant_steps :]
        for value in step.outputs
        if value not in (ABSENT, *bound)
        and value not in views
        and program.values[value].kind is ValueKind.ACTIVATION
        and not program.values[value].is_sequence
        and value in read
    }


def lifetime(program: Program, views: Mapping[int, int], value: int) -> tuple[int, int]:
    """The step that makes ``value`` and the last one that reads it or a view of it."""
    family = {value, *(view for view, root in views.items() if root == value)}
    born = next(step.index for step in program.steps if value in step.outputs)
    dies = max(step.index for step in program.steps if family & _reads(step))
    return born, (len(program.steps) if family & set(program.outputs) else dies)


def size_of(program: Program, phase: PhasePlan, value: int) -> int:
    """Bytes of a value at the phase's shape; an exact one is evaluated again from the symbols."""
    shape = phase.shapes[value]
    assert isinstance(shape, Exact | Bounded)
    item = program.values[value]
    exact = [evaluate(dim, phase.symbols) for dim in item.shape or ()]
    for extent, again in zip(shape.shape, exact, strict=True):
        assert again is None or extent == again, item.name
    return (prod(shape.shape) * bit_width(item.dtype) + 7) // 8


def _check_scratch(phase: PhasePlan) -> None:
    asked = [(row.workspace, row.name) for row in phase.nodes if row.workspace.bytes]
    for lifetime_class in Lifetime:
        sizes = [need.bytes for need, _ in asked if need.lifetime is lifetime_class]
        strict = [need.alignment for need, _ in asked if need.lifetime is lifetime_class]
        nested = phase.workspace.blame[lifetime_class].startswith("control-flow/")
        if not nested:
            assert phase.workspace.bytes[lifetime_class] == max(sizes, default=0)
            assert phase.workspace.alignment[lifetime_class] == max(strict, default=1)
        assert phase.workspace.bytes[lifetime_class] >= max(sizes, default=0)


def _reads(step: Step) -> set[int]:
    captured = {outer for body in step.bodies.values() for outer in body.captures.values()}
    return {value for value in step.inputs if value != ABSENT} | captured


def _root(value: int, views: Mapping[int, int]) -> int:
    while value in views:
        value = views[value]
    return value


def _names(program: Program, values: set[int]) -> list[str]:
    return sorted(program.values[value].name for value in values)

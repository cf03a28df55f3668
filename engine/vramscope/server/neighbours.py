"""The ``neighbours`` request: the nodes around one of the newest plan, a few hops up and down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope.graph.model import ABSENT
from vramscope.messages.neighbours import LinkInfo, NeighbourInfo, NeighboursInfo
from vramscope.plan.index import body_captures
from vramscope.report.rows import UNKNOWN, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vramscope.graph.model import Model, Program, Step
    from vramscope.messages.neighbours import NeighboursParams
    from vramscope.plan.types import PhasePlan, Plan

MOST_HOPS = 6
MOST_NODES = 160
"""More would be no picture."""


def neighbours(plan: Plan, model: Model, ticket: int, params: NeighboursParams) -> NeighboursInfo:
    """The neighbourhood of one node.

    Raises:
        InputError: the plan has no such phase or step, or so many hops are no neighbourhood.
    """
    if not 1 <= params.hops <= MOST_HOPS:
        raise InputError("the hops", f"{params.hops} is not between 1 and {MOST_HOPS}")
    program = (plan.specialised or model).program
    phase = next((item for item in plan.phases if item.phase.value == params.phase), None)
    rows = {row.step: row for row in phase.nodes} if phase is not None else {}
    if phase is None or params.step not in rows:
        raise InputError(f"step {params.step} of phase {params.phase!r}", "the newest plan has no such node")
    makers, readers = _ends(program, rows.keys())

    def before(step: int) -> Iterable[int]:
        return (makers[value] for value in _read(program.steps[step]) if value in makers)

    def after(step: int) -> Iterable[int]:
        return (reader for value in program.steps[step].outputs for reader in readers.get(value, ()))

    up, down = _reach(params.step, params.hops, before), _reach(params.step, params.hops, after)
    found = {step: -hops for step, hops in up.items()} | down
    nearest = sorted(found, key=lambda step: (abs(found[step]), abs(step - params.step)))
    kept = set(nearest[:MOST_NODES])
    nodes = [
        NeighbourInfo(
            step=step,
            name=rows[step].name,
            operator=rows[step].operator,
            kernel=rows[step].kernel,
            bytes=UNKNOWN if rows[step].output_bytes.bytes is None else rows[step].output_bytes.known,
            hops=found[step],
        )
        for step in sorted(kept)
    ]
    links = list(_links(program, phase, kept, makers))
    return NeighboursInfo(
        ticket=ticket,
        phase=params.phase,
        step=params.step,
        hops=params.hops,
        nodes=nodes,
        links=links,
        left_out=len(found) - len(kept),
    )


def _read(step: Step) -> tuple[int, ...]:
    return _given((*step.inputs, *body_captures(step)))


def _given(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(value for value in values if value != ABSENT))


def _ends(program: Program, steps: Iterable[int]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Per value the step that makes it, and the steps that read it."""
    makers: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for step in steps:
        for value in _given(program.steps[step].outputs):
            makers[value] = step
        for value in _read(program.steps[step]):
            readers.setdefault(value, []).append(step)
    return makers, readers


def _reach(start: int, hops: int, following: Callable[[int], Iterable[int]]) -> dict[int, int]:
    """Every step within so many hops, and how many it takes."""
    found, edge = {start: 0}, [start]
    for distance in range(1, hops + 1):
        edge = [
            step for step in dict.fromkeys(n for item in edge for n in following(item)) if step not in found
        ]
        found |= dict.fromkeys(edge, distance)
    return found


def _links(program: Program, phase: PhasePlan, kept: set[int], makers: dict[int, int]) -> Iterable[LinkInfo]:
    for step in sorted(kept):
        for value in _read(program.steps[step]):
            source = makers.get(value)
            if source in kept and source is not None:
                name, shape = program.values[value].name, shape_text(phase.shapes[value])
                yield LinkInfo(source=source, target=step, value=name, shape=shape)

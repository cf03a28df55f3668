"""The ``neighbours`` request: the nodes around one of a plan or of a report, a few hops up and down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from vramscope.errors import InputError
from vramscope.messages.neighbours import LinkInfo, NeighbourInfo, NeighboursInfo
from vramscope.plan.index import body_captures
from vramscope.report.details import given
from vramscope.report.rows import UNKNOWN, shape_text
from vramscope.server.node_detail import details_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vramscope.graph.model import Model, Step
    from vramscope.messages.neighbours import NeighboursParams
    from vramscope.plan.types import Plan
    from vramscope.report.document import PlanDocument

MOST_HOPS = 6
MOST_NODES = 160
"""More would be no picture."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Who reads and who writes which values, by step; ``named`` gives a value's name and shape."""

    nodes: Mapping[int, NeighbourInfo]
    reads: Callable[[int], tuple[int, ...]]
    writes: Callable[[int], tuple[int, ...]]
    named: Callable[[int], tuple[str, str]]


def neighbours(plan: Plan, model: Model, ticket: int, params: NeighboursParams) -> NeighboursInfo:
    """The neighbourhood of one node.

    Raises:
        InputError: the plan has no such phase or step, or so many hops are no neighbourhood.
    """
    program = (plan.specialised or model).program
    phase = next((item for item in plan.phases if item.phase.value == params.phase), None)
    nodes = {
        row.step: NeighbourInfo(
            step=row.step,
            name=row.name,
            operator=row.operator,
            kernel=row.kernel,
            bytes=UNKNOWN if row.output_bytes.bytes is None else row.output_bytes.known,
            hops=0,
        )
        for row in (phase.nodes if phase is not None else ())
    }
    shapes = phase.shapes if phase is not None else {}
    wiring = Wiring(
        nodes,
        lambda step: _read(program.steps[step]),
        lambda step: _once(program.steps[step].outputs),
        lambda value: (program.values[value].name, shape_text(shapes[value])),
    )
    return around(wiring, ticket, params, "the newest plan")


def reported_neighbours(document: PlanDocument, ticket: int, params: NeighboursParams) -> NeighboursInfo:
    """The neighbourhood of one node of a report.

    Raises:
        InputError: as :func:`neighbours`, or the report has no details.
    """
    detail, rows = details_of(document, params.phase), rows_of(document, params.phase)
    items = {node.step: node for node in detail.nodes if node.step in rows}
    nodes = {
        step: NeighbourInfo(
            step=step,
            name=str(row["name"]),
            operator=str(row["operator"]),
            kernel=str(row["kernel"]),
            bytes=size if isinstance(size := row["output_bytes"], int) else UNKNOWN,
            hops=0,
        )
        for step, row in rows.items()
        if step in items
    }
    wiring = Wiring(
        nodes,
        lambda step: _once((*items[step].inputs, *items[step].captures)),
        lambda step: _once(items[step].outputs),
        lambda value: (detail.values[value].name, detail.values[value].shape),
    )
    return around(wiring, ticket, params, "the report")


def around(wiring: Wiring, ticket: int, params: NeighboursParams, where: str) -> NeighboursInfo:
    """The nodes within some hops, the nearest first where there are too many.

    Raises:
        InputError: there is no such node, or so many hops are no neighbourhood.
    """
    if not 1 <= params.hops <= MOST_HOPS:
        raise InputError("the hops", f"{params.hops} is not between 1 and {MOST_HOPS}")
    if params.step not in wiring.nodes:
        raise InputError(f"step {params.step} of phase {params.phase!r}", f"{where} has no such node")
    makers, readers = _ends(wiring)

    def before(step: int) -> Iterable[int]:
        return (makers[value] for value in wiring.reads(step) if value in makers)

    def after(step: int) -> Iterable[int]:
        return (reader for value in wiring.writes(step) for reader in readers.get(value, ()))

    up, down = _reach(params.step, params.hops, before), _reach(params.step, params.hops, after)
    found = {step: -hops for step, hops in up.items()} | down
    nearest = sorted(found, key=lambda step: (abs(found[step]), abs(step - params.step)))
    kept = set(nearest[:MOST_NODES])
    return NeighboursInfo(
        ticket=ticket,
        phase=params.phase,
        step=params.step,
        hops=params.hops,
        nodes=[msgspec.structs.replace(wiring.nodes[step], hops=found[step]) for step in sorted(kept)],
        links=list(_links(wiring, kept, makers)),
        left_out=len(found) - len(kept),
    )


def _read(step: Step) -> tuple[int, ...]:
    return _once((*step.inputs, *body_captures(step)))


def _once(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(given(values)))


def _ends(wiring: Wiring) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Per value the step that makes it, and the steps that read it."""
    makers: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for step in wiring.nodes:
        for value in wiring.writes(step):
            makers[value] = step
        for value in wiring.reads(step):
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


def _links(wiring: Wiring, kept: set[int], makers: dict[int, int]) -> Iterable[LinkInfo]:
    for step in sorted(kept):
        for value in wiring.reads(step):
            source = makers.get(value)
            if source in kept and source is not None:
                name, shape = wiring.named(value)
                yield LinkInfo(source=source, target=step, value=name, shape=shape)

"""Two plans side by side, or a plan beside what its run took: components, layers, and nodes by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vramscope.errors import InputError
from vramscope.messages.columns import CHUNK_ROWS, TableChunk, integer_column, text_column
from vramscope.messages.planning import DEVICE_CONTEXT, BytesFigure
from vramscope.messages.reporting import CompareInfo, DifferenceInfo, SideInfo
from vramscope.report.entries import NodeEntry, entries, layers
from vramscope.report.text import asked_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vramscope.messages.planning import ComponentInfo
    from vramscope.messages.reporting import RunRecord
    from vramscope.report.document import PlanDocument

TABLE = "compare:nodes"
"""The table of the nodes' differences."""

ABSENT, UNKNOWN = -2, -1
"""In a column of bytes: the side lacks the node; nobody knows its bytes."""

PARTS = ("weight_bytes", "output_bytes", "workspace_bytes")


class NodeDifference(NamedTuple):
    """A node of a phase on either side."""

    phase: str
    left: NodeEntry | None
    right: NodeEntry | None
    difference: int | None
    """Right less left; a side without the node counts as 0, an unknown one makes it unknown."""

    @property
    def one(self) -> NodeEntry:
        """The node on the side that has it."""
        found = self.right or self.left
        assert found is not None
        return found


class Comparison(NamedTuple):
    """Two sides in short, and every node, largest difference first."""

    info: CompareInfo
    nodes: list[NodeDifference]


def plan_side(document: PlanDocument) -> SideInfo:
    """A plan as one side."""
    plan = document.plan
    return SideInfo(
        kind="plan",
        name=document.model.name,
        path=document.model.path,
        asked=asked_words(document.model, plan),
        total=plan.total,
        verdict=plan.verdict.sentence,
        identity=document.identity,
        decoder=document.model.contract is not None,
    )


def compare_plans(left: PlanDocument, right: PlanDocument, ticket: int = 0) -> Comparison:
    """The right plan against the left one."""
    phases = list(dict.fromkeys([*left.nodes, *right.nodes]))
    rows = {phase: (entries(left, phase), entries(right, phase)) for phase in phases}
    nodes = sorted((item for phase in phases for item in _nodes(phase, *rows[phase])), key=_rank)
    both = [item for item in nodes if item.left is not None and item.right is not None]
    info = CompareInfo(
        ticket=ticket,
        left=plan_side(left),
        right=plan_side(right),
        total=difference("total", left.plan.total, right.plan.total),
        components=_components(left.plan.components, right.plan.components),
        layers=_sorted(item for phase in phases for item in _layers(phase, *rows[phase])),
        matched=len(both),
        changed=sum(item.difference != 0 for item in both),
        only_left=sum(item.right is None for item in nodes),
        only_right=sum(item.left is None for item in nodes),
    )
    return Comparison(info, nodes)


def compare_run(document: PlanDocument, ticket: int = 0) -> Comparison:
    """What the run took at its peak against what was planned for it; a run counts components, not nodes.

    Raises:
        InputError: the document holds no run.
    """
    run = document.run
    if run is None:
        cure = "Run the model first, and save the report then"
        raise InputError(f"the run of {document.model.name}", "nothing was measured", cure)
    peak = BytesFigure(bytes=run.snapshot.peak_bytes, certainty="measured")
    left = plan_side(document)
    asked = [f"batch {run.scenario.batch}"]
    if left.decoder:
        asked += [f"prompt {run.scenario.prompt}", f"context {run.scenario.context}"]
    planned = _replaced(left, asked, run.total, "plan")
    info = CompareInfo(
        ticket=ticket,
        left=planned,
        right=_replaced(left, [f"on {run.device}", _steps(run) if left.decoder else "one run"], peak, "run"),
        total=difference("total", run.total, peak),
        components=_sorted(prediction(run)),
        layers=[],
        matched=0,
        changed=0,
        only_left=0,
        only_right=0,
    )
    return Comparison(info, [])


def _replaced(side: SideInfo, asked: list[str], total: BytesFigure, kind: str) -> SideInfo:
    return SideInfo(
        kind=kind,
        name=side.name,
        path=side.path,
        asked=asked,
        total=total,
        verdict="",
        identity=side.identity,
        decoder=side.decoder,
    )


def _steps(run: RunRecord) -> str:
    return f"{run.snapshot.steps_eager} eager and {run.snapshot.steps_replayed} replayed steps"


def prediction(run: RunRecord) -> list[DifferenceInfo]:
    """Every component as planned (left) and at its peak (right); the difference is the plan's signed error.

    Above 0 the plan promised too little. What nobody measures is unknown, and not 0.
    """
    unseen = {item.name: BytesFigure(bytes=None, certainty="unknown") for item in run.components}
    seen = {item.name: item.figure for item in run.snapshot.measured if item.name == DEVICE_CONTEXT}
    measured = (
        unseen
        | seen
        | {
            item.component: BytesFigure(bytes=item.peak_bytes, certainty="measured")
            for item in run.snapshot.counters
        }
    )
    planned = _figures(run.components)
    return [difference(name, planned.get(name), figure) for name, figure in measured.items()]


def difference(
    name: str, left: BytesFigure | None, right: BytesFigure | None, phase: str = ""
) -> DifferenceInfo:
    """One thing on both sides; a side that lacks it counts as 0, an unknown one makes it unknown."""
    sizes = [0 if side is None else side.bytes for side in (left, right)]
    known = sizes[1] - sizes[0] if sizes[0] is not None and sizes[1] is not None else None
    return DifferenceInfo(name=name, left=left, right=right, difference=known, phase=phase)


def _figures(components: Iterable[ComponentInfo]) -> dict[str, BytesFigure]:
    return {item.name: item.figure for item in components}


def _components(left: Iterable[ComponentInfo], right: Iterable[ComponentInfo]) -> list[DifferenceInfo]:
    """Every component of either side, the largest difference first."""
    before, after = _figures(left), _figures(right)
    names = dict.fromkeys([*before, *after])
    return _sorted(difference(name, before.get(name), after.get(name)) for name in names)


def _sorted(items: Iterable[DifferenceInfo]) -> list[DifferenceInfo]:
    return sorted(items, key=lambda item: -abs(item.difference or 0))


def _layers(phase: str, left: Sequence[NodeEntry], right: Sequence[NodeEntry]) -> Iterator[DifferenceInfo]:
    """Weights, outputs and the largest scratch of each layer of a phase."""
    before, after = ({item.layer: _figure(item.own_bytes) for item in layers(side)} for side in (left, right))
    for name in dict.fromkeys([*before, *after]):
        yield difference(name, before.get(name), after.get(name), phase)


def _figure(size: int | None) -> BytesFigure:
    return BytesFigure(bytes=size, certainty="unknown" if size is None else "exact")


def _nodes(phase: str, left: Sequence[NodeEntry], right: Sequence[NodeEntry]) -> Iterator[NodeDifference]:
    """Nodes of a phase matched by name; the second of a name that comes twice with the second."""
    before, after = _named(left), _named(right)
    for name in dict.fromkeys([*after, *before]):
        one, other = before.get(name), after.get(name)
        old, new = (0 if side is None else side.own_bytes for side in (one, other))
        yield NodeDifference(phase, one, other, None if old is None or new is None else new - old)


def _named(rows: Iterable[NodeEntry]) -> dict[tuple[str, int], NodeEntry]:
    seen: dict[str, int] = {}
    named = {}
    for row in rows:
        seen[row.name] = seen.get(row.name, 0) + 1
        named[row.name, seen[row.name]] = row
    return named


def _rank(item: NodeDifference) -> tuple[int, int]:
    """Largest difference first, what is unknown on one side alone before what is equal."""
    known = item.difference
    doubt = known is None and (item.left is None or item.right is None or _lone(item.left, item.right))
    return -abs(known or 0), 0 if doubt else 1


def _lone(left: NodeEntry, right: NodeEntry) -> bool:
    return (left.own_bytes is None) != (right.own_bytes is None)


def node_tables(found: Comparison) -> Iterator[TableChunk]:
    """The nodes as table ``compare:nodes``; of each part of the bytes the left and the right side."""
    rows = found.nodes
    for start in range(0, max(len(rows), 1), CHUNK_ROWS):
        part = rows[start : start + CHUNK_ROWS]
        columns = [
            text_column("phase", (item.phase for item in part)),
            text_column("name", (item.one.name for item in part)),
            text_column("operator", (item.one.operator for item in part)),
            text_column("left_shapes", (item.left.output_shapes if item.left else "" for item in part)),
            text_column("right_shapes", (item.right.output_shapes if item.right else "" for item in part)),
        ]
        for name in PARTS:
            columns.append(integer_column(f"left_{name}", (_cell(item.left, name) for item in part)))
            columns.append(integer_column(f"right_{name}", (_cell(item.right, name) for item in part)))
        yield TableChunk(
            table=TABLE,
            ticket=found.info.ticket,
            start=start,
            rows=len(part),
            columns=columns,
            last=start + CHUNK_ROWS >= len(rows),
        )


def _cell(side: NodeEntry | None, name: str) -> int:
    if side is None:
        return ABSENT
    size = getattr(side, name)
    return UNKNOWN if size is None else int(size)

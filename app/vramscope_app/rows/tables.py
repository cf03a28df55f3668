"""Rows of the axis, counter, problem, decline and output tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope_app.rows.cells import Cell, Heading, Row, bytes_cell, count_cell
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vramscope.messages.live import CounterInfo, SnapshotInfo
    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import PlanInfo
    from vramscope.messages.running import DeclineInfo, OutputInfo, RunModelInfo
    from vramscope.protocol import ErrorInfo

COUNTER_HEADINGS = (
    Heading("Component", 26, "The session's own allocations; below them what lies around them"),
    Heading("Now", 9, "Bytes held now", right=True),
    Heading("Peak", 9, "The most bytes held at once", right=True),
    Heading("Total", 9, "All bytes ever asked for", right=True),
    Heading("# now", 6, "Allocations held now", right=True),
    Heading("# peak", 6, "The most allocations at once", right=True),
    Heading("# total", 7, "All allocations ever made", right=True),
)
PROBLEM_HEADINGS = (
    Heading("", 3),
    Heading("Problem", 62),
    Heading("What to do", 38),
    Heading("Node", 34, "Double-click or press Enter to show it in the tree"),
)
DECLINE_HEADINGS = (
    Heading("Node", 34, "Double-click or press Enter to show it in the tree"),
    Heading("Reason", 46),
    Heading("What to do", 40),
    Heading("Operator", 20),
    Heading("Seam", 28, "Why the node stands between two graphs"),
)
OUTPUT_HEADINGS = (
    Heading("Output", 12),
    Heading("Type and shape", 18),
    Heading("Smallest to largest, mean", 18),
)
_SEVERITIES = {"error": ("error", "bad"), "warning": ("warning", "warning"), "note": ("note", "info")}


def counter_rows(counters: Iterable[CounterInfo]) -> list[Row]:
    """One row a component."""
    return [
        Row(
            item.component,
            (
                Cell(tr(item.component)),
                bytes_cell(item.current_bytes),
                bytes_cell(item.peak_bytes),
                bytes_cell(item.total_bytes),
                count_cell(item.current_count),
                count_cell(item.peak_count),
                count_cell(item.total_count),
            ),
        )
        for item in counters
    ]


def level_rows(now: SnapshotInfo) -> list[Row]:
    """What lies around the session's own allocations: claims, what they leave, peaks by phase, the card."""
    if not now.sequence:
        return []
    left = tr("Bytes that the governor could still grant to anybody")
    beyond = tr("What pools, drivers and other processes hold beside these allocations")
    beside = None if now.card_used is None else now.card_used - now.allocated_bytes
    return [
        *(
            _level(
                tr("claimed: {purpose}", purpose=tr(item.purpose)), tr("Granted by the governor"), item.bytes
            )
            for item in now.leases
        ),
        _level(tr("left to claim"), left, now.left),
        _level(tr("card, used by everybody"), tr("As its driver says"), now.card_used),
        _level(tr("pool, driver, others"), beyond, beside),
        *(
            _level(tr("peak in {phase}", phase=item.phase), tr("The most at once"), None, item.bytes)
            for item in now.phase_peaks
        ),
    ]


def _level(name: str, tip: str, size: int | None, peak: int | None = None) -> Row:
    none = Cell("–", tone="muted", right=True)
    sizes = (bytes_cell(size), none) if peak is None else (none, bytes_cell(peak))
    return Row(name, (Cell(name, tip, "muted"), *sizes, *(none for _ in COUNTER_HEADINGS[3:])))


def problem_rows(
    model: ModelInfo | None, plan: PlanInfo | None, failures: Sequence[tuple[str, ErrorInfo]]
) -> list[Row]:
    """Failed requests first, then the plan's problems by severity; without a plan what opening noticed."""
    rows = [
        _problem_row("error", f"{method}: {error.what}: {error.why}", error.remedy, error.node)
        for method, error in failures
    ]
    if plan is not None:
        ranks = {name: rank for rank, name in enumerate(_SEVERITIES)}
        found = sorted(plan.problems, key=lambda item: ranks.get(item.severity, len(ranks)))
        rows += [_problem_row(item.severity, item.text, item.remedy, item.node) for item in found]
    elif model is not None:
        rows += [_problem_row("note", text, "", "") for text in model.problems]
    return _numbered(rows)


def _problem_row(severity: str, text: str, remedy: str, node: str) -> Row:
    icon, tone = _SEVERITIES.get(severity, ("note", "info"))
    cells = (
        Cell("", tr(severity), tone, icon=icon),
        Cell(text, text),
        Cell(remedy, remedy),
        Cell(node, node),
    )
    return Row(f"{severity} {text} {node}", cells, node, "\n".join(filter(None, (text, remedy))))


def _numbered(rows: list[Row]) -> list[Row]:
    """Keys made unique: the same text may come twice."""
    return [Row(f"{index} {row.key}", row.cells, row.node, row.detail) for index, row in enumerate(rows)]


def decline_rows(declines: Sequence[DeclineInfo]) -> list[Row]:
    """One row a node (or the whole graph) that was not captured."""
    rows = [
        Row(
            item.node,
            (
                Cell(item.node or tr("the whole graph"), item.node, "warning", icon="warning"),
                Cell(item.reason, item.reason),
                Cell(item.remedy, item.remedy),
                Cell(item.operator),
                Cell(item.seam, item.seam),
            ),
            item.node,
            "\n".join(filter(None, (item.reason, item.remedy))),
        )
        for item in declines
    ]
    return _numbered(rows)


def output_rows(run: RunModelInfo | None) -> list[Row]:
    """One row an output of a model that is no decoder."""
    if run is None:
        return []
    return [
        Row(
            item.name,
            (
                Cell(item.name, item.name),
                _shape_cell(item),
                _values_cell(item),
            ),
        )
        for item in run.outputs
    ]


def _shape_cell(item: OutputInfo) -> Cell:
    text = f"{item.dtype} {'×'.join(map(str, item.shape)) or tr('scalar')}"
    return Cell(text, text)


def _values_cell(item: OutputInfo) -> Cell:
    if item.minimum is None or item.maximum is None or item.mean is None:
        return Cell("–", tr("not a number type"), "muted")
    exact = tr(
        "smallest {minimum!r}\nlargest {maximum!r}\nmean {mean!r}",
        minimum=item.minimum,
        maximum=item.maximum,
        mean=item.mean,
    )
    return Cell(
        tr(
            "{minimum:.4g} to {maximum:.4g}, {mean:.3g}",
            minimum=item.minimum,
            maximum=item.maximum,
            mean=item.mean,
        ),
        exact,
    )

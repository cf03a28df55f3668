"""``vramscope plan``: what memory a model needs, against a card."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.cli import screen
from vramscope.cli.assuming import assumption_lines, suggestion_words
from vramscope.cli.exit_codes import ExitCode
from vramscope.cli.session import check_reports, make_plan, open_model, scenario, write_reports
from vramscope.plan.types import VerdictKind
from vramscope.report.rows import bytes_text, live_bytes, workspace_bytes
from vramscope.report.text import after_text, asked_words, figure_text, range_text, shown_components
from vramscope.server.engine import Engine
from vramscope.units import format_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import HeadroomInfo, PlanInfo
    from vramscope.plan.types import NodeRow, Plan

BAR = 24
"""Characters of a full bar."""

SHOWN_AXES = 24
"""Axes in the table; ``--json`` has them all."""

CODES: Mapping[str, ExitCode] = MappingProxyType(
    {VerdictKind.SHORT.value: ExitCode.SHORT, VerdictKind.REFUSED.value: ExitCode.BAD_INPUT}
)
"""By verdict, where it is not :attr:`ExitCode.DONE`."""


def plan(arguments: argparse.Namespace) -> int:
    """Prints the plan and writes its reports."""
    check_reports(arguments)
    engine, meter = Engine(), screen.Meter()
    info = open_model(
        engine, arguments.model, screen.listener(meter), without_weights=arguments.without_weights
    )
    made = make_plan(engine, scenario(arguments, info))
    meter.clear()
    room = engine.headroom() if arguments.headroom else []
    written = write_reports(engine, arguments)
    if arguments.json:
        screen.print_json(engine.document(headroom=arguments.headroom))
    else:
        out = screen.console()
        show_plan(out, info, made)
        _show_headroom(out, room, made)
        _show_nodes(out, engine.plan_made, arguments.nodes)
        for path in written:
            out.print(f"wrote {path}")
    return exit_code(made)


def exit_code(made: PlanInfo) -> ExitCode:
    """What a pipeline is told: done where it fits or nothing was to judge it against."""
    return CODES.get(made.verdict.kind, ExitCode.DONE)


def show_plan(out: Console, info: ModelInfo, made: PlanInfo) -> None:
    """The whole plan as text."""
    out.print(f"{info.name}: {', '.join(asked_words(info, made))}; planned in {made.milliseconds:.0f} ms")
    for line in assumption_lines(made):
        out.print(line)
    _show_components(out, made)
    _show_verdict(out, made)
    _show_suggestions(out, made)
    _show_axes(out, made)
    for problem in made.problems:
        if problem.text != made.verdict.sentence:
            _show_problem(out, problem.severity, problem.text, problem.remedy, problem.node)


def _show_components(out: Console, made: PlanInfo) -> None:
    whole = made.verdict.available or made.total.bytes or 1
    rows = [
        (
            item.name,
            figure_text(item.figure),
            item.figure.certainty,
            _bar(item.figure.bytes, whole),
            item.detail,
        )
        for item in shown_components(made.components)
    ]
    rows.append(("total", figure_text(made.total), made.total.certainty, _bar(made.total.bytes, whole), ""))
    if made.verdict.available is not None:
        name = made.scenario.card or "budget"
        rows.append((name, format_bytes(made.verdict.available), "available", "█" * BAR, ""))
    screen.table(out, "", ("component", "bytes", "known as", "share", "made of"), rows, right="1")


def _bar(size: int | None, whole: int) -> str:
    if size is None:
        return "?"
    eighths = min(size * BAR * 8 // whole, BAR * 8)
    partial = " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    full = "█" * (eighths // 8) + partial
    return f"{full} >" if size > whole else full


def _show_verdict(out: Console, made: PlanInfo) -> None:
    verdict = made.verdict
    style = {"fits": "bold green", "does not fit": "bold red", "cannot be planned": "bold red"}
    out.print(verdict.sentence, style=style.get(verdict.kind, "bold"))
    if verdict.blame not in verdict.sentence and verdict.kind != "cannot be planned":
        out.print(f"  blame            {verdict.blame}")
    if verdict.largest_context is not None:
        out.print(f"  largest context  {verdict.largest_context:,} tokens fit at this batch")
    if verdict.largest_batch is not None:
        out.print(f"  largest batch    {verdict.largest_batch:,} sequences fit at this context")
    for phase in made.phases if verdict.kind != "cannot be planned" else ():
        peak = f", its peak at {phase.peak_node}" if phase.peak_node else ""
        out.print(f"  {phase.name:<15}  activations {bytes_text(phase.arena_bytes)}{peak}")


def _show_suggestions(out: Console, made: PlanInfo) -> None:
    if made.suggestions:
        rows = [
            (
                suggestion_words(item),
                format_bytes(item.saves) if item.saves else "–",
                after_text(item.headroom),
            )
            for item in made.suggestions
        ]
        screen.table(out, "What would help", ("change", "saves", "then"), rows, right="1")


def _show_axes(out: Console, made: PlanInfo) -> None:
    rows = [
        (axis.symbol, range_text(axis.low, axis.high), axis.certainty, axis.refused or axis.source)
        for axis in made.axes[:SHOWN_AXES]
    ]
    if rows:
        screen.table(out, "Symbolic axes", ("symbol", "extent", "known as", "because"), rows, right="1")
    if len(made.axes) > SHOWN_AXES:
        out.print(f"and {len(made.axes) - SHOWN_AXES} more axes (--json lists them)")


def _show_problem(out: Console, severity: str, text: str, remedy: str, node: str) -> None:
    where = f" (at node {node})" if node else ""
    cure = f". {remedy}" if remedy else ""
    out.print(f"{severity}: {text}{where}{cure}")


def _show_headroom(out: Console, room: Sequence[HeadroomInfo], made: PlanInfo) -> None:
    """A row a context, a column a batch; ✓ where it fits and ✗ where it does not."""
    batches = list(dict.fromkeys(cell.batch for cell in room))
    rows: dict[int, list[str]] = {}
    for cell in room:
        rows.setdefault(cell.context, []).append(_room_text(cell))
    against = f" in {format_bytes(made.verdict.available)}" if made.verdict.available is not None else ""
    headings = ("context", *(f"batch {batch:,}" for batch in batches))
    cells = [(f"{context:,}" if context else "–", *totals) for context, totals in rows.items()]
    digits = "".join(map(str, range(len(headings))))
    screen.table(out, f"Total at other contexts and batches{against}", headings, cells, right=digits)


def _room_text(cell: HeadroomInfo) -> str:
    if cell.bytes is None:
        return "unknown"
    mark = {True: " ✓", False: " ✗", None: ""}[cell.fits]
    return f"{format_bytes(cell.bytes)}{mark}"


def _show_nodes(out: Console, made: Plan, number: int) -> None:
    for phase in made.phases if number else ():
        largest = sorted(phase.nodes, key=_node_bytes, reverse=True)[:number]
        rows = [
            (
                row.name,
                row.operator,
                row.kernel,
                "unknown" if row.output_bytes.bytes is None else format_bytes(row.output_bytes.bytes),
                bytes_text(workspace_bytes(row)),
                format_bytes(row.weight_bytes),
                bytes_text(live_bytes(row, phase)),
            )
            for row in largest
        ]
        headings = ("node", "operator", "kernel", "output", "workspace", "weights", "live")
        screen.table(out, f"Largest nodes of {phase.phase.value}", headings, rows, right="3456")


def _node_bytes(row: NodeRow) -> int:
    return row.output_bytes.known + row.workspace.bytes

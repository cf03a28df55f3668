"""``vramscope compare``: two plans, or a plan and its run, side by side; fails a job when memory grew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vramscope.cli import screen
from vramscope.cli.exit_codes import ExitCode
from vramscope.cli.session import scenario
from vramscope.errors import InputError
from vramscope.messages.columns import TableChunk, column_values
from vramscope.messages.model import OpenParams
from vramscope.messages.reporting import CompareInfo, DifferenceInfo
from vramscope.report.compare import Comparison, NodeDifference, compare_plans, compare_run, node_tables
from vramscope.report.markdown import comparison, side_text
from vramscope.report.read import ENDING
from vramscope.report.text import difference_text, percent_text
from vramscope.report.write import write_text
from vramscope.server.reporting import load_document
from vramscope.server.samples import is_sample
from vramscope.units import format_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rich.console import Console

    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import ScenarioInfo
    from vramscope.report.document import PlanDocument
    from vramscope.report.entries import NodeEntry

SHOWN_LAYERS = 12
BAR = 14
"""Characters of the longest bar."""


class CompareDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The document of ``compare --json``; ``nodes`` are rows in the order of ``node_columns``."""

    comparison: CompareInfo
    limit: int | None
    """Bytes by which B may be larger."""
    grown: bool
    """Whether B is larger than that."""
    node_columns: list[str]
    nodes: list[list[int | str]]


def compare(arguments: argparse.Namespace) -> int:
    """Prints both sides; the exit code says whether B grew too much."""
    meter = screen.Meter()
    left = _load(arguments.left, arguments, meter, as_if=[])
    other = arguments.right or (arguments.left if arguments.as_if else None)
    if other is None:
        found = compare_run(left)
    else:
        found = compare_plans(left, _load(other, arguments, meter, as_if=arguments.as_if))
    meter.clear()
    limit = _limit(arguments.fail_if_larger, found.info)
    more = found.info.total.difference
    grown = limit is not None and more is not None and more > limit
    if arguments.export is not None:
        write_text(arguments.export, comparison(found.info))
    if arguments.json:
        columns, rows = _node_rows(found)
        screen.print_json(
            CompareDocument(comparison=found.info, limit=limit, grown=grown, node_columns=columns, nodes=rows)
        )
    else:
        show(screen.console(), found, arguments.nodes)
    return _judged(arguments, limit, more, grown=grown)


def _judged(arguments: argparse.Namespace, limit: int | None, more: int | None, *, grown: bool) -> int:
    if arguments.fail_if_larger is None:
        return 0
    if limit is None or more is None:
        print("error: a total is unknown, so nobody can say whether it grew", file=sys.stderr)
        return ExitCode.BAD_INPUT
    if grown:
        print(f"grew by {format_bytes(more)}, more than the {format_bytes(limit)} allowed", file=sys.stderr)
    return ExitCode.SHORT if grown else ExitCode.DONE


def _load(
    name: str, arguments: argparse.Namespace, meter: screen.Meter, *, as_if: Sequence[str]
) -> PlanDocument:
    if as_if and name.lower().endswith(ENDING):
        raise InputError(
            f"{name} as if exported otherwise", "it is a saved report: it holds no model", "Give its model"
        )
    sample = not Path(name).expanduser().exists() and is_sample(name)
    without = arguments.without_weights
    source = OpenParams(sample=name) if sample else OpenParams(path=name, without_weights=without)

    def asked(info: ModelInfo) -> ScenarioInfo:
        return msgspec.structs.replace(scenario(arguments, info), as_if=list(as_if))

    return load_document(source, asked, screen.listener(meter))


def _limit(allowed: tuple[str, int] | None, found: CompareInfo) -> int | None:
    """Bytes by which B may be larger: a size, or thousandths of a percent of A."""
    if allowed is None:
        return None
    kind, amount = allowed
    if kind == "bytes":
        return amount
    whole = found.left.total.bytes
    return None if whole is None else whole * amount // 100_000


def _node_rows(found: Comparison) -> tuple[list[str], list[list[int | str]]]:
    columns: dict[str, list[int | str]] = {}
    for chunk in node_tables(found):
        _take(columns, chunk)
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _take(columns: dict[str, list[int | str]], chunk: TableChunk) -> None:
    for column in chunk.columns:
        values: Sequence[int | str] = column_values(column)  # type: ignore[assignment]  # no floats here
        columns.setdefault(column.name, []).extend(values)


def show(out: Console, found: Comparison, nodes: int) -> None:
    """Both sides, components, layers and nodes, the largest difference first."""
    info = found.info
    for letter, side in (("A", info.left), ("B", info.right)):
        out.print(f"{letter}  {side.name} ({side.kind}): {', '.join(side.asked)}")
    out.print()
    _show_rows(out, "", "component", [*info.components, info.total])
    layers = [item for item in info.layers if item.difference != 0][:SHOWN_LAYERS]
    _show_rows(out, "Layers that differ most", "layer", layers)
    _show_nodes(out, found.nodes, nodes)
    for side, letter in ((info.left, "A"), (info.right, "B")):
        if side.verdict:
            out.print(f"{letter}: {side.verdict}")
    if found.nodes:
        out.print(
            f"{info.matched:,} nodes on both sides, {info.changed:,} of them differ; "
            f"{info.only_left:,} only in A, {info.only_right:,} only in B"
        )
    out.print(_sentence(info.total), style="bold")


def _sentence(total: DifferenceInfo) -> str:
    if total.difference is None:
        return "A total is unknown: the difference is unknown too"
    if total.difference == 0:
        return "B takes as much as A"
    word = "more" if total.difference > 0 else "less"
    whole = total.left.bytes if total.left is not None else None
    share = percent_text(total.difference, whole)
    return f"B takes {format_bytes(abs(total.difference))} {word} than A ({share})"


def _show_rows(out: Console, title: str, what: str, items: Sequence[DifferenceInfo]) -> None:
    most = max((abs(item.difference or 0) for item in items), default=0)
    rows = [
        (
            f"{item.phase}: {item.name}" if item.phase else item.name,
            side_text(item.left),
            side_text(item.right),
            difference_text(item.difference),
            percent_text(item.difference, item.left.bytes if item.left is not None else None),
            _bar(item.difference, most),
        )
        for item in items
    ]
    screen.table(out, title, (what, "A", "B", "B − A", "of A", ""), rows, right="1234")


def _bar(difference: int | None, most: int) -> str:
    """``+`` for more, ``−`` for less, as long as the difference is beside the largest."""
    if not difference or not most:
        return ""
    return ("+" if difference > 0 else "−") * max(1, abs(difference) * BAR // most)


def _show_nodes(out: Console, nodes: Sequence[NodeDifference], number: int) -> None:
    rows = [
        (
            item.phase,
            item.one.name,
            item.one.operator,
            _side(item.left),
            _side(item.right),
            difference_text(item.difference),
        )
        for item in nodes[:number]
        if item.difference != 0
    ]
    headings = ("phase", "node", "operator", "A", "B", "B − A")
    screen.table(out, "Nodes that differ most (weights, outputs and scratch)", headings, rows, right="345")


def _side(side: NodeEntry | None) -> str:
    if side is None:
        return "–"
    size = side.own_bytes
    return "unknown" if size is None else format_bytes(size)

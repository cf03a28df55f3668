"""A plan as one self-contained HTML page: inline style, no script, everything escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from vramscope.report.rows import bytes_text, live_bytes, shape_text, workspace_bytes
from vramscope.report.text import after_text, asked_words, figure_text, range_text
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import PlanInfo
    from vramscope.plan.types import NodeRow, PhasePlan, Plan

LARGEST = 200
"""Nodes of a phase on the page; the JSON and CSV reports have them all."""

COLOURS = ("#3b6fd4", "#2f9e7d", "#d08a2e", "#8a5cc9", "#6b7785", "#b5bcc6")
"""One per component, in order; they keep their contrast on a light and a dark page."""

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#5d6773;--line:#d9dee4;--page:#fff;--bar:#eef1f4}
@media(prefers-color-scheme:dark){
:root{--ink:#e6e9ed;--dim:#9aa4b0;--line:#343b44;--page:#16191d;--bar:#262c33}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:72rem;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.25rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--dim);font-weight:600}td.n,th.n{text-align:right;white-space:nowrap}
.bar{display:flex;height:1.5rem;background:var(--bar);border-radius:4px;overflow:hidden;margin:1rem 0 .5rem}
.bar span{display:block;height:100%}.key{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;
margin-right:.5rem}
.verdict{font-size:1.15rem;font-weight:600;margin-top:1rem}.fits{color:#1d8a5b}.short{color:#c8382e}
.dim{color:var(--dim)}.wrap{overflow-wrap:anywhere}
"""


def html_text(model: ModelInfo, info: PlanInfo, plan: Plan) -> str:
    """The page."""
    sections = (
        _head(model, info),
        _components(info),
        _suggestions(info),
        _problems(info),
        _axes(info),
        *(_phase(phase) for phase in plan.phases),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(model.name)}: memory plan</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body>\n</html>\n"
    )


def _head(model: ModelInfo, info: PlanInfo) -> str:
    words = [*asked_words(model, info), *([info.scenario.card] if info.scenario.card else [])]
    tone = {"fits": "fits", "does not fit": "short", "cannot be planned": "short"}.get(info.verdict.kind, "")
    lines = [
        f"<h1>{escape(model.name)}</h1>",
        f'<p class="dim wrap">{escape(model.path)} · {model.nodes:,} nodes · {escape(", ".join(words))}</p>',
        f'<p class="verdict {tone}">{escape(info.verdict.sentence)}</p>',
    ]
    if info.verdict.blame:
        lines.append(f"<p>{escape(info.verdict.blame)}</p>")
    if info.verdict.largest_context is not None:
        lines.append(f"<p>Largest context at this batch: {info.verdict.largest_context:,} tokens</p>")
    if info.verdict.largest_batch is not None:
        lines.append(f"<p>Largest batch at this context: {info.verdict.largest_batch:,} sequences</p>")
    return "\n".join(lines)


def _components(info: PlanInfo) -> str:
    whole = max(info.verdict.available or 0, info.total.bytes or 0, 1)
    spans, rows = [], []
    for index, item in enumerate(info.components):
        colour = COLOURS[index % len(COLOURS)]
        width = 100 * (item.figure.bytes or 0) / whole
        spans.append(
            f'<span style="width:{width:.4f}%;background:{colour}" title="{escape(item.name)}"></span>'
        )
        key = f'<span class="key" style="background:{colour}"></span>{escape(item.name)}'
        rows.append((key, *_escaped(figure_text(item.figure), item.figure.certainty, item.detail)))
    rows.append(_escaped("total", figure_text(info.total), info.total.certainty, ""))
    if info.verdict.available is not None:
        name = info.scenario.card or "budget"
        rows.append(_escaped(name, format_bytes(info.verdict.available), "available", ""))
    table = _table(("component", "bytes", "known as", "made of"), rows, numbers=(1,))
    return f'<h2>Memory</h2>\n<div class="bar">{"".join(spans)}</div>\n{table}'


def _suggestions(info: PlanInfo) -> str:
    rows = [
        _escaped(item.title, format_bytes(item.saves) if item.saves else "–", after_text(item.headroom))
        for item in info.suggestions
    ]
    return _section("What would help", ("change", "saves", "then"), rows, numbers=(1,))


def _problems(info: PlanInfo) -> str:
    rows = [_escaped(item.severity, item.text, item.node, item.remedy) for item in info.problems]
    return _section("Problems and notes", ("severity", "what", "node", "remedy"), rows)


def _axes(info: PlanInfo) -> str:
    rows = [
        _escaped(axis.symbol, range_text(axis.low, axis.high), axis.certainty, axis.refused or axis.source)
        for axis in info.axes
    ]
    return _section("Symbolic axes", ("symbol", "extent", "known as", "because"), rows, numbers=(1,))


def _phase(phase: PhasePlan) -> str:
    largest = sorted(phase.nodes, key=_node_bytes, reverse=True)[:LARGEST]
    arena = "unknown" if phase.refusals else format_bytes(phase.arena.bytes)
    title = f"Nodes of {phase.phase.value}: arena {arena}"
    if len(phase.nodes) > LARGEST:
        title += f", the {LARGEST} largest of {len(phase.nodes):,}"
    headings = (
        "step",
        "node",
        "operator",
        "kernel",
        "output shapes",
        "output",
        "workspace",
        "weights",
        "live",
    )
    return _section(title, headings, [_node(row, phase) for row in largest], numbers=(0, 5, 6, 7, 8))


def _node(row: NodeRow, phase: PhasePlan) -> tuple[str, ...]:
    return _escaped(
        str(row.step),
        row.name,
        row.operator,
        row.kernel,
        ", ".join(map(shape_text, row.outputs)),
        "unknown" if row.output_bytes.bytes is None else format_bytes(row.output_bytes.bytes),
        bytes_text(workspace_bytes(row)),
        format_bytes(row.weight_bytes),
        bytes_text(live_bytes(row, phase)),
    )


def _node_bytes(row: NodeRow) -> int:
    return row.output_bytes.known + row.workspace.bytes


def _escaped(*cells: str) -> tuple[str, ...]:
    return tuple(escape(cell) for cell in cells)


def _section(
    title: str, headings: Sequence[str], rows: Sequence[tuple[str, ...]], *, numbers: tuple[int, ...] = ()
) -> str:
    """A headed table, or nothing when there are no rows."""
    return f"<h2>{escape(title)}</h2>\n{_table(headings, rows, numbers=numbers)}" if rows else ""


def _table(headings: Sequence[str], rows: Iterable[tuple[str, ...]], *, numbers: tuple[int, ...]) -> str:
    """A table of cells that are HTML already; ``numbers`` are the columns set to the right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="n"' if index in numbers else ' class="wrap"' for index in range(len(row))]
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>\n<tr>{cells('th', headings)}</tr>\n{body}\n</table>"

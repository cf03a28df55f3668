"""A plan as one self-contained HTML page: inline style and charts, no script, everything escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from vramscope.report.entries import NodeEntry, add, entries, layers
from vramscope.report.html_charts import arena_steps, colour_of, component_bar, headroom_lines, layer_bar
from vramscope.report.measured import DECODE, measured, slowest
from vramscope.report.text import (
    after_text,
    asked_words,
    assumed_words,
    difference_text,
    figure_text,
    range_text,
    shown_components,
)
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import PlanInfo
    from vramscope.messages.reporting import RunRecord
    from vramscope.report.document import PlanDocument

LARGEST = 200
"""Nodes of a phase on the page; the JSON and CSV reports have them all."""

SLOWEST = 20
"""Nodes of a profile on the page."""

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
svg{display:block;width:100%;height:auto;margin:.75rem 0 .5rem;font:12px system-ui,sans-serif}
svg.small{width:12rem;margin:.25rem 0}text{fill:var(--dim)}.ground{fill:var(--bar)}
.grid{stroke:var(--line)}.limit{stroke:#c8382e;stroke-width:2;fill:none}.line{stroke:var(--ink);fill:none}
.area{fill:#009e73;fill-opacity:.45;stroke:#009e73}.peak{fill:#c8382e}.key{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;
margin-right:.5rem}
.verdict{font-size:1.15rem;font-weight:600;margin-top:1rem}.fits{color:#1d8a5b}.short{color:#c8382e}
.dim{color:var(--dim)}.wrap{overflow-wrap:anywhere}
"""


def html_text(document: PlanDocument) -> str:
    """The page."""
    model, info = document.model, document.plan
    sections = (
        _head(model, info),
        _components(info),
        _suggestions(info),
        _run(document.run),
        _profile(document),
        _problems(info),
        _headroom(document),
        _axes(info),
        *(_layers(document, phase) for phase in document.nodes),
        *(_phase(document, phase) for phase in document.nodes),
        f'<p class="dim">Written by VRAMScope · graph {escape(document.identity[:16])}</p>',
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
    lines += [f'<p class="wrap">{escape(words)}</p>' for words in assumed_words(info)]
    if info.verdict.blame not in info.verdict.sentence:
        lines.append(f"<p>Largest part: {escape(info.verdict.blame)}</p>")
    if info.verdict.largest_context is not None:
        lines.append(f"<p>Largest context at this batch: {info.verdict.largest_context:,} tokens</p>")
    if info.verdict.largest_batch is not None:
        lines.append(f"<p>Largest batch at this context: {info.verdict.largest_batch:,} sequences</p>")
    return "\n".join(lines)


def _components(info: PlanInfo) -> str:
    rows = []
    components = shown_components(info.components)
    for item in components:
        key = f'<span class="key" style="background:{colour_of(item.name)}"></span>{escape(item.name)}'
        rows.append((key, *_escaped(figure_text(item.figure), item.figure.certainty, item.detail)))
    rows.append(_escaped("total", figure_text(info.total), info.total.certainty, ""))
    if info.verdict.available is not None:
        name = info.scenario.card or "budget"
        rows.append(_escaped(name, format_bytes(info.verdict.available), "available", ""))
    table = _table(("component", "bytes", "known as", "made of"), rows, numbers=(1,))
    return f"<h2>Memory</h2>\n{component_bar(components, info.verdict.available)}\n{table}"


def _suggestions(info: PlanInfo) -> str:
    rows = [
        _escaped(item.title, format_bytes(item.saves) if item.saves else "–", after_text(item.headroom))
        for item in info.suggestions
    ]
    return _section("What would help", ("change", "saves", "then"), rows, numbers=(1,))


def _run(run: RunRecord | None) -> str:
    """What the run took at its peak beside what was planned for it."""
    if run is None:
        return ""
    peaks = {item.component: item.peak_bytes for item in run.snapshot.counters}
    rows = []
    for item in shown_components(run.components):
        peak, planned = peaks.get(item.name), item.figure.bytes
        more = difference_text(None if peak is None or planned is None else peak - planned)
        rows.append(_escaped(item.name, figure_text(item.figure), _bytes(peak), more))
    total = run.total.bytes
    more = difference_text(None if total is None else run.snapshot.peak_bytes - total)
    rows.append(_escaped("total", figure_text(run.total), _bytes(run.snapshot.peak_bytes), more))
    words = f"batch {run.scenario.batch}, context {run.scenario.context}, on {run.device}"
    return _section(
        f"Measured at its peak: {words}", ("component", "planned", "measured", "difference"), rows,
        numbers=(1, 2, 3),
    )  # fmt: skip


def _profile(document: PlanDocument) -> str:
    """The nodes that took longest, where the run was profiled."""
    found = slowest(document)
    if document.run is None or document.run.profile is None or not found:
        return ""
    took = document.run.profile
    rows = [_escaped(*item.cells) for item in found[:SLOWEST]]
    title = (
        f"Slowest {len(rows)} of {len(found):,} timed nodes: {took.step_microseconds:,.0f} µs a step "
        f"over {took.steps:,} eager steps"
    )
    return _section(title, ("node", "operator", "µs", "of the step", "nodes fused"), rows, numbers=(2, 3, 4))


def _headroom(document: PlanDocument) -> str:
    chart = headroom_lines(document.headroom, document.plan.verdict.available)
    return f"<h2>Total over context</h2>\n{chart}" if chart else ""


def _problems(info: PlanInfo) -> str:
    rows = [_escaped(item.severity, item.text, item.node, item.remedy) for item in info.problems]
    return _section("Problems and notes", ("severity", "what", "node", "remedy"), rows)


def _axes(info: PlanInfo) -> str:
    rows = [
        _escaped(axis.symbol, range_text(axis.low, axis.high), axis.certainty, axis.refused or axis.source)
        for axis in info.axes
    ]
    return _section("Symbolic axes", ("symbol", "extent", "known as", "because"), rows, numbers=(1,))


def _layers(document: PlanDocument, phase: str) -> str:
    found = layers(entries(document, phase))
    most = max((item.own_bytes or 0 for item in found), default=0)
    rows = [
        (
            escape(item.layer),
            f"{item.nodes:,}",
            layer_bar(item, most),
            *(escape(_bytes(size)) for size in (item.weight_bytes, item.output_bytes, item.workspace_bytes)),
        )
        for item in found
    ]
    headings = ("layer", "nodes", "", "weights", "outputs", "largest workspace")
    return _section(f"Layers of {phase}", headings, rows, numbers=(1, 3, 4, 5))


def _phase(document: PlanDocument, phase: str) -> str:
    rows = entries(document, phase)
    arena = next((item.arena_bytes for item in document.plan.phases if item.name == phase), -1)
    title = f"Nodes of {phase}: arena {'unknown' if arena < 0 else format_bytes(arena)}"
    if len(rows) > LARGEST:
        title += f", the {LARGEST} largest of {len(rows):,}"
    headings: tuple[str, ...] = (
        "step",
        "node",
        "operator",
        "kernel",
        "output shapes",
        "output",
        "workspace",
        "weights",
        "live",
        "of the peak",
    )
    peak = add(row.peak_bytes for row in rows)
    largest = sorted(rows, key=_node_bytes, reverse=True)[:LARGEST]
    cells = [_node(row, peak) for row in largest]
    found = measured(document.run) if phase == DECODE else None
    if found is not None:
        headings = (*headings, "µs")
        times = [found.microseconds.get(row.step) for row in largest]
        spent = ["–" if time is None else f"{time:,.1f}" for time in times]
        cells = [(*row, time) for row, time in zip(cells, spent, strict=True)]
    table = _table(headings, cells, numbers=(0, *range(5, len(headings)))) if rows else ""
    return f"<h2>{escape(title)}</h2>\n{arena_steps(rows)}\n{table}"


def _node(row: NodeEntry, peak: int | None) -> tuple[str, ...]:
    sizes = (row.output_bytes, row.workspace_bytes, row.weight_bytes, row.live_bytes)
    texts = (str(row.step), row.name, row.operator, row.kernel, row.output_shapes)
    return _escaped(*texts, *map(_bytes, sizes), _part(row.peak_bytes, peak))


def _node_bytes(row: NodeEntry) -> int:
    return (row.output_bytes or 0) + (row.workspace_bytes or 0)


def _part(size: int | None, whole: int | None) -> str:
    if size is None or whole is None:
        return "unknown"
    return f"{100 * size / whole:.1f} %" if whole else "–"


def _bytes(size: int | None) -> str:
    return "unknown" if size is None else format_bytes(size)


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

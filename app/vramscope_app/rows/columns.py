"""The columns of the node tree: what each shows for a node and for a scope, and how it sorts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.rows.nodes import PEAK, UNKNOWN, NodeTable, Scopes, group_totals, peak_total, scopes_of
from vramscope_app.rows.segments import kind_words, short_words
from vramscope_app.text import UNKNOWN as UNKNOWN_WORD
from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """One column: the table's column that it shows, its title, its width in characters."""

    key: str
    title: str
    width: int
    tip: str
    right: bool = False
    hidden: bool = False
    """Not shown until the user asks for it."""


COLUMNS = (
    NodeColumn("name", "Node", 25, "Scopes and nodes in the order in which they run"),
    NodeColumn("operator", "Operator", 17, "The ONNX operator"),
    NodeColumn(
        "weight_bytes",
        "Weights",
        11,
        "Weights that the node reads, stored or made from stored ones before the first step",
        right=True,
    ),
    NodeColumn("output_bytes", "Output", 12, "Bytes of the node's outputs", right=True),
    NodeColumn("workspace_bytes", "Workspace", 12, "Planned scratch; of a scope the largest", right=True),
    NodeColumn(
        "live_bytes", "Live", 10, "Arena bytes alive while the node runs; of a scope the most", right=True
    ),
    NodeColumn(
        PEAK,
        "Share of peak",
        13,
        "What the node made that is alive at the phase's peak, as a part of all that is alive then; "
        "of a scope all its nodes",
        right=True,
    ),
    NodeColumn("certainty", "Known as", 10, "How the output bytes are known: exact, bound or unknown"),
    NodeColumn(
        "path", "Path", 18, "After a capture: captured, or a seam on the device or the host, with the reason"
    ),
    NodeColumn("kernel", "Kernel", 10, "host: own kernel; reference: onnx.reference; none: nothing runs it"),
    NodeColumn("output_shapes", "Output shapes", 40, "Shapes of the outputs; ≤ before a bounded extent"),
    NodeColumn(
        "input_shapes", "Input shapes", 40, "Shapes of the inputs; ≤ before a bounded extent", hidden=True
    ),
    NodeColumn(
        "nanoseconds",
        "µs",
        10,
        "Mean time of a node's launch over the profiled steps; of a scope all together",
        right=True,
        hidden=True,
    ),
    NodeColumn(
        "launch",
        "Launch",
        9,
        "Number and size of the launch that several nodes became; — for one by itself",
        hidden=True,
    ),
    NodeColumn("domain", "Domain", 15, "The operator's domain; empty for ONNX's own", hidden=True),
)
NUMBER_COLUMNS = frozenset(column.key for column in COLUMNS if column.right)
TIME = "nanoseconds"
"""Of these numbers the one that is no bytes."""
NONE = "—"
"""Where nothing was measured, or nothing is shared."""
LARGEST = frozenset({"workspace_bytes", "live_bytes"})
"""Of these a scope shows the largest, not the sum."""
_CERTAINTIES = ("exact", "measured", "bound", "unknown")


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """A table with its scopes and what the scopes add up to."""

    table: NodeTable
    scopes: Scopes
    totals: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    unknown: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """Per column of bytes and scope how many of its nodes have unknown bytes."""
    bounded: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Per scope how many of its nodes have outputs that are only bounded."""
    peaks: Mapping[str, int] = field(default_factory=dict)
    """Per column of bytes its largest value; of the bytes at the peak all of them."""

    def share(self, row: int, key: str) -> float:
        """A node's bytes as a part of the column's largest or of the peak, 0 to 1; 0 for a scope."""
        if row < 0 or key not in NUMBER_COLUMNS or not self.peaks[key]:
            return 0.0
        return max(self.table.number(key, row), 0) / self.peaks[key]

    def tone(self, row: int, key: str) -> str:
        """The tone of a node's cell."""
        text = self.table.text(key, row) if key not in NUMBER_COLUMNS else ""
        if key in NUMBER_COLUMNS:
            return "muted" if self.table.number(key, row) <= 0 else ""
        if key == "path":
            return "good" if text == "captured" else "warning" if " · " in text else "muted"
        if key == "kernel":
            return "warning" if text in ("reference", "none") else "muted"
        if key == "certainty":
            return {"bound": "info", "unknown": "bad"}.get(text, "muted")
        return "muted" if key == "output_shapes" or not text else ""


def view_of(table: NodeTable, *, grouped: bool, scopes: Scopes | None = None) -> NodeView:
    """A table with its scopes added up; ``scopes`` from before when they are the same."""
    groups = scopes if scopes is not None else scopes_of(table.column("scope"), grouped=grouped)
    totals = {
        key: group_totals(groups, table.integers(key), largest=key in LARGEST) for key in NUMBER_COLUMNS
    }
    ones = np.ones(table.rows, np.int64)
    bounds = np.array([text == "bound" for text in table.column("certainty")], np.int64)
    counts = group_totals(groups, ones)
    unknown = {
        key: group_totals(groups, (table.integers(key) == UNKNOWN).astype(np.int64)) for key in NUMBER_COLUMNS
    }
    peaks = {key: int(table.integers(key).max(initial=0)) for key in NUMBER_COLUMNS}
    peaks[PEAK] = peak_total(table)
    return NodeView(table, groups, totals, counts, unknown, group_totals(groups, bounds), peaks)


def node_text(view: NodeView, row: int, key: str, *, short: bool) -> str:
    """What a node's cell shows; a ``short`` name leaves out what the scope around it says already."""
    if key in NUMBER_COLUMNS:
        return _number_text(view, row, key)
    text = view.table.text(key, row)
    if key == "certainty":
        return tr(text)
    if key == "path":
        return path_text(text)
    if key == "launch":
        return text or NONE
    return short_name(text, view.table.text("scope", row)) if short and key == "name" else text


def path_text(path: str) -> str:
    """A path in the user's language: ``captured``, ``eager``, or a seam with its reason."""
    kind, _, reason = path.partition(" · ")
    return f"{tr(kind)} · {short_words(reason)}" if reason else tr(kind)


def short_name(name: str, scope: str) -> str:
    """A node's name below its scope: ``/model/attn/MatMul`` in ``model/attn`` is ``MatMul``."""
    parts = [part for part in scope.split("/") if part]
    for lead in ("/" + "/".join(parts) + "/", "/".join(parts) + "/", ".".join(parts) + "."):
        if parts and name.startswith(lead) and len(name) > len(lead):
            return name[len(lead) :]
    return name


def time_text(nanoseconds: int) -> str:
    """Microseconds with three digits or so; a dash where none were measured."""
    if nanoseconds < 0:
        return NONE
    return f"{nanoseconds / 1000:,.0f}" if nanoseconds >= 100_000 else f"{nanoseconds / 1000:.3g}"


def share_text(part: int, whole: int) -> str:
    """A part of the peak in percent; a dash where it is not known."""
    if part < 0 or not whole:
        return NONE
    percent = 100 * part / whole
    return f"{percent:.1f}%" if percent >= 0.1 else "<0.1%" if part else "0%"


def _share_tip(part: int, whole: int) -> str:
    if part < 0 or not whole:
        return NONE
    return tr(
        "{part} of {whole} alive at the peak: {percent:.4f}%",
        part=exact_bytes(part),
        whole=exact_bytes(whole),
        percent=100 * part / whole,
    )


def _number_text(view: NodeView, row: int, key: str) -> str:
    table, size = view.table, view.table.number(key, row)
    if key == TIME:
        return time_text(size)
    if key == PEAK:
        return share_text(size, view.peaks[PEAK])
    if size == UNKNOWN:
        return tr(UNKNOWN_WORD)
    if size == 0:
        return "–"
    bound = key == "output_bytes" and table.text("certainty", row) == "bound"
    return f"≤ {short_bytes(size)}" if bound else short_bytes(size)


def node_tip(view: NodeView, row: int, key: str) -> str:
    """The tooltip of a node's cell: exact bytes, or the node in full."""
    table = view.table
    if key in NUMBER_COLUMNS:
        size = table.number(key, row)
        if key == TIME:
            return NONE if size < 0 else tr("{time:,.3f} µs", time=size / 1000)
        if key == PEAK:
            return _share_tip(size, view.peaks[PEAK])
        return exact_bytes(None if size == UNKNOWN else size)
    if key == "launch" and table.text(key, row):
        return launch_tip(table, row)
    if key == "name":
        domain = table.text("domain", row)
        lines = (
            table.text("name", row),
            f"{domain + '::' if domain else ''}{table.text('operator', row)}",
            tr("in: {text}", text=table.text("input_shapes", row)) if table.text("input_shapes", row) else "",
            tr("out: {text}", text=table.text("output_shapes", row)),
        )
        return "\n".join(line for line in lines if line)
    return _path_tip(table.text(key, row)) if key == "path" else table.text(key, row)


def _path_tip(path: str) -> str:
    kind, _, reason = path.partition(" · ")
    return f"{tr(kind)}: {kind_words(reason)} ({reason})" if reason else tr(kind)


def launch_tip(table: NodeTable, row: int) -> str:
    """Every node of a node's launch."""
    launch, names = table.text("launch", row), table.column("name")
    members = [names[place] for place, other in enumerate(table.column("launch")) if other == launch]
    return "\n".join([tr("One launch does these nodes:"), *members])


def group_tip(view: NodeView, group: int, key: str) -> str:
    """The tooltip of a scope's cell: every known byte; of scratch and live bytes the most, else the sum."""
    if key not in NUMBER_COLUMNS:
        return ""
    if key == TIME:
        return tr("{time:,.3f} µs", time=int(view.totals[key][group]) / 1000)
    if key == PEAK:
        return _share_tip(_peak_part(view, group), view.peaks[PEAK])
    what = tr("the most of its nodes") if key in LARGEST else tr("its nodes together")
    unknown = int(view.unknown[key][group])
    left_out = tr(", {nodes} unknown", nodes=tr("{n:,} node(s)", n=unknown)) if unknown else ""
    return f"{exact_bytes(int(view.totals[key][group]))} ({what}{left_out})"


def group_text(view: NodeView, group: int, key: str) -> str:
    """What a scope's cell shows."""
    if key == "name":
        return view.scopes.names[group]
    if key == "operator":
        return tr("{n:,} node(s)", n=int(view.counts[group]))
    return _total_text(view, group, key) if key in NUMBER_COLUMNS else ""


def _total_text(view: NodeView, group: int, key: str) -> str:
    size = int(view.totals[key][group])
    if key == TIME:
        return time_text(size) if size else NONE
    if key == PEAK:
        return share_text(_peak_part(view, group), view.peaks[PEAK])
    if view.unknown[key][group]:
        return f"≥ {short_bytes(size)}" if size else tr(UNKNOWN_WORD)
    if key == "output_bytes" and view.bounded[group]:
        return f"≤ {short_bytes(size)}"
    return short_bytes(size) if size else "–"


def _peak_part(view: NodeView, group: int) -> int:
    """What the nodes of a scope hold at the peak; unknown (−1) where one of them does not know."""
    return UNKNOWN if view.unknown[PEAK][group] else int(view.totals[PEAK][group])


def sort_keys(view: NodeView, key: str) -> NDArray[np.float64]:
    """Per item (scopes, then nodes) what a column sorts by."""
    if key in NUMBER_COLUMNS:
        return np.concatenate([view.totals[key], view.table.integers(key)]).astype(np.float64)
    if key == "certainty":
        ranks = {name: rank for rank, name in enumerate(_CERTAINTIES)}
        found = [-1.0] * len(view.scopes.names) + [
            float(ranks.get(text, 9)) for text in view.table.column(key)
        ]
        return np.array(found, np.float64)
    groups = view.scopes.names if key == "name" else [""] * len(view.scopes.names)
    texts = [*groups, *view.table.column(key)]
    order = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([order[text] for text in texts], np.float64)

"""The node table as columns, and the tree over it as arrays: built, filtered and sorted without Qt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vramscope.messages.columns import column_values
from vramscope_app.rows.segments import CAPTURED, DECLINED, NO_LAUNCH, seam_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vramscope.messages.columns import TableChunk
    from vramscope.messages.running import CaptureInfo, SegmentInfo

UNKNOWN = -1
"""Stands for unknown bytes in an integer column."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """Rows of a plan's nodes; ``texts`` and ``numbers`` have ``rows`` entries a column."""

    ticket: int = 0
    rows: int = 0
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    numbers: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def text(self, column: str, row: int) -> str:
        """One text; empty when the table has no such column."""
        values = self.texts.get(column)
        return values[row] if values is not None else ""

    def number(self, column: str, row: int) -> int:
        """One number; unknown (−1) when the table has no such column."""
        values = self.numbers.get(column)
        return int(values[row]) if values is not None else UNKNOWN

    def column(self, column: str) -> Sequence[str]:
        """A text column; empty texts when there is none."""
        return self.texts.get(column) or [""] * self.rows

    def integers(self, column: str) -> NDArray[np.int64]:
        """A number column; unknown (−1) everywhere when there is none."""
        found = self.numbers.get(column)
        return found if found is not None else np.full(self.rows, UNKNOWN, np.int64)


EMPTY_TABLE = NodeTable()
PEAK = "peak_bytes"
"""The column of what a node made that is alive at the phase's peak."""
SHARE = "share"
"""That as a part of the peak, in :data:`WHOLE`; no column travels with it."""
WHOLE = 10**9


def peak_total(table: NodeTable) -> int:
    """Bytes alive at the phase's peak; 0 where that is not known."""
    return int(np.maximum(table.integers(PEAK), 0).sum(dtype=np.float64))


def shares(table: NodeTable) -> NDArray[np.int64]:
    """Each node's part of the peak in billionths; unknown (−1) where that is not known."""
    made, total = table.integers(PEAK), peak_total(table)
    if not total:
        return np.full(table.rows, UNKNOWN, np.int64)
    return np.where(made == UNKNOWN, UNKNOWN, np.rint(made * (WHOLE / total)).astype(np.int64))


def join_chunks(chunks: Sequence[TableChunk]) -> NodeTable:
    """One table of all its chunks, in the order of their first rows."""
    texts: dict[str, list[str]] = {}
    numbers: dict[str, list[NDArray[np.int64]]] = {}
    ordered = sorted(chunks, key=lambda chunk: chunk.start)
    for chunk in ordered:
        for column in chunk.columns:
            if column.kind == "text":
                texts.setdefault(column.name, []).extend(str(value) for value in column_values(column))
            elif column.kind == "i64":
                numbers.setdefault(column.name, []).append(np.frombuffer(column.data, "<i8").astype(np.int64))
    joined = {name: np.concatenate(parts) for name, parts in numbers.items()}
    return NodeTable(ordered[-1].ticket, sum(chunk.rows for chunk in ordered), texts, joined)


def with_paths(table: NodeTable, capture: CaptureInfo | None) -> NodeTable:
    """The table with a column ``path``: after a capture ``captured``, or a seam with its reason."""
    if capture is None:
        return table
    known = paths_of(capture.segments)
    paths = [known.get(step, NO_LAUNCH) for step in table.integers("step").tolist()]
    return NodeTable(table.ticket, table.rows, {**table.texts, "path": paths}, table.numbers)


def paths_of(segments: Iterable[SegmentInfo]) -> dict[int, str]:
    """Per step of the program how it runs: ``captured``, a seam with its reason, or ``eager``."""
    found: dict[int, str] = {}
    for item in segments:
        found.update(dict.fromkeys(item.steps, CAPTURED if item.captured else DECLINED))
        for span in item.seams:
            steps = item.steps[span.start - item.start : span.end - item.start]
            found.update(dict.fromkeys(steps, f"{seam_of(span.reason)} · {span.reason}"))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Scopes:
    """Every scope of a table as a group: parents stand before children; −1 is the root."""

    names: tuple[str, ...]
    parents: NDArray[np.int64]
    group_of: NDArray[np.int64]
    """Per row its group."""


def scopes_of(paths: Sequence[str], *, grouped: bool) -> Scopes:
    """Groups from scope texts such as ``model/layers.0/attn``; no groups at all when not ``grouped``."""
    found: dict[tuple[str, ...], int] = {(): -1}
    parents: list[int] = []
    ids: dict[str, int] = {}
    for path in dict.fromkeys(paths):
        parts = tuple(part for part in path.split("/") if part) if grouped else ()
        for depth in range(1, len(parts) + 1):
            if parts[:depth] not in found:
                found[parts[:depth]] = len(parents)
                parents.append(found[parts[: depth - 1]])
        ids[path] = found[parts]
    group_of = np.fromiter((ids[path] for path in paths), np.int64, len(paths))
    return Scopes(tuple(parts[-1] for parts in found if parts), np.array(parents, np.int64), group_of)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Items ``[0, groups)`` are scopes and item ``groups + row`` is a node; children in display order."""

    groups: int
    parents: NDArray[np.int64]
    """Per item its parent item; −1 at the top."""
    places: NDArray[np.int64]
    """Per item its row below its parent; −1 when it is not shown."""
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    """Children of item ``i``: ``order[starts[i + 1] : starts[i + 2]]``; of the root with ``i`` −1."""
    shown: int
    """Nodes shown."""

    def count(self, item: int) -> int:
        """Children of an item; of the root for −1."""
        return int(self.starts[item + 2] - self.starts[item + 1])

    def child(self, item: int, row: int) -> int:
        """The child in one row."""
        return int(self.order[self.starts[item + 1] + row])


def group_totals(scopes: Scopes, values: NDArray[np.int64], *, largest: bool = False) -> NDArray[np.int64]:
    """Per group the sum (or the largest) of its rows' values, unknown ones left out."""
    totals = np.zeros(len(scopes.names), np.int64)
    counted = (scopes.group_of >= 0) & (values > 0)
    gather = np.maximum if largest else np.add
    gather.at(totals, scopes.group_of[counted], values[counted])
    for group in range(len(totals) - 1, -1, -1):
        parent = int(scopes.parents[group])
        if parent >= 0:
            totals[parent] = gather(totals[parent], totals[group])
    return totals


def first_rows(scopes: Scopes, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per group the first of ``rows`` that stands in it or below; the largest integer when none does."""
    nothing = np.iinfo(np.int64).max
    first = np.full(len(scopes.names), nothing, np.int64)
    groups = scopes.group_of[rows]
    np.minimum.at(first, groups[groups >= 0], rows[groups >= 0])
    for group in range(len(first) - 1, -1, -1):
        parent = int(scopes.parents[group])
        if parent >= 0:
            first[parent] = min(first[parent], first[group])
    return first


def build_tree(
    scopes: Scopes,
    rows: NDArray[np.int64],
    keys: NDArray[np.float64] | None = None,
    *,
    descending: bool = False,
) -> Tree:
    """The tree of the given rows.

    Args:
        scopes: the groups.
        rows: the rows to show, ascending.
        keys: per item (groups, then all rows) what to sort by; None keeps the program's order.
        descending: largest keys first.
    """
    groups, total = len(scopes.names), len(scopes.names) + len(scopes.group_of)
    first = first_rows(scopes, rows)
    kept = np.flatnonzero(first != np.iinfo(np.int64).max)
    items = np.concatenate([kept, rows + groups])
    parents = np.concatenate([scopes.parents, scopes.group_of])
    position = np.concatenate([first[kept], rows]).astype(np.float64)
    wanted = position if keys is None else (-keys[items] if descending else keys[items])
    arranged = np.lexsort((position, wanted, parents[items]))
    order = items[arranged]
    starts = np.searchsorted(parents[order], np.arange(-1, total + 1))
    places = np.full(total, -1, np.int64)
    places[order] = np.arange(len(order)) - starts[parents[order] + 1]
    return Tree(groups, parents, places, order, starts, len(rows))

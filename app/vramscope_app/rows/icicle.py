"""Bytes by scope and component as an icicle: every scope over its parts, each as wide as its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.rows.nodes import build_tree, group_totals, scopes_of
from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vramscope_app.rows.nodes import NodeTable

MEASURES = {
    "weight_bytes": marked("weights, at every node that reads them"),
    "output_bytes": marked("outputs, before the arena shares places"),
}
"""What adds up over scopes, by column; scratch and live bytes do not: nodes take turns with them."""
COMPONENTS = {"weight_bytes": "weights", "output_bytes": "activations"}
"""The component whose colour a measure's nodes have."""


@dataclass(frozen=True, slots=True, eq=False)
class Icicle:
    """Bars in the order of the program: item 0 is the whole model, then scopes and nodes that have bytes.

    Attributes:
        names: the last part of a scope's name, or the node's name.
        nodes: the node's whole name; empty for a scope.
        depths: 0 for the whole, 1 for what is at the top.
        begins: where a bar begins, in bytes from the left.
        sizes: its width in bytes.
        parents: the bar above it; −1 above the whole.
        unknown: nodes whose bytes nobody knows; they have no bar.
    """

    measure: str
    names: tuple[str, ...]
    nodes: tuple[str, ...]
    depths: NDArray[np.int64]
    begins: NDArray[np.int64]
    sizes: NDArray[np.int64]
    parents: NDArray[np.int64]
    unknown: int

    def at(self, place: float, depth: int) -> int:
        """The bar at a byte from the left in a row; −1 for none."""
        hit = (self.depths == depth) & (self.begins <= place) & (place < self.begins + self.sizes)
        found = np.flatnonzero(hit)
        return int(found[0]) if len(found) else -1

    def path(self, bar: int) -> str:
        """A bar's whole name."""
        if self.nodes[bar]:
            return self.nodes[bar]
        parts = []
        while bar > 0:
            parts.append(self.names[bar])
            bar = int(self.parents[bar])
        return "/".join(reversed(parts)) or self.names[0]

    def text(self, bar: int) -> str:
        """A bar in words: its name, its bytes, its part of the whole."""
        share = int(self.sizes[bar]) / max(int(self.sizes[0]), 1)
        return f"{self.path(bar)} · {exact_bytes(int(self.sizes[bar]))} · {share:.1%}"

    @property
    def summary(self) -> str:
        """The whole in words; what is unknown is said and not counted as 0."""
        told = tr(
            "{measure}: {size}", size=short_bytes(int(self.sizes[0])), measure=tr(MEASURES[self.measure])
        )
        rest = tr("{n:,} node(s) of unknown bytes not drawn", n=self.unknown) if self.unknown else ""
        return " · ".join(part for part in (told, rest) if part)


def icicle_of(table: NodeTable, measure: str) -> Icicle:
    """The bars of one column of :data:`MEASURES`; nodes and scopes without bytes have none."""
    values = table.integers(measure)
    known = np.maximum(values, 0)
    scopes = scopes_of(table.column("scope"), grouped=True)
    groups = len(scopes.names)
    sizes = np.concatenate([group_totals(scopes, known), known])
    tree = build_tree(scopes, np.flatnonzero(known > 0))
    bars: list[tuple[str, str, int, int, int, int]] = [(tr("all scopes"), "", 0, 0, int(known.sum()), -1)]
    waiting = [(-1, 0)]
    while waiting:
        item, bar = waiting.pop()
        begin = bars[bar][3]
        for row in range(tree.count(item)):
            child = tree.child(item, row)
            size = int(sizes[child])
            name = scopes.names[child] if child < groups else table.text("name", child - groups)
            whole = "" if child < groups else name
            if child < groups:
                waiting.append((child, len(bars)))
            bars.append((name.rsplit("/", 1)[-1], whole, bars[bar][2] + 1, begin, size, bar))
            begin += size
    names, nodes, depths, begins, widths, parents = zip(*bars, strict=True)
    return Icicle(
        measure, names, nodes,
        depths=np.array(depths, np.int64), begins=np.array(begins, np.int64),
        sizes=np.array(widths, np.int64), parents=np.array(parents, np.int64),
        unknown=int((values < 0).sum()),
    )  # fmt: skip

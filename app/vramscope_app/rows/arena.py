"""The memory map as arrays: every block of an arena with its node, colour and lifetime, found by place."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vramscope_app.rows.nodes import NodeTable

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#8A929C")
"""Okabe and Ito's cycle, its yellow darkened so that it shows on white, and a grey."""
SCOPE_DEPTH = 3
"""So many parts of a scope decide a block's colour."""


@dataclass(frozen=True, slots=True, eq=False)
class Arena:
    """Blocks of one phase; every array has one entry a block."""

    values: Sequence[str]
    nodes: Sequence[str]
    """The node that makes the value; empty when the table of nodes has no such step."""
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    colours: NDArray[np.int64]
    """Places in :data:`COLOURS`."""
    steps: int
    bytes: int
    peak_step: int
    peak_bytes: int
    """The most bytes alive at one step."""

    def at(self, step: float, offset: float) -> int:
        """The block at a place, the newest where one took over another's bytes; −1 where nothing lies."""
        over = (self.first <= step) & (step < self.last + 1)
        over &= (self.offsets <= offset) & (offset < self.offsets + self.sizes)
        found = np.flatnonzero(over)
        return int(found[np.argmax(self.first[found])]) if len(found) else -1

    def text(self, block: int) -> str:
        """A block in a line."""
        size, first, last = int(self.sizes[block]), int(self.first[block]), int(self.last[block])
        node = tr(" of {nodes}", nodes=self.nodes[block]) if self.nodes[block] else ""
        end = min(last, self.steps - 1)
        return tr(
            "{values}{node} · {size} · steps {first:,} to {end:,}",
            values=self.values[block],
            node=node,
            size=exact_bytes(size),
            first=first,
            end=end,
        )

    def rectangles(self, colour: int) -> NDArray[np.float64]:
        """Left, bottom, width and height (steps and bytes) of the blocks of one colour, shape (n, 4)."""
        chosen = self.colours == colour
        width = self.last[chosen] - self.first[chosen] + 1
        parts = (self.first[chosen], self.offsets[chosen], width, self.sizes[chosen])
        return np.column_stack(parts).astype(np.float64)

    @property
    def begin(self) -> int:
        """The step of the first block: constants before it are folded and lie in no arena."""
        return int(self.first.min(initial=self.steps))

    @property
    def summary(self) -> str:
        """The arena in a sentence."""
        held = tr("{sizes:,} blocks in {bytes}", sizes=len(self.sizes), bytes=short_bytes(self.bytes))
        return tr(
            "{held}, peak {peak_bytes} at step {peak_step:,}",
            held=held,
            peak_bytes=short_bytes(self.peak_bytes),
            peak_step=self.peak_step,
        )


def arena_of(blocks: NodeTable, nodes: NodeTable) -> Arena:
    """The blocks of a phase, joined with its nodes by the step that makes each value."""
    first, last = blocks.integers("first"), blocks.integers("last")
    sizes, offsets = blocks.integers("size"), blocks.integers("offset")
    names = dict(zip(nodes.integers("step").tolist(), nodes.column("name"), strict=True))
    scopes = dict(zip(nodes.integers("step").tolist(), nodes.column("scope"), strict=True))
    steps = int(max(nodes.integers("step").max(initial=-1), first.max(initial=-1))) + 1
    colours = [colour_of(scopes.get(step, "")) for step in first.tolist()]
    live = nodes.integers("live_bytes")
    place = int(np.argmax(live)) if len(live) else -1
    return Arena(
        blocks.column("value"),
        [names.get(step, "") for step in first.tolist()],
        offsets,
        sizes,
        first,
        np.minimum(last, steps - 1),
        np.array(colours, np.int64),
        steps,
        int((offsets + sizes).max(initial=0)),
        int(nodes.integers("step")[place]) if place >= 0 else 0,
        int(live[place]) if place >= 0 else 0,
    )


def colour_of(scope: str) -> int:
    """The same colour for the same scope in every plan."""
    head = "/".join([part for part in scope.split("/") if part][:SCOPE_DEPTH])
    return zlib.crc32(head.encode()) % len(COLOURS)

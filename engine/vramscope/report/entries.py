"""A document's node rows with their columns by name, and the layers that they add up to."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vramscope.report.document import PlanDocument

OUTSIDE = "(outside every scope)"
"""The layer of nodes whose names say no scope."""

_NUMBERED = re.compile(r"(?:^|[._])\d+$")


class NodeEntry(NamedTuple):
    """One row; None stands for unknown bytes."""

    step: int
    name: str
    operator: str
    domain: str
    scope: str
    kernel: str
    output_shapes: str
    certainty: str
    weight_bytes: int | None
    output_bytes: int | None
    workspace_bytes: int | None
    live_bytes: int | None
    peak_bytes: int | None = None
    """Of what is alive at the phase's peak that which the node made; unknown too in a report without it."""

    @property
    def own_bytes(self) -> int | None:
        """Weights, outputs and scratch together; unknown when one of them is."""
        weights, outputs, scratch = self.weight_bytes, self.output_bytes, self.workspace_bytes
        return None if weights is None or outputs is None or scratch is None else weights + outputs + scratch


TEXTS = ("name", "operator", "domain", "scope", "kernel", "output_shapes", "certainty")
"""Columns of text that every report has."""

NUMBERS = ("step", "weight_bytes", "output_bytes", "workspace_bytes", "live_bytes")
"""Columns of whole numbers that every report has."""

NEWER_NUMBERS = ("peak_bytes",)
"""Columns of whole numbers that reports of older versions lack."""


def entries(document: PlanDocument, phase: str) -> list[NodeEntry]:
    """The rows of a phase; columns that this version does not know are left out, later ones may lack."""
    columns = document.node_columns
    cells = itemgetter(*(columns.index(name) for name in NodeEntry._fields if name in columns))
    return [NodeEntry(*cells(row)) for row in document.nodes.get(phase, [])]


def layer_of(scope: str) -> str:
    """The layer of a scope: all up to its first numbered part, ``model/layers.0``, else its first part."""
    parts = [part for part in scope.split("/") if part]
    for place, part in enumerate(parts):
        if _NUMBERED.search(part):
            return "/".join(parts[: place + 1])
    return parts[0] if parts else OUTSIDE


class LayerTotal(NamedTuple):
    """What the nodes of one layer add up to; None where one of them is unknown."""

    layer: str
    nodes: int
    weight_bytes: int | None
    output_bytes: int | None
    workspace_bytes: int | None
    """The largest, for scratch is used again."""

    @property
    def own_bytes(self) -> int | None:
        """Weights, outputs and the largest scratch together."""
        return add((self.weight_bytes, self.output_bytes, self.workspace_bytes))


def add(parts: Iterable[int | None]) -> int | None:
    """The sum, or None when a part is unknown."""
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def layers(rows: Sequence[NodeEntry]) -> list[LayerTotal]:
    """Every layer once, in the order in which they run."""
    found: dict[str, list[NodeEntry]] = {}
    known: dict[str, str] = {}
    for row in rows:
        layer = known.get(row.scope) or known.setdefault(row.scope, layer_of(row.scope))
        found.setdefault(layer, []).append(row)
    return [
        LayerTotal(
            layer,
            len(members),
            add(row.weight_bytes for row in members),
            add(row.output_bytes for row in members),
            _largest(row.workspace_bytes for row in members),
        )
        for layer, members in found.items()
    ]


def _largest(parts: Iterable[int | None]) -> int | None:
    listed = list(parts)
    known = [part for part in listed if part is not None]
    return max(known, default=0) if len(known) == len(listed) else None

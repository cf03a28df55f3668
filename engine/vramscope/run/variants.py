"""The kernel variants of a session: which nodes have run at which input shapes (semantics 2.4).

A variant is a node at concrete input shapes. Each node keeps its most recent few, for a variant may hold
device scratch of its own; evicting one retires exactly the captured graphs that contain the node.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from vramscope.ops.call import Tensor
    from vramscope.run.launch import Launch

ShapeKey: TypeAlias = tuple[tuple[int, ...], ...]
"""The input shapes of one execution; an absent input and a sequence count as shape []."""


@dataclass(frozen=True, slots=True)
class VariantStatistics:
    """Counts of lookups. ``hits`` includes the pre-bound ones, where a node runs as it did the last time."""

    entries: int = 0
    hits: int = 0
    misses: int = 0
    prebind_hits: int = 0
    evictions: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """What one look-up did: whether the variant was missing, and whether another one of the node went."""

    missed: bool = False
    evicted: bool = False


class VariantCache:
    """Variants by node, least recently used first."""

    def __init__(self, limit: int) -> None:
        """``limit``: variants that each node keeps."""
        self._limit = limit
        self._nodes: dict[int, OrderedDict[ShapeKey, None]] = {}
        self._last: dict[int, ShapeKey] = {}
        self._statistics = VariantStatistics()

    @property
    def statistics(self) -> VariantStatistics:
        """Counts so far."""
        entries = sum(len(found) for found in self._nodes.values())
        return replace(self._statistics, entries=entries)

    def has(self, step: int, key: ShapeKey) -> bool:
        """Whether the node has run at these shapes and is still kept; no use of it."""
        return key in self._nodes.get(step, ())

    def use(self, step: int, key: ShapeKey) -> Use:
        """Looks a variant up and makes it if need be."""
        now, found = self._statistics, self._nodes.setdefault(step, OrderedDict())
        if key in found:
            prebound = self._last.get(step) == key
            self._statistics = replace(now, hits=now.hits + 1, prebind_hits=now.prebind_hits + prebound)
            found.move_to_end(key)
            self._last[step] = key
            return Use()
        found[key] = None
        self._last[step] = key
        evicted = len(found) > self._limit
        if evicted:
            found.popitem(last=False)
        self._statistics = replace(now, misses=now.misses + 1, evictions=now.evictions + evicted)
        return Use(missed=True, evicted=evicted)


def shape_key(launch: Launch) -> ShapeKey:
    """The input shapes at which ``launch`` runs, or has just run."""
    return tuple(shape_of(value) for value in launch.call.inputs)


def shape_of(value: Tensor | None) -> tuple[int, ...]:
    """The shape of a tensor; [] for an absent one and for a sequence."""
    return () if value is None or isinstance(value, list) else tuple(value.shape)

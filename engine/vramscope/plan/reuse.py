"""The arena's bytes again and again at other sizes, without walking the owners each time.

Every decision of the arena's walk compares sizes; none uses their amounts. So the walk at other sizes in the
same order gives the same slots, and each slot is still as large as the same owner. A search for the largest
batch or context asks for the order it already knows almost every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.plan.arena import slot_capacities
from vramscope.units import align

if TYPE_CHECKING:
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.sizes import Resolver

KEPT_ORDERS = 64
"""So many orders are remembered; then all are forgotten."""


class ArenaReuse:
    """Slots of a program's own owners by the order of their sizes."""

    def __init__(self, index: PlanningIndex) -> None:
        """Owners of one shape class have one size at all times."""
        self._owners = index.owners
        self._first = {index.class_of[owner.value]: owner.value for owner in reversed(index.owners)}
        self._class_of = index.class_of
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def unsettled(self, resolver: Resolver) -> int | None:
        """The first owner whose size is refused; None when all are known."""
        refused = [value for value in self._first.values() if resolver.size(value) is None]
        return min(refused, default=None)

    def bytes(self, resolver: Resolver) -> int:
        """Bytes of the arena; every owner's size is known."""
        by_class = {number: resolver.size(value) or 0 for number, value in self._first.items()}
        sizes = tuple(by_class.values())
        order = {size: rank for rank, size in enumerate(sorted(set(sizes)))}
        key = tuple(order[size] for size in sizes)
        slots = self._known.get(key)
        if slots is None:
            slots = self._walk(by_class, sizes)
            if len(self._known) >= KEPT_ORDERS:
                self._known.clear()
            self._known[key] = slots
        return sum(align(sizes[position]) for position in slots)

    def _walk(self, by_class: dict[int, int], sizes: tuple[int, ...]) -> tuple[int, ...]:
        """For each slot the position, among the classes, of one that has its capacity."""
        values = {owner.value: by_class[self._class_of[owner.value]] for owner in self._owners}
        return tuple(sizes.index(capacity) for capacity in slot_capacities(self._owners, values))

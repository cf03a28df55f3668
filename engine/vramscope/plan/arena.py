"""The activation arena: which values may share memory, and at which offset each one lives.

Contract (semantics 2.12): walk the steps in order; allocate a step's outputs by best fit (the smallest free
slot that holds them, ties to the lowest slot), *then* retire the inputs whose last use it is. So an output
never overlaps an input of its own step, except where the caller allows it in place. A slot never shrinks;
when none is large enough a new one is made.

Invariants, checked by an independent validator in the tests: owners with overlapping lifetimes never share a
slot, a slot is at least as large as each of its owners, every owner has one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heappop, heappush
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vramscope.units import ALIGNMENT, align

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of the arena: ``size`` bytes at ``offset``."""

    offset: int
    size: int


class Placement(NamedTuple):
    """Where one value lives in the arena and from which step to which (inclusive) it must stay there."""

    value: int
    slot: int
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Activation memory of one phase (semantics 2.12).

    ``peak`` is the sum of slot capacities, ``naive`` the sum of all owners' sizes, ``bytes`` what is
    allocated: the slots end to end at ``alignment``. ``peak_step`` is the step with the most live bytes.
    """

    slots: tuple[Slot, ...]
    placements: Mapping[int, Placement]
    views: Mapping[int, int]
    bytes: int
    peak: int
    naive: int
    live_peak: int
    peak_step: int
    alignment: int = ALIGNMENT

    @property
    def savings(self) -> float:
        """1 − peak/naive."""
        return 1.0 - self.peak / self.naive if self.naive else 0.0


class Owner(NamedTuple):
    """A value that needs memory from step ``first`` to step ``last``; ``reuses``: owners it may overwrite."""

    value: int
    first: int
    last: int
    reuses: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Which slot each owner got, in the owners' order, and what the walk saw."""

    slots: list[int]
    capacities: list[int]
    live_peak: int
    peak_step: int

    def offsets(self, alignment: int) -> tuple[list[int], int]:
        """Where each slot begins when they lie end to end, and where the last one ends."""
        offsets: list[int] = []
        end = 0
        for size in self.capacities:
            offsets.append(end)
            end += align(size, alignment)
        return offsets, end


def plan_arena(
    owners: Sequence[Owner],
    sizes: Mapping[int, int],
    views: Mapping[int, int] = MappingProxyType({}),
    alignment: int = ALIGNMENT,
) -> ArenaPlan:
    """Assigns every owner a slot and an offset.

    Args:
        owners: in order of ``first``; one step's outputs together.
        sizes: bytes of each owner's value.
        views: value → owner whose bytes it is; kept in the plan for those who ask.
        alignment: of each slot's offset.
    """
    assigned = _assign(owners, sizes)
    offsets, end = assigned.offsets(alignment)
    placements = {
        value: Placement(value, slot, offsets[slot], sizes[value], first, last)
        for (value, first, last, _), slot in zip(owners, assigned.slots, strict=True)
    }
    return ArenaPlan(
        slots=tuple(map(Slot, offsets, assigned.capacities)),
        placements=MappingProxyType(placements),
        views=views,
        bytes=end,
        peak=sum(assigned.capacities),
        naive=sum(sizes[owner.value] for owner in owners),
        live_peak=assigned.live_peak,
        peak_step=assigned.peak_step,
        alignment=alignment,
    )


def arena_bytes(owners: Sequence[Owner], sizes: Mapping[int, int], alignment: int = ALIGNMENT) -> int:
    """The ``bytes`` of :func:`plan_arena` alone."""
    return _assign(owners, sizes).offsets(alignment)[1]


def slot_capacities(owners: Sequence[Owner], sizes: Mapping[int, int]) -> list[int]:
    """The sizes of the slots of :func:`plan_arena` alone."""
    return _assign(owners, sizes).capacities


class _Walk:
    """The state of one walk over the owners: slots, which are free, what is alive."""

    __slots__ = ("_free", "_sizes", "_slot_of", "_taken_over", "capacities", "live")

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.capacities: list[int] = []
        self.live = 0
        self._sizes = sizes
        self._slot_of: dict[int, int] = {}
        self._taken_over: set[int] = set()
        self._free: list[tuple[int, int]] = []
        """(capacity, slot) of free slots, sorted: the first that is large enough fits best."""

    def place(self, owner: Owner) -> int:
        """The slot of ``owner``: that of a value it overwrites, the smallest free one, or a new one."""
        need = self._sizes[owner.value]
        slot = self._inherit(owner, need) if owner.reuses else -1
        if slot < 0:
            position = bisect_left(self._free, (need, -1))
            if position < len(self._free):
                slot = self._free.pop(position)[1]
            else:
                slot = len(self.capacities)
                self.capacities.append(need)
        self._slot_of[owner.value] = slot
        self.live += need
        return slot

    def _inherit(self, owner: Owner, need: int) -> int:
        for candidate in owner.reuses:
            slot = self._slot_of.get(candidate, -1)
            if slot >= 0 and candidate not in self._taken_over and self._sizes[candidate] == need:
                self._taken_over.add(candidate)
                self.live -= need
                return slot
        return -1

    def retire(self, values: Iterable[int]) -> None:
        """Frees the slots of values whose last use is over; one that was overwritten has none any more."""
        for value in values:
            if value not in self._taken_over:
                slot = self._slot_of[value]
                insort(self._free, (self.capacities[slot], slot))
                self.live -= self._sizes[value]


def _assign(owners: Sequence[Owner], sizes: Mapping[int, int]) -> _Assignment:
    walk = _Walk(sizes)
    chosen: list[int] = []
    ends: dict[int, list[int]] = {}
    pending: list[int] = []
    live_peak = peak_step = 0
    for owner in owners:
        while pending and pending[0] < owner.first:
            walk.retire(ends.pop(heappop(pending)))
        chosen.append(walk.place(owner))
        ending = ends.get(owner.last)
        if ending is None:
            ends[owner.last] = [owner.value]
            heappush(pending, owner.last)
        else:
            ending.append(owner.value)
        if walk.live > live_peak:
            live_peak, peak_step = walk.live, owner.first
    return _Assignment(chosen, walk.capacities, live_peak, peak_step)

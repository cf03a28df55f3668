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
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALIGNMENT = 256
"""Bytes to which a slot's offset is rounded up (cudaMalloc's own guarantee)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of the arena: ``size`` bytes at ``offset``."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Placement:
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
    alignment: int = 256

    @property
    def savings(self) -> float:
        """1 − peak/naive."""
        return 1.0 - self.peak / self.naive if self.naive else 0.0


@dataclass(frozen=True, slots=True)
class Owner:
    """A value that needs memory from step ``first`` to step ``last``; ``reuses``.

    An owner it may overwrite.
    """

    value: int
    first: int
    last: int
    reuses: tuple[int, ...] = ()


def align(size: int, alignment: int = ALIGNMENT) -> int:
    """``size`` rounded up to a multiple of ``alignment``."""
    return -(-size // alignment) * alignment


class _Slots:
    """Slots made so far and which of them are free, ordered by size for best fit."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._free: list[tuple[int, int]] = []

    def take(self, need: int) -> int:
        position = bisect_left(self._free, (need, -1))
        if position < len(self._free):
            return self._free.pop(position)[1]
        self.sizes.append(need)
        return len(self.sizes) - 1

    def release(self, slot: int) -> None:
        insort(self._free, (self.sizes[slot], slot))


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
    slots = _Slots()
    chosen: dict[int, int] = {}
    ends: dict[int, list[int]] = {}
    taken_over: set[int] = set()
    live = live_peak = peak_step = 0
    retired = -1
    for owner in owners:
        for step in range(retired + 1, owner.first):
            live -= _retire(ends.pop(step, ()), chosen, taken_over, sizes, slots)
        retired = max(retired, owner.first - 1)
        heir = _heir(owner, sizes, chosen, taken_over, slots)
        chosen[owner.value] = slots.take(sizes[owner.value]) if heir is None else chosen[heir]
        if heir is not None:
            taken_over.add(heir)
            live -= sizes[heir]
        ends.setdefault(owner.last, []).append(owner.value)
        live += sizes[owner.value]
        if live > live_peak:
            live_peak, peak_step = live, owner.first
    return _assemble(owners, sizes, views, chosen, slots.sizes, (live_peak, peak_step, alignment))


def _retire(
    values: Sequence[int],
    chosen: dict[int, int],
    taken_over: set[int],
    sizes: Mapping[int, int],
    slots: _Slots,
) -> int:
    freed = 0
    for value in values:
        if value not in taken_over:
            slots.release(chosen[value])
            freed += sizes[value]
    return freed


def _heir(
    owner: Owner, sizes: Mapping[int, int], chosen: dict[int, int], taken_over: set[int], slots: _Slots
) -> int | None:
    need = sizes[owner.value]
    for candidate in owner.reuses:
        if candidate in taken_over or candidate not in chosen:
            continue
        if sizes[candidate] == need and slots.sizes[chosen[candidate]] >= need:
            return candidate
    return None


def _assemble(
    owners: Sequence[Owner],
    sizes: Mapping[int, int],
    views: Mapping[int, int],
    chosen: Mapping[int, int],
    capacities: Sequence[int],
    totals: tuple[int, int, int],
) -> ArenaPlan:
    live_peak, peak_step, alignment = totals
    offsets: list[int] = []
    end = 0
    for size in capacities:
        offsets.append(end)
        end += align(size, alignment)
    placements = {
        owner.value: Placement(
            owner.value,
            chosen[owner.value],
            offsets[chosen[owner.value]],
            sizes[owner.value],
            owner.first,
            owner.last,
        )
        for owner in owners
    }
    return ArenaPlan(
        slots=tuple(Slot(offset, size) for offset, size in zip(offsets, capacities, strict=True)),
        placements=MappingProxyType(placements),
        views=views,
        bytes=end,
        peak=sum(capacities),
        naive=sum(sizes[owner.value] for owner in owners),
        live_peak=live_peak,
        peak_step=peak_step,
        alignment=alignment,
    )

"""The weight budget, adopted by at most one governor, and which weights are resident under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.devices.governor_types import Tier, Weights, checked_bytes
from vramscope.errors import InvalidRequestError, OutOfBudgetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vramscope.devices.governor_types import CapacityLease, Holder, MemoryGovernor


class WeightBudget:
    """Bytes that weights may take: ungoverned at first, then a lease of the governor that adopted it."""

    def __init__(self, size: int) -> None:
        """``size``: bytes, more than 0.

        Raises:
            InvalidRequestError: 0, negative, or no number of bytes.
        """
        self._size = _budget(size)
        self._lease: CapacityLease | None = None

    @property
    def size(self) -> int:
        """Bytes that weights may take now."""
        return self._size if self._lease is None else self._lease.size

    @property
    def governed(self) -> bool:
        """Whether a governor has charged it."""
        return self._lease is not None

    def set_ungoverned(self, size: int) -> int:
        """Sets the budget and returns it; once governed it returns the lease's size and changes nothing.

        Raises:
            InvalidRequestError: 0, negative, or no number of bytes.
        """
        checked = _budget(size)
        if self._lease is None:
            self._size = checked
        return self.size

    def adopt(self, governor: MemoryGovernor, holder: Holder, tier: Tier = Tier.DEVICE) -> CapacityLease:
        """Has ``governor`` charge the budget; asked again by the same authority, nothing is charged twice.

        Raises:
            TierExhaustedError: the governor refused; the budget is as it was, and ungoverned.
            InvalidRequestError: another authority governs it already.
        """
        if self._lease is None:
            self._lease = governor.reserve(tier, self._size, Weights(), holder)
        elif self._lease.holder.authority is not governor.authority:
            raise InvalidRequestError(
                f"the weight budget of {self.size:,} bytes",
                f"{self._lease.holder.authority.name} governs it, not {governor.authority.name}",
                "Release it there first",
            )
        return self._lease

    def release(self) -> int:
        """Ends the governor's charge and returns its bytes; the budget keeps its last size, ungoverned."""
        if self._lease is None:
            return 0
        self._size = self._lease.size or self._size
        lease, self._lease = self._lease, None
        return lease.close()


def _budget(size: int) -> int:
    if checked_bytes(size, "the weight budget") == 0:
        raise InvalidRequestError("the weight budget", "0 bytes hold no weight", "Give more than 0 bytes")
    return size


@dataclass(frozen=True, slots=True)
class PagingCounts:
    """What paging did so far. A streamed weight was read where it lies, and never became resident."""

    hits: int = 0
    page_ins: int = 0
    page_in_bytes: int = 0
    evictions: int = 0
    streamed: int = 0
    streamed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PageIn:
    """What using one weight takes: ``evict`` first, then load it, or read it where it lies (``streamed``)."""

    weight: str
    hit: bool = False
    streamed: bool = False
    evict: tuple[str, ...] = ()


class WeightResidency:
    """Which weights are in device memory under a budget.

    Steps visit weights in a cycle, so the weight whose next use is furthest away is the one used last: that
    one goes first. Least recently used, the usual rule, would miss every time in a cycle longer than the
    budget. A weight larger than the whole budget is streamed and evicts nothing.
    """

    def __init__(self, budget: int) -> None:
        """``budget``: bytes that resident weights may take."""
        self._budget = _budget(budget)
        self._resident: dict[str, int] = {}
        self.counts = PagingCounts()

    @property
    def budget(self) -> int:
        """Bytes that resident weights may take."""
        return self._budget

    @property
    def resident(self) -> dict[str, int]:
        """Bytes by weight, least recently used first."""
        return dict(self._resident)

    @property
    def used(self) -> int:
        """Bytes of resident weights."""
        return sum(self._resident.values())

    def use(self, weight: str, size: int, pinned: Iterable[str] = ()) -> PageIn:
        """What to do so that ``weight`` can be read now; the counts move as if it were done.

        Args:
            weight: its name.
            size: its bytes.
            pinned: weights that the running step uses too, which must stay.
        """
        if weight in self._resident:
            self._resident[weight] = self._resident.pop(weight)
            self._count(hits=1)
            return PageIn(weight, hit=True)
        victims = self._victims(size, {weight, *pinned})
        if victims is None:
            self._count(streamed=1, streamed_bytes=size)
            return PageIn(weight, streamed=True)
        for victim in victims:
            del self._resident[victim]
        self._resident[weight] = size
        self._count(page_ins=1, page_in_bytes=size, evictions=len(victims))
        return PageIn(weight, evict=victims)

    def _victims(self, size: int, keep: set[str]) -> tuple[str, ...] | None:
        """Whom to evict for ``size`` bytes; None when even all that may go would not be enough."""
        free = self._budget - self.used
        victims: list[str] = []
        for name in reversed(self._resident):
            if free >= size:
                break
            if name not in keep:
                victims.append(name)
                free += self._resident[name]
        return tuple(victims) if free >= size and size <= self._budget else None

    def _count(self, **more: int) -> None:
        now = self.counts
        self.counts = PagingCounts(*(getattr(now, name) + more.get(name, 0) for name in now.__slots__))


def least_workable_budget(steps: Iterable[Mapping[str, int]]) -> int:
    """The least budget with which no step reads a weight outside device memory.

    Args:
        steps: for each step, the bytes of each weight that it reads.
    """
    return max((sum(step.values()) for step in steps), default=0)


def require_workable(budget: int, steps: Iterable[Mapping[str, int]]) -> None:
    """Refuses a budget that cannot hold one step's weights together, naming the least one that can.

    Raises:
        OutOfBudgetError: with the least workable budget in ``requested`` and the given one in ``available``.
    """
    least = least_workable_budget(steps)
    if budget < least:
        raise OutOfBudgetError(
            what=f"a weight budget of {budget:,} bytes",
            why=f"one step reads weights of {least:,} bytes together",
            remedy=f"Give at least {least:,} bytes",
            requested=least,
            available=budget,
            site="weights",
        )

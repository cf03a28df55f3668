"""The ledger: every allocation counted per site, six integers each; sealed while a graph is recorded.

Counts are kept in an adaptor around the device's allocator: current, peak and total, in bytes and in number.
A *site* is a component and the name of what the bytes are for. The ledger never counts its own bookkeeping.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.errors import LedgerSealedError, OutOfBudgetError, VramscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Counters:
    """Current, peak and total, in bytes and in number of allocations."""

    current_bytes: int = 0
    peak_bytes: int = 0
    total_bytes: int = 0
    current_count: int = 0
    peak_count: int = 0
    total_count: int = 0

    def plus(self, size: int) -> Counters:
        """After one allocation of ``size`` bytes."""
        current, count = self.current_bytes + size, self.current_count + 1
        return Counters(
            current,
            max(self.peak_bytes, current),
            self.total_bytes + size,
            count,
            max(self.peak_count, count),
            self.total_count + 1,
        )

    def minus(self, size: int) -> Counters:
        """After one release of ``size`` bytes."""
        return replace(self, current_bytes=self.current_bytes - size, current_count=self.current_count - 1)


@dataclass(frozen=True, slots=True)
class Site:
    """What bytes are for: a component of the plan, and the thing's own name (a weight, an input, a phase)."""

    component: str
    name: str

    def __str__(self) -> str:
        return f"{self.component}: {self.name}"


@dataclass(frozen=True, slots=True)
class Lease:
    """Bytes granted to one site; given back exactly once."""

    number: int
    site: Site
    size: int


class Ledger:
    """Counts and limits what one device has given out. Not thread-safe: one thread owns a device."""

    def __init__(self, budget: int | None = None) -> None:
        """Starts empty. ``budget``: bytes that may be out at once, None for no limit."""
        self._budget = budget
        self._total = Counters()
        self._sites: dict[Site, Counters] = {}
        self._open: dict[int, Lease] = {}
        self._next = 1
        self._sealed_for = ""

    @property
    def budget(self) -> int | None:
        """The limit in bytes, None for none."""
        return self._budget

    @property
    def total(self) -> Counters:
        """Over all sites."""
        return self._total

    @property
    def sites(self) -> Mapping[Site, Counters]:
        """Per site, as it is now."""
        return dict(self._sites)

    @property
    def available(self) -> int | None:
        """Bytes left under the budget; None without one."""
        return None if self._budget is None else max(self._budget - self._total.current_bytes, 0)

    def component(self, name: str) -> Counters:
        """The sum over one component's sites (its peaks: the sum of the sites' peaks)."""
        found = [counters for site, counters in self._sites.items() if site.component == name]
        return Counters(
            sum(item.current_bytes for item in found),
            sum(item.peak_bytes for item in found),
            sum(item.total_bytes for item in found),
            sum(item.current_count for item in found),
            sum(item.peak_count for item in found),
            sum(item.total_count for item in found),
        )

    def take(self, site: Site, size: int) -> Lease:
        """Counts an allocation. A refused one changes nothing.

        Raises:
            LedgerSealedError: a graph is being captured or replayed.
            OutOfBudgetError: the budget does not hold ``size`` more bytes.
        """
        if self._sealed_for:
            raise LedgerSealedError(
                f"an allocation of {size:,} bytes for {site}",
                f"the ledger is sealed during {self._sealed_for}",
                "Everything a captured step touches must be planned",
            )
        available = self.available
        if available is not None and size > available:
            raise OutOfBudgetError(
                what=f"{size:,} bytes for {site}",
                why=f"{available:,} of the budget of {self._budget:,} bytes are left",
                remedy="Lower the context or the batch, or choose a larger card",
                requested=size,
                available=available,
                site=str(site),
            )
        lease = Lease(self._next, site, size)
        self._next += 1
        self._open[lease.number] = lease
        self._total = self._total.plus(size)
        self._sites[site] = self._sites.get(site, Counters()).plus(size)
        return lease

    def give_back(self, lease: Lease) -> None:
        """Counts a release.

        Raises:
            VramscopeError: this lease is not out: it was given back before.
        """
        if self._open.pop(lease.number, None) is None:
            raise VramscopeError(f"lease {lease.number} of {lease.site}", "it was given back already")
        self._total = self._total.minus(lease.size)
        self._sites[lease.site] = self._sites[lease.site].minus(lease.size)

    @contextmanager
    def sealed(self, reason: str) -> Iterator[None]:
        """Refuses every allocation inside the block, naming ``reason``."""
        before = self._sealed_for
        self._sealed_for = reason
        try:
            yield
        finally:
            self._sealed_for = before

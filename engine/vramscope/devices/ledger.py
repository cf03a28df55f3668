"""The ledger: every allocation counted per site, six integers each; sealed while a graph is recorded.

Counts are kept in an adaptor around the device's allocator: current, peak and total, in bytes and in number.
A *site* is a component, the name of what the bytes are for, and the node that wants them, where there is one.
A *phase* is whatever the owner says is going on. The ledger never counts its own bookkeeping.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vramscope.devices.governor_types import checked_bytes
from vramscope.devices.site_history import SiteHistory
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
    """What bytes are for: a component of the plan, the thing's own name (a weight, an input), its node."""

    component: str
    name: str
    node: str = ""
    transient: bool = field(default=False, compare=False)
    """Given back after every run: the device keeps the memory for the next one."""

    def __str__(self) -> str:
        return f"{self.component}: {self.name}" + (f" of {self.node}" if self.node else "")


@dataclass(frozen=True, slots=True)
class AllocationCounts:
    """Allocations and frees so far: a free counts when it is done, not when it is asked for."""

    allocations: int = 0
    frees: int = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """Bytes granted to one site, in the phase that was on; given back exactly once.

    A ``borrowed`` one belongs to somebody else: it is known, and moves no count.
    """

    number: int
    site: Site
    size: int
    phase: str = ""
    borrowed: bool = False


class Ledger:
    """Counts and limits what one device has given out. Not thread-safe: one thread owns a device."""

    def __init__(self, budget: int | None = None) -> None:
        """Starts empty. ``budget``: bytes that may be out at once, None for no limit."""
        self._budget = budget
        self._total = Counters()
        self._sites: dict[Site, Counters] = {}
        self._components: dict[str, Counters] = {}
        self._phases: dict[str, Counters] = {}
        self._phase = ""
        self._phase_peaks: dict[str, int] = {}
        self._open: dict[int, Lease] = {}
        self._next = 1
        self._sealed_for = ""
        self.history = SiteHistory()
        """What became of every site's bytes."""

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
    def components(self) -> Mapping[str, Counters]:
        """Per component that ever held bytes, as it is now."""
        return dict(self._components)

    @property
    def available(self) -> int | None:
        """Bytes left under the budget; None without one."""
        return None if self._budget is None else max(self._budget - self._total.current_bytes, 0)

    @property
    def oversubscribed(self) -> int:
        """Bytes out above the budget: a budget may be lowered below what is out."""
        return 0 if self._budget is None else max(self._total.current_bytes - self._budget, 0)

    @property
    def allocation_counts(self) -> AllocationCounts:
        """Allocations and completed frees; borrowed memory is neither."""
        return AllocationCounts(self._total.total_count, self._total.total_count - self._total.current_count)

    @property
    def phases(self) -> Mapping[str, Counters]:
        """Per phase, what was taken in it; a release counts for the phase that took."""
        return dict(self._phases)

    @property
    def phase_peaks(self) -> Mapping[str, int]:
        """Per phase, the most bytes that were out at once while it was on, whoever took them."""
        return dict(self._phase_peaks)

    def set_budget(self, budget: int | None) -> None:
        """Sets the limit, None for none. It may go below what is out; nothing is revoked."""
        self._budget = None if budget is None else checked_bytes(budget, "the budget")

    def component(self, name: str) -> Counters:
        """Over one component's sites; its peaks are those of the sum, not the sum of the peaks."""
        return self._components.get(name, Counters())

    def take(self, site: Site, size: int) -> Lease:
        """Counts an allocation. A refused one changes nothing.

        Raises:
            InvalidRequestError: ``size`` is no number of bytes.
            LedgerSealedError: a graph is being captured or replayed.
            OutOfBudgetError: the budget does not hold ``size`` more bytes.
        """
        checked_bytes(size, str(site))
        self.require_unsealed(site, size)
        available = self.available
        if available is not None and size > available:
            self.history.refused(site, size, self._phase)
            raise OutOfBudgetError(
                what=f"{size:,} bytes for {site}",
                why=f"{available:,} of the budget of {self._budget:,} bytes are left",
                remedy="Lower the context or the batch, or choose a larger card",
                requested=size,
                available=available,
                site=str(site),
            )
        lease = self._issue(Lease(self._next, site, size, self._phase))
        self._total = self._total.plus(size)
        for counts, key in self._rows(lease):
            counts[key] = counts.get(key, Counters()).plus(size)
        self._note_peak()
        self.history.taken(site, size, self._phase)
        return lease

    def require_unsealed(self, site: Site, size: int) -> None:
        """Passes unless the ledger is sealed.

        Raises:
            LedgerSealedError: a graph is being captured or replayed.
        """
        if self._sealed_for:
            raise LedgerSealedError(
                f"an allocation of {size:,} bytes for {site}",
                f"the ledger is sealed during {self._sealed_for}",
                "Everything a captured step touches must be planned",
            )

    def borrow(self, site: Site, size: int) -> Lease:
        """Notes memory that somebody else owns: no budget, no count moves, also when it is given back."""
        return self._issue(
            Lease(self._next, site, checked_bytes(size, str(site)), self._phase, borrowed=True)
        )

    def give_back(self, lease: Lease) -> None:
        """Counts a release.

        Raises:
            VramscopeError: this lease is not out: it was given back before.
        """
        if self._open.pop(lease.number, None) is None:
            raise VramscopeError(f"lease {lease.number} of {lease.site}", "it was given back already")
        if lease.borrowed:
            return
        self._total = self._total.minus(lease.size)
        for counts, key in self._rows(lease):
            counts[key] = counts[key].minus(lease.size)
        self.history.given(lease.site, lease.size, self._phase)

    def _issue(self, lease: Lease) -> Lease:
        self._next += 1
        self._open[lease.number] = lease
        return lease

    def _rows(self, lease: Lease) -> Iterator[tuple[dict[Any, Counters], Any]]:
        """Every table that counts a lease, and its key there."""
        yield self._sites, lease.site
        yield self._components, lease.site.component
        if lease.phase:
            yield self._phases, lease.phase

    def _note_peak(self) -> None:
        if self._phase:
            now = self._total.current_bytes
            self._phase_peaks[self._phase] = max(self._phase_peaks.get(self._phase, 0), now)

    def enter(self, name: str) -> None:
        """Counts for phase ``name`` from now on; cheap where it is on already, as in step after step."""
        if name != self._phase:
            self._note_peak()
            self._phase = name
            self._note_peak()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Counts what is taken inside the block for ``name`` too; the inner one of two blocks counts."""
        before, self._phase = self._phase, name
        self._note_peak()
        try:
            yield
        finally:
            self._phase = before
            self._note_peak()

    @contextmanager
    def sealed(self, reason: str) -> Iterator[None]:
        """Refuses every allocation inside the block, naming ``reason``."""
        before = self._sealed_for
        self._sealed_for = reason
        try:
            yield
        finally:
            self._sealed_for = before

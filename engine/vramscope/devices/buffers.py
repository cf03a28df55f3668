"""The buffers of one device: every one in the ledger, memory from below, scratch kept between runs.

Memory is charged before it is asked for and refunded where it is refused. What a session gives back after
every run stays in a pool for the next one, so a run after the first asks the driver for nothing; it is given
up as soon as the budget or the driver lacks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.devices.base import Buffer
from vramscope.devices.governor_pool import RawPool
from vramscope.devices.ledger import AllocationCounts, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.devices.base import Memory
    from vramscope.devices.governor_pool import Block, PoolOptions, SiteStats
    from vramscope.devices.ledger import Lease, Site
    from vramscope.graph.model import Array


class DeviceBuffers:
    """What is out, and how it goes back. One thread owns it."""

    def __init__(
        self,
        budget: int | None,
        memory: Memory,
        view: Callable[[int, int], Array],
        options: PoolOptions | None = None,
    ) -> None:
        """Nothing is out.

        Args:
            budget: bytes that may be out at once; None for what there is.
            memory: where they come from.
            view: an address and a size as flat bytes of the device.
            options: of the pool that keeps transient memory.
        """
        self.ledger = Ledger(budget)
        self._memory = memory
        self._view = view
        self._pool = RawPool(memory, options)
        self._out: dict[int, Buffer] = {}
        self._blocks: dict[int, Block] = {}
        self._counts = AllocationCounts()

    @property
    def held(self) -> tuple[Buffer, ...]:
        """What is out."""
        return tuple(self._out.values())

    @property
    def allocation_counts(self) -> AllocationCounts:
        """Calls of the memory underneath: what the pool had kept is none (semantics 2.10)."""
        direct, pooled = self._counts, self._pool.allocation_counts
        return AllocationCounts(direct.allocations + pooled.allocations, direct.frees + pooled.frees)

    @property
    def retained(self) -> int:
        """Bytes that are kept for the next run."""
        return self._pool.retained

    @property
    def site_stats(self) -> tuple[SiteStats, ...]:
        """What the pool did for each site; empty where its profile is off."""
        return self._pool.site_stats

    def allocate(self, site: Site, size: int) -> Buffer:
        """A new buffer of exactly ``size`` bytes; its contents are undefined.

        Raises:
            OutOfBudgetError: the budget does not hold it.
            LedgerSealedError: a graph is being captured or replayed.
            NoRoomError: the memory underneath has none left; nothing stays counted.
        """
        lease = self.ledger.take(site, size)
        try:
            address = self._place(lease)
        except BaseException:
            self.ledger.give_back(lease)
            raise
        buffer = Buffer(lease, self._view(address, size), address)
        self._out[lease.number] = buffer
        return buffer

    def _place(self, lease: Lease) -> int:
        if lease.site.transient:
            return self._lend(lease)
        self._keep_budget()
        address = self._pool.from_below(lease.size)
        self._counts = AllocationCounts(self._counts.allocations + 1, self._counts.frees)
        return address

    def _lend(self, lease: Lease) -> int:
        if not self._pool.keeps(lease.size):
            self._keep_budget()
        block = self._blocks[lease.number] = self._pool.allocate(lease.size, str(lease.site))
        return block.address

    def _keep_budget(self) -> None:
        """What is kept and what is out stay below the budget together: the first gives way."""
        budget = self.ledger.budget
        if budget is not None and self.ledger.total.current_bytes + self._pool.retained > budget:
            self._pool.trim()

    def release(self, buffer: Buffer) -> None:
        """Takes a buffer back.

        Raises:
            VramscopeError: it was given back before.
        """
        self.ledger.give_back(buffer.lease)
        del self._out[buffer.lease.number]
        block = self._blocks.pop(buffer.lease.number, None)
        if block is not None:
            self._pool.release(block)
            return
        self._memory.free(buffer.address)
        self._counts = AllocationCounts(self._counts.allocations, self._counts.frees + 1)

    def close(self) -> None:
        """Gives back everything that is out and everything that is kept."""
        for buffer in self.held:
            self.release(buffer)
        self._pool.trim()
        self._memory.close()

"""The raw pool: keeps freed blocks by size class, so that asking again costs no driver call.

Semantics 2.10: classes are powers of two up to 1 MiB, then whole MiB; up to 2 GiB is retained; when memory
runs out the pool is drained and the request tried once more. Pool hits count as no driver allocation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.devices.base import NoRoomError
from vramscope.devices.governor_types import checked_bytes
from vramscope.devices.ledger import AllocationCounts
from vramscope.errors import AllocationFailedError, VramscopeError
from vramscope.units import align

if TYPE_CHECKING:
    from vramscope.devices.base import Memory

SMALLEST_CLASS = 512
MIB = 2**20
RETAINED_LIMIT = 2 * 2**30


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How a pool behaves.

    ``limit``: bytes in use and cached together, None for no limit but the driver's. ``trim_when_full``: drain
    and try once more instead of refusing. ``profile``: keep counts per site.
    """

    enabled: bool = True
    retained_limit: int = RETAINED_LIMIT
    limit: int | None = None
    trim_when_full: bool = True
    profile: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Memory from the pool: ``requested`` bytes asked for, ``size`` bytes of its class."""

    number: int
    address: int
    requested: int
    size: int


@dataclass(frozen=True, slots=True)
class SiteStats:
    """What was asked for at one site; ``…_bytes`` of driver and pool count whole classes."""

    site: str
    requests: int = 0
    requested_bytes: int = 0
    driver_allocations: int = 0
    driver_bytes: int = 0
    pool_hits: int = 0
    pool_hit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TrimNotice:
    """A request that fitted only after the pool was drained."""

    requested: int
    used: int
    cached: int

    def sentence(self) -> str:
        """The whole story in one line."""
        return f"{self.requested:,} bytes: used {self.used:,}, cached {self.cached:,}: fits after a trim"


def size_class(size: int) -> int:
    """Bytes of the class that holds ``size``: a power of two from 512 up to 1 MiB, then whole MiB."""
    if size <= MIB:
        return max(SMALLEST_CLASS, 1 << max(size - 1, 0).bit_length())
    return align(size, MIB)


class RawPool:
    """Blocks from the memory underneath, reused by class. Not thread-safe: one thread owns a device."""

    def __init__(self, memory: Memory, options: PoolOptions | None = None) -> None:
        """``options``: the defaults when left out."""
        self._memory = memory
        self._options = options or PoolOptions()
        self._cached: dict[int, list[int]] = {}
        self._open: dict[int, Block] = {}
        self._next = 1
        self._used = 0
        self._retained = 0
        self._counts: Counter[str] = Counter()
        self._sites: dict[str, SiteStats] = {}
        self._trims: list[TrimNotice] = []

    @property
    def used(self) -> int:
        """Bytes of blocks that are out, in whole classes."""
        return self._used

    @property
    def retained(self) -> int:
        """Bytes that the pool keeps for the next request."""
        return self._retained

    @property
    def allocation_counts(self) -> AllocationCounts:
        """Driver calls so far; pool hits are none."""
        return AllocationCounts(self._counts["allocations"], self._counts["frees"])

    @property
    def pool_hits(self) -> int:
        """Requests that needed no driver call."""
        return self._counts["hits"]

    @property
    def trims(self) -> tuple[TrimNotice, ...]:
        """Requests that fitted only after a trim, oldest first."""
        return tuple(self._trims)

    @property
    def site_stats(self) -> tuple[SiteStats, ...]:
        """Counts per site; empty when the profile is off."""
        return tuple(self._sites.values())

    def keeps(self, size: int) -> bool:
        """Whether a block for ``size`` bytes is kept."""
        return bool(self._cached.get(size_class(size)))

    def allocate(self, size: int, site: str = "") -> Block:
        """A block of at least ``size`` bytes (0 is legal) for ``site``.

        Raises:
            AllocationFailedError: neither the limit nor the driver holds it; it says what is used, what is
                cached, and whether a trim would help.
            InvalidRequestError: no number of bytes.
        """
        whole = size_class(checked_bytes(size, "an allocation from the pool"))
        cached = self._cached.get(whole)
        hit = bool(cached)
        address = cached.pop() if cached else self._from_driver(whole, size)
        self._retained -= whole if hit else 0
        self._used += whole
        self._counts["hits" if hit else "allocations"] += 1
        block = Block(self._next, address, size, whole)
        self._next += 1
        self._open[block.number] = block
        if self._options.profile:
            self._attribute(site, block, hit=hit)
        return block

    def release(self, block: Block) -> None:
        """Takes a block back, into the pool where it may retain it.

        Raises:
            VramscopeError: it was given back before.
        """
        if self._open.pop(block.number, None) is None:
            raise VramscopeError(f"block {block.number} of {block.size:,} bytes", "it was given back already")
        self._used -= block.size
        if self._options.enabled and self.retained + block.size <= self._options.retained_limit:
            self._retained += block.size
            self._cached.setdefault(block.size, []).append(block.address)
        else:
            self._free(block.address)

    def from_below(self, size: int) -> int:
        """The address of exactly ``size`` bytes that never come back here; what is kept gives way to them.

        Raises:
            NoRoomError: the memory underneath has none left.
        """
        try:
            return self._memory.malloc(size)
        except NoRoomError:
            if not self.trim():
                raise
        return self._memory.malloc(size)

    def trim(self) -> int:
        """Gives everything cached back to the driver and returns how many bytes that was."""
        given, self._retained = self._retained, 0
        cached, self._cached = self._cached, {}
        for addresses in cached.values():
            for address in addresses:
                self._free(address)
        return given

    def _from_driver(self, whole: int, size: int) -> int:
        """New memory; when there is none, the pool is drained and it is tried once more."""
        used, cached = self.used, self.retained
        try:
            return self._try_driver(whole, size)
        except AllocationFailedError:
            if not (cached and self._options.trim_when_full and self._within_limit(used + whole)):
                raise
        self.trim()
        address = self._try_driver(whole, size)
        self._trims.append(TrimNotice(size, used, cached))
        return address

    def _try_driver(self, whole: int, size: int) -> int:
        if not self._within_limit(self.used + self.retained + whole):
            raise self._refusal(whole, size, f"the pool's limit is {self._options.limit:,}")
        try:
            return self._memory.malloc(whole)
        except NoRoomError as refusal:
            raise self._refusal(whole, size, refusal.why) from refusal

    def _within_limit(self, total: int) -> bool:
        return self._options.limit is None or total <= self._options.limit

    def _refusal(self, whole: int, size: int, reason: str) -> AllocationFailedError:
        """The refusal in numbers. Only a limit can promise that a trim will help: a driver may fragment."""
        fits = self._options.limit is not None and self._within_limit(self.used + whole)
        fits = fits and self.retained > 0
        hint = ": fits after a trim" if fits else ""
        return AllocationFailedError(
            what=f"{size:,} bytes from the pool",
            why=f"used {self.used:,}, cached {self.retained:,}{hint}; {reason}",
            remedy="Trim the pool" if fits else "Lower the context or the batch, or choose a larger card",
            requested=size,
            used=self.used,
            cached=self.retained,
            fits_after_trim=fits,
        )

    def _free(self, address: int) -> None:
        self._memory.free(address)
        self._counts["frees"] += 1

    def _attribute(self, site: str, block: Block, *, hit: bool) -> None:
        now = self._sites.get(site, SiteStats(site))
        self._sites[site] = replace(
            now,
            requests=now.requests + 1,
            requested_bytes=now.requested_bytes + block.requested,
            driver_allocations=now.driver_allocations + (not hit),
            driver_bytes=now.driver_bytes + (0 if hit else block.size),
            pool_hits=now.pool_hits + hit,
            pool_hit_bytes=now.pool_hit_bytes + (block.size if hit else 0),
        )

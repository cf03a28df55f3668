"""A virtual-memory arena: addresses are reserved for nothing, and memory is mapped as blocks need it.

A block's address never changes while it grows, so a captured graph stays valid (semantics 2.10). Small blocks
share granules; a granule goes back when it is asked for and no block is left on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vramscope.devices.governor_types import checked_bytes
from vramscope.errors import AllocationFailedError, InvalidRequestError
from vramscope.units import align

if TYPE_CHECKING:
    from vramscope.devices.governor_growth import Member
    from vramscope.devices.governor_mapping import Mapper
    from vramscope.devices.governor_types import Role
    from vramscope.graph.model import Array

TENSOR_ALIGNMENT = 64
"""Alignment of a block in bytes."""


@dataclass(slots=True, eq=False)
class ArenaBlock:
    """``size`` usable bytes at ``offset``, able to grow in place up to ``reserved``."""

    offset: int
    size: int
    reserved: int
    role: Role
    open: bool = field(default=True)


class VirtualArena:
    """Blocks in one range of addresses. Not thread-safe: one thread owns a device."""

    def __init__(self, mapper: Mapper, member: Member) -> None:
        """Charges nothing.

        Args:
            mapper: the addresses.
            member: whose mapped allowance the granules come from.
        """
        self._mapper = mapper
        self._member = member
        self._blocks: list[ArenaBlock] = []
        self._mapped: dict[int, Role] = {}

    @property
    def committed_bytes(self) -> int:
        """Bytes of mapped granules."""
        return len(self._mapped) * self._mapper.granule

    @property
    def used_bytes(self) -> int:
        """Bytes of open blocks, without what is unused in their granules."""
        return sum(block.size for block in self._blocks)

    def bytes_for(self, role: Role) -> int:
        """Bytes of open blocks of one role: roles share granules and stay apart here."""
        return sum(block.size for block in self._blocks if block.role == role)

    def allocate(self, size: int, role: Role, *, reserve: int = 0) -> ArenaBlock:
        """A block of ``size`` bytes that can grow in place up to ``reserve``; its contents are undefined.

        Raises:
            TierExhaustedError: nobody has the capacity; nothing was mapped.
            AllocationFailedError: no addresses are left, or the device refused; nothing stays mapped.
        """
        checked_bytes(size, "a block of the arena")
        reserved = max(size, checked_bytes(reserve, "a block's reserve"))
        block = ArenaBlock(self._place(reserved), 0, reserved, role)
        self._commit(block, size)
        index = sum(other.offset < block.offset for other in self._blocks)
        self._blocks.insert(index, block)
        return block

    def extend(self, block: ArenaBlock, size: int) -> None:
        """Grows a block in place to ``size`` bytes; its address stays.

        Raises:
            InvalidRequestError: it is closed, or ``size`` is more than it reserved.
            TierExhaustedError: nobody has the capacity; the block is as it was.
            AllocationFailedError: the device refused; the block is as it was.
        """
        self._require_open(block)
        if checked_bytes(size, "a block of the arena") > block.reserved:
            raise InvalidRequestError(
                f"growing a block to {size:,} bytes", f"it reserved {block.reserved:,}", "Reserve more"
            )
        self._commit(block, max(size, block.size))

    def release(self, block: ArenaBlock) -> None:
        """Closes a block. Its granules stay mapped for the next one; ``trim`` gives them back.

        Raises:
            InvalidRequestError: it was closed before.
        """
        self._require_open(block)
        block.open = False
        self._blocks.remove(block)

    def trim(self, most: int | None = None) -> int:
        """Unmaps granules that no block is on, up to ``most`` bytes rounded up; returns how many bytes."""
        granule = self._mapper.granule
        idle = sorted(set(self._mapped) - {index for block in self._blocks for index in self._span(block)})
        count = len(idle) if most is None else min(len(idle), -(-most // granule))
        for index in idle[:count]:
            self._unmap(index)
        return count * granule

    def view(self, block: ArenaBlock) -> Array:
        """The block's bytes."""
        self._require_open(block)
        return self._mapper.view(block.offset, block.size)

    def _place(self, reserved: int) -> int:
        """The lowest free aligned offset with ``reserved`` bytes of addresses behind it."""
        start = 0
        for block in self._blocks:
            if start + reserved <= block.offset:
                break
            start = max(start, align(block.offset + block.reserved, TENSOR_ALIGNMENT))
        if start + reserved > self._mapper.size:
            raise AllocationFailedError(
                f"{reserved:,} bytes of addresses in the arena",
                f"no gap is that long; the arena has {self._mapper.size:,}",
                "Reserve a longer range",
                requested=reserved,
                used=self.used_bytes,
            )
        return start

    def _span(self, block: ArenaBlock, size: int | None = None) -> range:
        """Granules that the first ``size`` bytes of a block lie on; all of its own when left out."""
        granule = self._mapper.granule
        end = block.offset + (block.size if size is None else size)
        return range(block.offset // granule, -(-end // granule) if end > block.offset else 0)

    def _commit(self, block: ArenaBlock, size: int) -> None:
        missing = [index for index in self._span(block, size) if index not in self._mapped]
        if missing:
            self._map_all(missing, block.role)
        block.size = size

    def _map_all(self, missing: list[int], role: Role) -> None:
        """Maps every granule or none; what was granted and not mapped goes back."""
        with self._member.grow(len(missing) * self._mapper.granule, role) as grant:
            done: list[int] = []
            try:
                for index in missing:
                    self._mapper.map(index)
                    done.append(index)
            except BaseException:
                for index in done:
                    self._mapper.unmap(index)
                raise
            grant.commit()
        self._mapped.update(dict.fromkeys(missing, role))

    def _unmap(self, index: int) -> None:
        self._mapper.unmap(index)
        self._member.note_unmapped(self._mapper.granule, self._mapped.pop(index))

    def _require_open(self, block: ArenaBlock) -> None:
        if not block.open:
            raise InvalidRequestError(f"a block of {block.size:,} bytes", "it was released already")

"""Memory of a binding that is backed range by range: addresses at once, bytes when they are committed.

The addresses never change, so a cache that grows in place keeps the graph that was captured over it
(semantics 2.6, 2.9). What is committed is mapped under the session's allowance of the governor's zone: it is
charged once, and a refused commit changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.devices.governor import Governor
from vramscope.devices.governor_growth import MappedZone
from vramscope.devices.governor_mapping import GRANULE, HostMapper
from vramscope.errors import InvalidRequestError

if TYPE_CHECKING:
    from vramscope.devices.base import Device
    from vramscope.devices.governor_growth import Member
    from vramscope.devices.governor_types import Role
    from vramscope.devices.ledger import Lease, Site
    from vramscope.graph.model import Array
    from vramscope.run.memory import SessionMemory

Ranges = tuple[tuple[int, int], ...]
"""Byte ranges [start, end), rising, apart."""


class VirtualBacking:
    """``size`` bytes of addresses; granules of them are committed. One thread owns it."""

    def __init__(self, device: Device, member: Member, site: Site, size: int, granule: int = GRANULE) -> None:
        """Reserves addresses; nothing is charged.

        Args:
            device: whose ledger counts what is committed.
            member: of the governor's zone: whose allowance it is.
            site: what the bytes are for.
            size: bytes, rounded up to whole granules.
            granule: bytes that are committed at once, a multiple of the system's page.
        """
        self._device = device
        self._member = member
        self._site = site
        self._size = size
        self._mapper = HostMapper(size, granule)
        self._held: dict[int, Lease] = {}

    @property
    def address(self) -> int:
        """Where the addresses start."""
        return self._mapper.address

    @property
    def bytes(self) -> Array:
        """All of it as flat bytes; touch only what is committed."""
        return self._mapper.view(0, self._size)

    @property
    def committed_bytes(self) -> int:
        """Bytes of committed granules."""
        return len(self._held) * self._mapper.granule

    @property
    def committed(self) -> Ranges:
        """Committed byte ranges."""
        found: list[tuple[int, int]] = []
        granule = self._mapper.granule
        for index in sorted(self._held):
            start = index * granule
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, (index + 1) * granule))
        return tuple(found)

    def covers(self, end: int) -> bool:
        """Whether the first ``end`` bytes are committed."""
        return end == 0 or bool(self.committed and self.committed[0][0] == 0 and self.committed[0][1] >= end)

    def commit(self, start: int, end: int) -> int:
        """Backs [start, end), rounded out to granules; returns the bytes newly committed. They read as 0.

        Raises:
            InvalidRequestError: outside the addresses.
            TierExhaustedError: nobody has the capacity; nothing changed.
            OutOfBudgetError: the device has not; nothing changed.
        """
        self._check(start, end)
        granule = self._mapper.granule
        indices = range(start // granule, -(-end // granule)) if end > start else range(0)
        missing = [index for index in indices if index not in self._held]
        if not missing:
            return 0
        with self._member.grow(len(missing) * granule) as grant:
            self._map_all(missing)
            grant.commit()
        return len(missing) * granule

    def _map_all(self, missing: list[int]) -> None:
        done: list[int] = []
        try:
            for index in missing:
                self._held[index] = self._device.ledger.take(self._site, self._mapper.granule)
                done.append(index)
                self._mapper.map(index)
        except BaseException:
            for index in done:
                self._unmap(index)
            raise

    def decommit(self, start: int, end: int) -> int:
        """Takes back the granules that lie wholly in [start, end); returns their bytes. Contents are lost.

        Raises:
            InvalidRequestError: outside the addresses.
        """
        self._check(start, end)
        granule = self._mapper.granule
        last = end // granule if end < self._size else -(-end // granule)
        inside = [index for index in self._held if -(-start // granule) <= index < last]
        for index in inside:
            self._unmap(index)
        given = len(inside) * granule
        self._member.note_unmapped(given)
        self._member.give_up(given)
        return given

    def _unmap(self, index: int) -> None:
        self._mapper.unmap(index)
        self._device.ledger.give_back(self._held.pop(index))

    def _check(self, start: int, end: int) -> None:
        if not 0 <= start <= end <= self._size:
            raise InvalidRequestError(
                f"bytes {start:,} to {end:,} of {self._site}", f"it has bytes 0 to {self._size:,}"
            )

    def close(self) -> None:
        """Takes everything back and leaves the zone."""
        self.decommit(0, self._size)
        self._member.leave()


def zone_of(memory: SessionMemory) -> MappedZone:
    """The zone in which the session's virtual memory is mapped, made when it is first needed.

    Raises:
        InvalidRequestError: a third party governs the session: it grants leases, and no mapped growth.
    """
    if memory.zone is None:
        governor = memory.leases.governor
        if not isinstance(governor, Governor):
            raise InvalidRequestError(
                "virtual memory",
                f"{governor.authority.name} grants no mapped growth",
                "Bind plainly",
            )
        memory.zone = MappedZone(governor)
    return memory.zone


def join_zone(memory: SessionMemory, name: str, role: Role) -> Member:
    """A member of the session's zone with no allowance yet: what it commits grows it."""
    zone = zone_of(memory)
    holder = zone.governor.issue_holder(f"{name} of {memory.leases.session}")
    return zone.join(holder, role)

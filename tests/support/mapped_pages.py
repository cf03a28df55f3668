"""A stand-in for the driver's virtual memory: pages of a small card."""

from __future__ import annotations

from dataclasses import dataclass, field

from vramscope.devices.base import NoRoomError

PAGE = 2 * 2**20


@dataclass
class Mapped:
    """Pages of a small card."""

    capacity: int = 64 * PAGE
    page: int = PAGE
    held: dict[int, tuple[int, int]] = field(default_factory=dict)
    reserved: int = 0
    handles: int = 0

    def reserve(self, size: int) -> int:
        self.reserved += size
        return 1 << 42

    def give_up(self, address: int, size: int) -> None:
        assert address == 1 << 42
        self.reserved -= size

    def map(self, address: int, size: int) -> int:
        assert address % PAGE == 0
        assert size % PAGE == 0
        assert all(address >= a + s or a >= address + size for a, (s, _) in self.held.items()), "mapped twice"
        if self.used + size > self.capacity:
            raise NoRoomError("cuMemCreate answers 2: out of memory")
        self.handles += 1
        self.held[address] = (size, self.handles)
        return self.handles

    def unmap(self, address: int, size: int, handle: int) -> None:
        assert self.held.pop(address) == (size, handle)

    @property
    def used(self) -> int:
        return sum(size for size, _ in self.held.values())

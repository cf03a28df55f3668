"""Device memory by pages, over a stand-in for the driver's virtual memory."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from cuda_twin import Twin

from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.cuda.pages import NoRoomError, PagedMemory, memory_over
from vramscope.devices.cuda.platform import Platform
from vramscope.devices.ledger import Site
from vramscope.errors import AllocationFailedError
from vramscope.units import ALIGNMENT

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


def test_small_buffers_share_a_page() -> None:
    mapped = Mapped()
    memory = PagedMemory(mapped)
    found = [memory.malloc(size) for size in (1, 1000, PAGE // 2)]
    assert mapped.used == PAGE
    assert all(address % ALIGNMENT == 0 for address in found)
    for address in found:
        assert mapped.used == PAGE
        memory.free(address)
    assert mapped.used == 0


def test_buffers_take_no_more_pages_than_they_fill() -> None:
    mapped = Mapped()
    memory = PagedMemory(mapped)
    sizes = [PAGE * 7 // 8] * 30
    for size in sizes:
        memory.malloc(size)
    assert mapped.used == -(-sum(sizes) // PAGE) * PAGE


def test_a_large_buffer_leaves_though_its_last_page_is_shared() -> None:
    mapped = Mapped()
    memory = PagedMemory(mapped)
    large = memory.malloc(10 * PAGE + 5)
    memory.malloc(7)
    memory.free(large)
    assert mapped.used == PAGE
    assert memory.malloc(10 * PAGE) == large, "the addresses are used again"


def test_what_does_not_fit_changes_nothing() -> None:
    mapped = Mapped(capacity=8 * PAGE)
    memory = PagedMemory(mapped)
    first = memory.malloc(5 * PAGE)
    with pytest.raises(NoRoomError):
        memory.malloc(4 * PAGE)
    assert mapped.used == 5 * PAGE
    second = memory.malloc(3 * PAGE)
    memory.free(first)
    memory.free(second)
    assert mapped.used == 0
    memory.close()
    assert mapped.reserved == 0


@pytest.mark.parametrize("seed", range(20))
def test_buffers_never_overlap_and_always_lie_on_pages(seed: int) -> None:
    generator = random.Random(seed)
    mapped = Mapped(capacity=10**6 * PAGE)
    memory = PagedMemory(mapped)
    held: dict[int, int] = {}
    for _ in range(300):
        if held and generator.random() < 0.45:
            address = generator.choice(list(held))
            memory.free(address)
            del held[address]
            continue
        size = int(2 ** generator.uniform(0, 25))
        address = memory.malloc(size)
        assert all(address >= a + s or a >= address + size for a, s in held.items())
        held[address] = size
        covered = sum(
            max(0, min(address + size, a + s) - max(address, a)) for a, (s, _) in mapped.held.items()
        )
        assert covered == size
    memory.close()
    assert (mapped.used, mapped.reserved) == (0, 0)


def test_without_addresses_every_buffer_is_the_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped, twin = Mapped(), Twin()
    assert isinstance(memory_over(mapped, twin), PagedMemory)
    assert mapped.reserved == 0

    def refuse(_size: int) -> int:
        raise NoRoomError("cuMemAddressReserve answers 2: out of memory")

    monkeypatch.setattr(mapped, "reserve", refuse)
    memory = memory_over(mapped, twin)
    assert memory.malloc(100) in twin.blocks


def test_the_device_says_what_the_driver_said_and_goes_on() -> None:
    twin, mapped = Twin(), Mapped(capacity=4 * PAGE)
    device = CudaDevice(platform=Platform(twin, twin, twin, memory=PagedMemory(mapped)))
    kept = device.allocate(Site("weights", "w"), PAGE)
    with pytest.raises(AllocationFailedError, match="out of memory"):
        device.allocate(Site("KV cache", "k"), 4 * PAGE)
    assert device.ledger.total.current_bytes == PAGE
    device.release(kept)
    device.allocate(Site("KV cache", "k"), 4 * PAGE)
    device.close()
    assert mapped.used == 0

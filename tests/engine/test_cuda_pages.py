"""Device memory by pages, over a stand-in for the driver's virtual memory."""

from __future__ import annotations

import random

import pytest
from cuda_twin import Twin
from mapped_pages import PAGE, Mapped

from vramscope.devices.base import NoRoomError
from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.cuda.pages import PagedMemory, memory_over
from vramscope.devices.cuda.platform import Platform
from vramscope.devices.governor import Governor
from vramscope.devices.ledger import Site
from vramscope.errors import AllocationFailedError
from vramscope.ops.spec import Lifetime
from vramscope.plan.types import WorkspacePlan
from vramscope.run.leases import SessionLeases
from vramscope.run.memory import SessionMemory
from vramscope.run.workspace import reserve_slot
from vramscope.units import ALIGNMENT


def test_g05_the_first_buffer_takes_one_page_and_small_ones_share_it() -> None:
    mapped = Mapped()
    memory = PagedMemory(mapped)
    assert (mapped.used, mapped.reserved) == (0, 0)
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


def test_g05_what_does_not_fit_maps_nothing() -> None:
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
def test_g05_buffers_never_overlap_and_cycles_leak_nothing(seed: int) -> None:
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


def test_r09_the_two_workspace_slots_share_a_page_and_are_counted_apart() -> None:
    twin, mapped = Twin(), Mapped()
    device = CudaDevice(platform=Platform(twin, twin, twin, memory=PagedMemory(mapped)))
    memory = SessionMemory(device, SessionLeases(Governor({}), "a session"))
    for lifetime, size in ((Lifetime.SESSION_PERSISTENT, 1000), (Lifetime.STEP_SCOPED, 500)):
        needs = {each: size if each is lifetime else 0 for each in Lifetime}
        reserve_slot(memory, lifetime, WorkspacePlan(needs, dict.fromkeys(Lifetime, 256), {}))
    assert mapped.used == PAGE
    sites = {site.name: counts.current_bytes for site, counts in device.ledger.sites.items()}
    assert sites == {"session-persistent": 1000, "step-scoped": 500}
    assert memory.leases.sizes == {
        "session-persistent workspace": 1000,
        "step-scoped workspace": 500,
    }
    memory.give(memory.workspace.pop(Lifetime.STEP_SCOPED))
    assert mapped.used == PAGE, "the other one is still on it"
    assert memory.leases.sizes["step-scoped workspace"] == 0
    memory.close()
    assert mapped.used == 0


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

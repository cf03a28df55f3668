"""The virtual-memory arena: granules, growth in place, trims, failures (G-05), and shared granules (R-09)."""

from __future__ import annotations

import numpy as np
import pytest

from vramscope.devices.governor import Governor
from vramscope.devices.governor_arena import TENSOR_ALIGNMENT, VirtualArena
from vramscope.devices.governor_growth import MappedZone, Member
from vramscope.devices.governor_mapping import GRANULE, HostMapper
from vramscope.devices.governor_types import KvCache, Tier, Weights, Workspace
from vramscope.errors import AllocationFailedError, InvalidRequestError, TierExhaustedError

DEVICE = Tier.DEVICE
G = 4096
"""A small granule for the tests: one page."""

PERSISTENT, STEP = Workspace(step_scoped=False), Workspace(step_scoped=True)


class FailingMapper(HostMapper):
    """Host memory whose driver refuses from the given map call on."""

    def __init__(self, size: int, granule: int) -> None:
        super().__init__(size, granule)
        self.calls_left = 10**9
        self.mapped: set[int] = set()

    def map(self, index: int) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise AllocationFailedError("cuMemCreate", "CUDA_ERROR_OUT_OF_MEMORY")
        super().map(index)
        assert index not in self.mapped
        self.mapped.add(index)

    def unmap(self, index: int) -> None:
        super().unmap(index)
        self.mapped.remove(index)


class World:
    """An arena of 64 granules over a governor of ``limit`` bytes."""

    def __init__(self, limit: int = 8 * G) -> None:
        self.governor = Governor({DEVICE: limit})
        self.zone = MappedZone(self.governor)
        self.mapper = FailingMapper(64 * G, G)
        self.member = self.join()
        self.arena = VirtualArena(self.mapper, self.member)

    def join(self) -> Member:
        return self.zone.join(self.governor.workspace, PERSISTENT, reclaim=lambda size: self.arena.trim(size))

    def charged(self) -> tuple[int, int, int]:
        return self.governor.used(DEVICE), self.member.mapped, len(self.mapper.mapped) * G


def test_g05_reserving_charges_nothing_and_the_first_block_commits_one_granule() -> None:
    world = World()
    assert (world.charged(), world.arena.committed_bytes) == ((0, 0, 0), 0)
    block = world.arena.allocate(0, KvCache(), reserve=32 * G)
    assert world.charged() == (0, 0, 0)
    world.arena.extend(block, 1)
    assert (world.charged(), world.arena.committed_bytes) == ((G, G, G), G)
    assert HostMapper(1).size == HostMapper(1).granule == GRANULE == 2 * 2**20


def test_g05_a_refused_block_commits_nothing() -> None:
    world = World()
    block = world.arena.allocate(8 * G, Weights())
    before = world.charged()
    with pytest.raises(TierExhaustedError):
        world.arena.allocate(1, Weights())
    with pytest.raises(AllocationFailedError, match="no gap"):
        world.arena.allocate(0, Weights(), reserve=57 * G)
    assert (world.charged(), world.arena.used_bytes) == (before, 8 * G)
    assert world.arena.view(block).size == 8 * G


def test_g05_a_device_that_fails_halfway_leaves_nothing_mapped() -> None:
    world = World()
    block = world.arena.allocate(G, KvCache(), reserve=8 * G)
    world.mapper.calls_left = 2
    with pytest.raises(AllocationFailedError, match="cuMemCreate"):
        world.arena.extend(block, 5 * G)
    assert (world.charged(), block.size, world.zone.metrics().rollbacks) == ((G, G, G), G, 1)
    assert world.governor.growing(DEVICE) == 0
    world.mapper.calls_left = 4
    world.arena.extend(block, 5 * G)
    assert world.charged() == (5 * G,) * 3


def test_g05_cycles_leak_nothing() -> None:
    world = World()
    for turn in range(20):
        blocks = [world.arena.allocate(size, STEP) for size in (100, 3 * G, turn * 50)]
        assert world.arena.committed_bytes <= 5 * G
        for block in blocks:
            world.arena.release(block)
    assert world.arena.used_bytes == 0
    committed = world.arena.committed_bytes
    assert world.arena.trim() == committed
    assert world.member.give_up(committed) == committed
    assert world.charged() == (0, 0, 0)


def test_g05_a_captured_graph_survives_growth_and_remapping() -> None:
    world = World()
    block = world.arena.allocate(64, KvCache(), reserve=8 * G)
    counter = world.arena.view(block)[:8].view(np.int64)
    counter[0] = 0
    address = counter.ctypes.data

    def replay() -> None:
        counter[0] += 1

    for pages in range(1, 6):
        world.arena.extend(block, pages * G)
        world.arena.view(block)[-1] = pages
        replay()
    assert (counter[0], world.arena.view(block).ctypes.data) == (5, address)
    world.arena.release(block)
    assert world.arena.trim() == 5 * G
    again = world.arena.allocate(64, KvCache(), reserve=8 * G)
    assert again.offset == block.offset
    replay()
    assert (world.arena.view(again)[:8].view(np.int64)[0], counter.ctypes.data) == (1, address)


def test_r09_two_workspace_lifetimes_share_a_mapping_and_are_counted_apart() -> None:
    world = World()
    persistent, step = world.arena.allocate(1000, PERSISTENT), world.arena.allocate(500, STEP)
    assert world.charged() == (G, G, G)
    assert (world.arena.bytes_for(PERSISTENT), world.arena.bytes_for(STEP)) == (1000, 500)
    assert world.zone.metrics().workspace_mapped == G
    world.arena.release(step)
    assert (world.arena.bytes_for(PERSISTENT), world.arena.bytes_for(STEP)) == (1000, 0)
    assert (world.arena.trim(), world.charged()) == (0, (G, G, G))
    world.arena.release(persistent)
    assert (world.arena.trim(), world.member.mapped, world.member.unused) == (G, 0, G)


def test_blocks_are_aligned_and_never_overlap_and_gaps_are_used_again() -> None:
    world = World()
    first, second, third = (world.arena.allocate(100, Weights()) for _ in range(3))
    assert [block.offset for block in (first, second, third)] == [0, 128, 256]
    world.arena.release(second)
    assert world.arena.allocate(129, Weights()).offset == 384
    filler = world.arena.allocate(70, Weights())
    assert (filler.offset, filler.offset % TENSOR_ALIGNMENT) == (128, 0)
    for number, block in enumerate((first, filler, third)):
        world.arena.view(block)[:] = number
    assert [int(world.arena.view(block).sum()) for block in (first, filler, third)] == [0, 70, 200]


def test_a_released_block_is_refused_and_a_block_stays_within_its_reserve() -> None:
    world = World()
    block = world.arena.allocate(10, Weights(), reserve=20)
    with pytest.raises(InvalidRequestError, match="reserved 20"):
        world.arena.extend(block, 21)
    world.arena.extend(block, 5)
    assert block.size == 10
    world.arena.release(block)
    for use in (world.arena.release, world.arena.view, lambda gone: world.arena.extend(gone, 1)):
        with pytest.raises(InvalidRequestError, match="released already"):
            use(block)


def test_idle_granules_go_to_whoever_asks_for_them() -> None:
    world = World()
    world.arena.release(world.arena.allocate(6 * G, STEP))
    kept = world.arena.allocate(10, PERSISTENT)
    other = world.zone.join(world.governor.kv_cache, KvCache())
    other.grow(4 * G).commit()
    assert (other.mapped, world.member.mapped, world.arena.committed_bytes) == (4 * G, 4 * G, 4 * G)
    world.arena.view(kept)[:] = 7
    with pytest.raises(TierExhaustedError):
        other.grow(4 * G)
    assert (int(world.arena.view(kept).sum()), world.governor.used(DEVICE)) == (70, 8 * G)


def test_host_memory_gives_its_pages_back_and_keeps_its_addresses() -> None:
    mapper = HostMapper(3 * G, G)
    mapper.map(1)
    view = mapper.view(G, G)
    view[:] = 9
    address = mapper.address
    mapper.unmap(1)
    mapper.map(1)
    assert (int(view.sum()), mapper.address, view.ctypes.data) == (0, address, address + G)
    assert (mapper.size, mapper.granule) == (3 * G, G)

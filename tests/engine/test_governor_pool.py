"""The raw pool and deferred releases: classes, reuse, trims, profile, barrier, quarantine (R-06 to R-08)."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from vramscope.devices.base import NoRoomError
from vramscope.devices.governor_pool import (
    MIB,
    RETAINED_LIMIT,
    PoolOptions,
    RawPool,
    SiteStats,
    size_class,
)
from vramscope.devices.governor_release import DeferredReleases, Quarantine
from vramscope.devices.host import HostDevice
from vramscope.devices.ledger import AllocationCounts, Site
from vramscope.errors import AllocationFailedError, InvalidRequestError, ReleasePendingError, VramscopeError


class FakeDriver:
    """Counts bytes and refuses beyond its capacity."""

    def __init__(self, capacity: int = 2**62) -> None:
        self.capacity = capacity
        self.out: dict[int, int] = {}
        self.next = 0x1000

    def malloc(self, size: int) -> int:
        if sum(self.out.values()) + size > self.capacity:
            raise NoRoomError("cuMemAlloc answers CUDA_ERROR_OUT_OF_MEMORY")
        self.next += size
        self.out[self.next] = size
        return self.next

    def free(self, address: int) -> None:
        del self.out[address]

    def close(self) -> None:
        self.out.clear()


def test_r06_a_class_holds_its_request_and_grows_with_it() -> None:
    sizes = [0, 1, 511, 512, 513, 1023, 1024, 4097, MIB - 1, MIB, MIB + 1, 4 * MIB, 4 * MIB + 1, 2**33]
    classes = [size_class(size) for size in sizes]
    assert all(whole >= max(size, 512) for size, whole in zip(sizes, classes, strict=True))
    assert classes == sorted(classes)
    assert classes == [
        *(512, 512, 512, 512, 1024, 1024, 1024, 8192, MIB, MIB, 2 * MIB, 4 * MIB, 5 * MIB, 2**33)
    ]


def test_r06_a_second_request_gets_the_same_memory_without_a_driver_call() -> None:
    pool = RawPool(FakeDriver())
    first = pool.allocate(4 * MIB)
    pool.release(first)
    assert (pool.used, pool.retained) == (0, 4 * MIB)
    second = pool.allocate(4 * MIB)
    assert second.address == first.address
    assert (pool.pool_hits, pool.allocation_counts) == (1, AllocationCounts(1, 0))
    assert (pool.used, pool.retained) == (4 * MIB, 0)


def test_r06_a_disabled_pool_asks_the_driver_each_time_and_retains_nothing() -> None:
    pool = RawPool(FakeDriver(), PoolOptions(enabled=False))
    for count in (1, 2):
        pool.release(pool.allocate(4 * MIB))
        assert (pool.allocation_counts, pool.retained) == (AllocationCounts(count, count), 0)
    assert pool.pool_hits == 0


def test_r06_no_more_than_2_gib_are_retained() -> None:
    assert PoolOptions().retained_limit == RETAINED_LIMIT == 2**31
    driver = FakeDriver()
    pool = RawPool(driver)
    blocks = [pool.allocate(2**30) for _ in range(3)]
    for block in blocks:
        pool.release(block)
    assert (pool.retained, len(driver.out), pool.allocation_counts) == (2**31, 2, AllocationCounts(3, 1))
    assert (pool.trim(), pool.retained, driver.out) == (2**31, 0, {})
    assert pool.allocation_counts == AllocationCounts(3, 3)


def test_a_block_comes_back_once_and_sizes_are_checked() -> None:
    pool = RawPool(FakeDriver())
    block = pool.allocate(0)
    pool.release(block)
    with pytest.raises(VramscopeError, match="given back already"):
        pool.release(block)
    assert (pool.used, pool.retained) == (0, 512)
    with pytest.raises(InvalidRequestError):
        pool.allocate(-1)


def test_when_memory_runs_out_the_pool_is_drained_and_the_request_tried_once_more() -> None:
    driver = FakeDriver(capacity=8 * MIB)
    pool = RawPool(driver)
    kept = pool.allocate(MIB)
    for block in [pool.allocate(2 * MIB), pool.allocate(3 * MIB)]:
        pool.release(block)
    big = pool.allocate(7 * MIB)
    assert (set(driver.out), pool.retained) == ({kept.address, big.address}, 0)
    assert pool.allocation_counts == AllocationCounts(4, 2)
    with pytest.raises(AllocationFailedError, match="CUDA_ERROR_OUT_OF_MEMORY") as refusal:
        pool.allocate(MIB)
    assert (refusal.value.used, refusal.value.cached, refusal.value.fits_after_trim) == (8 * MIB, 0, False)
    assert pool.used == 8 * MIB


def test_a_drain_that_does_not_help_is_not_repeated() -> None:
    driver = FakeDriver(capacity=4 * MIB)
    pool = RawPool(driver)
    pool.release(pool.allocate(2 * MIB))
    with pytest.raises(AllocationFailedError):
        pool.allocate(5 * MIB)
    assert (driver.out, pool.retained, pool.trims) == ({}, 0, ())


def test_case_29_used_0_and_cached_half_the_limit_fits_after_a_trim() -> None:
    pool = RawPool(FakeDriver(), PoolOptions(limit=2**30))
    pool.release(pool.allocate(512 * MIB))
    block = pool.allocate(768 * MIB)
    assert block.size == 768 * MIB
    assert [notice.sentence() for notice in pool.trims] == [
        "805,306,368 bytes: used 0, cached 536,870,912: fits after a trim"
    ]


def test_case_29_without_trims_the_refusal_says_that_one_would_help() -> None:
    pool = RawPool(FakeDriver(), PoolOptions(limit=2**30, trim_when_full=False))
    pool.release(pool.allocate(512 * MIB))
    with pytest.raises(
        AllocationFailedError, match="used 0, cached 536,870,912: fits after a trim"
    ) as refusal:
        pool.allocate(768 * MIB)
    assert (refusal.value.requested, refusal.value.cached) == (768 * MIB, 512 * MIB)
    assert (refusal.value.fits_after_trim, refusal.value.remedy) == (True, "Trim the pool")
    pool.trim()
    with pytest.raises(AllocationFailedError) as hopeless:
        pool.allocate(2**30 + 1)
    assert not hopeless.value.fits_after_trim


@pytest.mark.parametrize(("limit", "cached"), [(None, 2 * MIB), (8 * MIB, 0)])
def test_a_trim_is_promised_only_where_a_limit_and_cached_blocks_are_in_the_way(
    limit: int | None, cached: int
) -> None:
    pool = RawPool(FakeDriver(capacity=4 * MIB), PoolOptions(limit=limit, trim_when_full=False))
    if cached:
        pool.release(pool.allocate(cached))
    with pytest.raises(AllocationFailedError) as refusal:
        pool.allocate(5 * MIB)
    assert (refusal.value.cached, refusal.value.fits_after_trim) == (cached, False)


def test_the_limit_holds_exactly_its_bytes() -> None:
    pool = RawPool(FakeDriver(), PoolOptions(limit=3 * MIB))
    pool.allocate(3 * MIB)
    with pytest.raises(AllocationFailedError, match="limit is 3,145,728"):
        pool.allocate(1)
    assert pool.used == 3 * MIB


def test_nothing_is_trimmed_for_what_cannot_fit_under_the_limit() -> None:
    pool = RawPool(FakeDriver(), PoolOptions(limit=2**30))
    pool.release(pool.allocate(512 * MIB))
    with pytest.raises(AllocationFailedError):
        pool.allocate(2**30 + 1)
    assert (pool.retained, pool.allocation_counts) == (512 * MIB, AllocationCounts(1, 0))


def test_r07_requests_of_one_class_are_attributed_to_the_site_that_asked() -> None:
    pool = RawPool(FakeDriver(), PoolOptions(profile=True))
    for size in (513, 700):
        pool.release(pool.allocate(size, "scores"))
    scores = SiteStats("scores", 2, 1213, 1, 1024, 1, 1024)
    assert list(pool.site_stats) == [scores]
    pool.allocate(513, "control")
    assert list(pool.site_stats) == [scores, SiteStats("control", 1, 513, 0, 0, 1, 1024)]


def test_r07_a_disabled_profile_has_no_state() -> None:
    pool = RawPool(FakeDriver())
    pool.allocate(513, "scores")
    assert (pool.site_stats, pool._sites) == ((), {})


class FakeTime:
    """A clock that moves only when somebody sleeps, and may do something then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at: dict[float, str] = {}
        self.done: set[str] = set()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.done |= {name for moment, name in self.at.items() if moment <= self.now}

    def ready(self, name: str) -> bool:
        return name in self.done


def test_r08_the_barrier_waits_for_its_own_workspace_and_ignores_unrelated_releases() -> None:
    times = FakeTime()
    freed: list[str] = []
    releases = DeferredReleases(times.clock, times.sleep)
    for name in ("other", "mine", "mine too"):
        owner = "other" if name == "other" else "step"
        releases.retire(owner, 10, partial(times.ready, name), partial(freed.append, name))
    times.at = {5.0: "mine", 12.0: "mine too"}
    releases.settle("step")
    assert freed == ["mine", "mine too"]
    assert 12 <= times.now < 12.1
    assert ([item.owner for item in releases.pending], releases.pending_bytes) == (["other"], 10)
    releases.settle("nobody's", timeout=0)
    assert times.now < 12.1


def test_r08_after_a_timeout_a_retry_succeeds() -> None:
    times, freed = FakeTime(), []
    releases = DeferredReleases(times.clock, times.sleep)
    releases.retire("step", 4096, lambda: times.ready("step"), lambda: freed.append("step"))
    with pytest.raises(ReleasePendingError, match=r"4,096 bytes of step.*30 s"):
        releases.settle("step")
    assert (freed, releases.pending_bytes) == ([], 4096)
    assert 30 <= times.now < 30.1
    times.done.add("step")
    releases.settle("step")
    releases.settle("step")
    assert (freed, releases.pending) == (["step"], ())


def test_r08_every_concurrent_identity_is_kept_and_freed_once() -> None:
    releases, freed, lock = DeferredReleases(), [], threading.Lock()

    def free(identity: tuple[int, int]) -> None:
        with lock:
            freed.append(identity)

    def work(worker: int) -> None:
        for number in range(50):
            identity = worker, number
            releases.retire(identity, 1, lambda: True, partial(free, identity))
            releases.settle((worker, number - number % 2))
        releases.poll()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(freed) == [(worker, number) for worker in range(4) for number in range(50)]
    assert releases.pending == ()


def test_nothing_is_freed_while_a_capture_holds_frees_back() -> None:
    releases, freed = DeferredReleases(), []
    with releases.held():
        releases.retire("step", 8, lambda: True, lambda: freed.append(1))
        assert (releases.poll(), freed) == (0, [])
    assert (releases.poll(), freed) == (1, [1])


def test_a_buffer_whose_graph_cannot_be_retired_stays_charged_until_it_can() -> None:
    device, quarantine, broken = HostDevice(), Quarantine(), [True]
    buffer = device.allocate(Site("bindings", "mask"), 64)
    order: list[str] = []

    def retire_graph() -> None:
        order.append("graph")
        if broken[0]:
            raise VramscopeError("graph of slot Primary", "the device refused the reset")

    def free() -> None:
        order.append("buffer")
        device.release(buffer)

    assert not quarantine.drop("mask", buffer.size, retire_graph, free)
    assert (quarantine.size, device.ledger.total.current_bytes, order) == (64, 64, ["graph"])
    assert "refused the reset" in quarantine.items[0].why
    assert (quarantine.retry(), quarantine.size) == (0, 64)
    broken[0] = False
    assert (quarantine.retry(), quarantine.items, device.ledger.total.current_bytes) == (64, (), 0)
    assert order == ["graph", "graph", "graph", "buffer"]
    assert quarantine.retry() == 0


def test_a_buffer_whose_graph_was_retired_is_freed_at_once() -> None:
    order: list[str] = []
    quarantine = Quarantine()
    assert quarantine.drop("mask", 64, lambda: order.append("graph"), lambda: order.append("buffer"))
    assert (order, quarantine.size) == (["graph", "buffer"], 0)

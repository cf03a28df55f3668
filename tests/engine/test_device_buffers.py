"""Scratch that goes back after every run is kept for the next one and gives way where bytes are short."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cuda_twin import Twin
from mapped_pages import PAGE, Mapped
from small_models import array_of, opened, session_of

from vramscope.devices.base import NoRoomError
from vramscope.devices.buffers import DeviceBuffers
from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.cuda.pages import PagedMemory
from vramscope.devices.cuda.platform import Platform
from vramscope.devices.governor_pool import PoolOptions
from vramscope.devices.host import HostDevice
from vramscope.devices.ledger import AllocationCounts, Site
from vramscope.devices.pages import HostMemory
from vramscope.errors import AllocationFailedError, VramscopeError
from vramscope.ops import table
from vramscope.ops.spec import Lifetime, OpSpec, WorkspaceQuery, WorkspaceRequirement

if TYPE_CHECKING:
    from vramscope.ops.call import Call

GRAPH = "g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }"
SCRATCH = Site("workspace", "step-scoped", transient=True)
WEIGHT = Site("weights", "w")


def rows_scratch(query: WorkspaceQuery) -> WorkspaceRequirement:
    """1,000 bytes a row, for one step."""
    return WorkspaceRequirement(1000 * query.input(0).shape[0], 256, Lifetime.STEP_SCOPED, "rows")


def relu(call: Call) -> None:
    """Writes all of its scratch."""
    x = call.array(0)
    call.scratch((1000 * x.shape[0],), np.uint8)[:] = 7
    np.maximum(x, 0, out=call.output(0, x.shape))


def test_r06_a_run_after_the_first_asks_for_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    row = OpSpec("", "Relu", relu, rows_scratch)
    monkeypatch.setattr(table, "TABLE", MappingProxyType({**table.TABLE, ("", "Relu"): row}))
    device = HostDevice(pool=PoolOptions(profile=True))
    session = session_of(opened(GRAPH), {"N": 8}, device=device)
    x = np.array([[-1, 2], [3, -4]], np.float32)
    assert array_of(session.run({"x": x}), "y").tolist() == [[0, 2], [3, 0]]
    before, requests = session.device_allocation_counts(), device.ledger.allocation_counts
    session.run({"x": x})
    assert session.device_allocation_counts() == before
    assert device.ledger.allocation_counts.allocations > requests.allocations
    assert device.ledger.component("workspace").current_bytes == 0
    assert device.ledger.component("workspace").peak_bytes == 2000, "as asked, whatever the class"
    stats = device.buffers.site_stats[0]
    assert (stats.site, stats.driver_bytes) == ("workspace: step-scoped", 1024 + 2048)
    session.close()
    device.close()


def test_r06_a_buffer_has_its_own_size_and_the_class_lies_beneath() -> None:
    memory = HostMemory(256)
    buffers = DeviceBuffers(None, memory, memory.view)
    first = buffers.allocate(SCRATCH, 700)
    assert (first.size, first.bytes.size, buffers.ledger.total.current_bytes) == (700, 700, 700)
    buffers.release(first)
    assert (buffers.retained, buffers.ledger.total.current_bytes) == (1024, 0)
    second = buffers.allocate(SCRATCH, 1000)
    assert (second.address, second.bytes.size, buffers.retained) == (first.address, 1000, 0)
    assert buffers.allocation_counts == AllocationCounts(1, 0)
    weight = buffers.allocate(WEIGHT, 700)
    buffers.release(weight)
    assert (buffers.retained, buffers.allocation_counts) == (0, AllocationCounts(2, 1))
    with pytest.raises(VramscopeError, match="given back already"):
        buffers.release(weight)
    buffers.close()
    assert buffers.allocation_counts == AllocationCounts(2, 2)


def test_what_is_kept_and_what_is_out_stay_within_the_budget_together() -> None:
    memory = HostMemory(256)
    buffers = DeviceBuffers(4096, memory, memory.view)
    buffers.release(buffers.allocate(SCRATCH, 1024))
    kept = buffers.allocate(WEIGHT, 3072)
    assert buffers.retained == 1024, "to the byte"
    again = buffers.allocate(SCRATCH, 1024)
    assert (buffers.retained, buffers.allocation_counts) == (0, AllocationCounts(2, 0))
    buffers.release(again)
    buffers.allocate(WEIGHT, 1)
    assert (buffers.retained, buffers.allocation_counts) == (0, AllocationCounts(3, 1))
    buffers.release(kept)
    buffers.release(buffers.allocate(SCRATCH, 1024))
    buffers.allocate(SCRATCH, 2049)
    assert buffers.retained == 1024
    buffers.allocate(SCRATCH, 2000 - 1024)
    assert buffers.allocation_counts == AllocationCounts(5, 2), "the kept block of its class was lent"


def test_a_full_card_takes_what_is_kept_and_tries_once_more() -> None:
    twin, mapped = Twin(), Mapped(capacity=4 * PAGE)
    device = CudaDevice(platform=Platform(twin, twin, twin, memory=PagedMemory(mapped)))
    device.release(device.allocate(SCRATCH, 3 * PAGE))
    assert mapped.used == 3 * PAGE
    weight = device.allocate(WEIGHT, 4 * PAGE)
    assert (mapped.used, device.buffers.retained) == (4 * PAGE, 0)
    for site in (WEIGHT, SCRATCH):
        before = device.ledger.total.current_bytes
        with pytest.raises(AllocationFailedError, match="out of memory"):
            device.allocate(site, 1 + PAGE)
        assert device.ledger.total.current_bytes == before
    device.release(weight)
    device.release(device.allocate(SCRATCH, 100))
    device.close()
    assert mapped.used == 0


def test_a_refusal_of_the_system_counts_nothing() -> None:
    device = HostDevice()
    for site in (WEIGHT, SCRATCH):
        with pytest.raises((MemoryError, AllocationFailedError)):
            device.allocate(site, 2**61)
    assert device.ledger.total.current_bytes == 0
    with pytest.raises(NoRoomError):
        HostMemory(256).malloc(2**62)

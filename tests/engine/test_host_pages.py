"""Buffers on the host: aligned, apart from each other, given back with the last that shares a chunk."""

from __future__ import annotations

import resource
import weakref
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cuda_twin import twin_device
from hypothesis import given
from hypothesis import strategies as st
from small_models import opened, session_of

from vramscope.devices.host import HostDevice
from vramscope.devices.ledger import Site
from vramscope.devices.pages import CHUNK, HUGE_PAGE, SHARED, HostPages

SIZES = st.sampled_from([0, 1, 255, SHARED[0] - 1, SHARED[0], 3 * 2**20 + 17, SHARED[-1], SHARED[-1] + 1])


@given(st.lists(SIZES, min_size=1, max_size=12))
def test_arrays_are_aligned_and_never_overlap(sizes: list[int]) -> None:
    pages = HostPages(256)
    taken = [pages.take(size) for size in sizes]
    assert [array.size for array in taken] == sizes
    assert all(array.ctypes.data % 256 == 0 for array in taken if array.size)
    spans = sorted((array.ctypes.data, array.ctypes.data + array.size) for array in taken if array.size)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_a_mid_sized_array_lies_on_whole_huge_pages() -> None:
    pages = HostPages(256)
    first, second = pages.take(2**20), pages.take(2**20)
    assert first.ctypes.data % HUGE_PAGE == 0
    assert second.ctypes.data == first.ctypes.data + 2**20


def test_a_chunk_goes_back_with_its_last_array() -> None:
    pages = HostPages(256)
    first, second = pages.take(2**20), pages.take(2**20)
    assert isinstance(first.base, np.ndarray)
    chunk = weakref.ref(first.base)
    pages.close()
    del first
    assert chunk() is not None
    del second
    assert chunk() is None


def test_a_full_chunk_is_left_for_the_next() -> None:
    pages = HostPages(256)
    count = CHUNK // SHARED[-1]
    arrays = [pages.take(SHARED[-1]) for _ in range(count + 1)]
    assert arrays[0].base is arrays[count - 1].base
    assert arrays[count].base is not arrays[0].base


def test_a_refusal_of_the_system_is_passed_on() -> None:
    with pytest.raises(MemoryError):
        HostPages(256).take(2**62)


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def test_memory_of_the_host_is_committed_as_it_is_touched_and_that_of_a_card_at_once() -> None:
    device, size = HostDevice(), 2**28
    assert device.commits_on_demand
    assert not twin_device()[0].commits_on_demand
    before = resident()
    buffer = device.allocate(Site("a test", "buffer"), size)
    assert resident() - before < size // 8
    buffer.bytes[: size // 2] = 1
    assert size // 4 < resident() - before < size * 3 // 4
    device.close()
    session = session_of(opened("g (float[4] x) => (float[4] y) { y = Relu(x) }"))
    assert session.governance.commits_on_demand

"""Host memory that lies on huge pages: buffers of some size share large aligned chunks.

A decode step reads every weight once; on pages of 4 KiB address translation costs as much as the reading
(measured: a step is 1.2 times faster so). NumPy asks the kernel for huge pages from 4 MiB on, so a weight of
1 MiB only gets them inside a chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.base import NoRoomError
from vramscope.units import align

if TYPE_CHECKING:
    from vramscope.graph.model import Array

HUGE_PAGE = 2 * 2**20
CHUNK = 32 * HUGE_PAGE
SHARED = range(64 * 2**10, CHUNK // 4 + 1)
"""Sizes in bytes that share a chunk: a smaller buffer gains nothing, a larger one has huge pages anyway."""


class HostPages:
    """Hands out aligned byte arrays. A chunk goes back to the system with the last array that views it."""

    def __init__(self, alignment: int) -> None:
        """``alignment``: of every address, in bytes, a power of two."""
        self._alignment = alignment
        self._chunk: Array | None = None
        self._next = 0

    def take(self, size: int) -> Array:
        """``size`` bytes, undefined contents.

        Raises:
            MemoryError: the operating system refused.
        """
        if size not in SHARED:
            return _aligned(size, self._alignment)
        if self._chunk is None or self._next + size > self._chunk.size:
            self._chunk, self._next = _aligned(CHUNK, HUGE_PAGE), 0
        start = self._next
        self._next = start + align(size, self._alignment)
        return self._chunk[start : start + size]

    def close(self) -> None:
        """Begins no more arrays in the chunk at hand."""
        self._chunk = None


class HostMemory:
    """Host pages by address."""

    def __init__(self, alignment: int) -> None:
        """``alignment``: of every address, in bytes, a power of two."""
        self._pages = HostPages(alignment)
        self._held: dict[int, Array] = {}

    def malloc(self, size: int) -> int:
        """The address of ``size`` new bytes; raises NoRoomError where the operating system refuses."""
        try:
            found = self._pages.take(size)
        except MemoryError as error:
            raise NoRoomError(str(error)) from error
        address: int = found.ctypes.data
        self._held[address] = found
        return address

    def view(self, address: int, size: int) -> Array:
        """The first ``size`` bytes at an address that is held."""
        return self._held[address][:size]

    def free(self, address: int) -> None:
        """The memory goes back with the last array that views it."""
        del self._held[address]

    def close(self) -> None:
        """Nothing is held any more."""
        self._held.clear()
        self._pages.close()


def _aligned(size: int, alignment: int) -> Array:
    raw = np.empty(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]

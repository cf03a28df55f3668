"""Physical memory behind reserved addresses, granule by granule: the interface, and host memory."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Protocol

import numpy as np

from vramscope.units import align

if TYPE_CHECKING:
    from vramscope.graph.model import Array

GRANULE = 2 * 2**20
"""Bytes that are mapped at once (semantics 2.10)."""


class Mapper(Protocol):
    """A range of addresses; each granule of it has physical memory or has none."""

    @property
    def size(self) -> int:
        """Bytes of addresses."""

    @property
    def granule(self) -> int:
        """Bytes that are mapped at once."""

    def map(self, index: int) -> None:
        """Puts memory behind granule ``index``; raises AllocationFailedError when there is none."""

    def unmap(self, index: int) -> None:
        """Takes the memory away. The addresses stay reserved, the contents are lost."""

    def view(self, offset: int, size: int) -> Array:
        """Bytes ``[offset, offset + size)`` as a flat uint8 array; touch only what is mapped."""


class HostMapper:
    """Anonymous host memory: the system backs a page when it is touched, and takes it back when told to."""

    def __init__(self, size: int, granule: int = GRANULE) -> None:
        """Reserves addresses; nothing is backed yet.

        Args:
            size: bytes, rounded up to whole granules.
            granule: bytes; a multiple of the system's page.
        """
        self._granule = granule
        self._size = align(size, granule)
        self._memory = mmap.mmap(-1, self._size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._bytes = np.frombuffer(self._memory, np.uint8)

    @property
    def size(self) -> int:
        """Bytes of addresses."""
        return self._size

    @property
    def granule(self) -> int:
        """Bytes that are mapped at once."""
        return self._granule

    @property
    def address(self) -> int:
        """Where the range starts."""
        return self._bytes.ctypes.data

    def map(self, index: int) -> None:
        """The system backs the pages as they are touched, so there is nothing to do beforehand."""
        self._bytes[index * self._granule] = 0

    def unmap(self, index: int) -> None:
        """Gives the granule's pages back to the system; read again they are 0."""
        self._memory.madvise(mmap.MADV_DONTNEED, index * self._granule, self._granule)

    def view(self, offset: int, size: int) -> Array:
        """Bytes ``[offset, offset + size)`` as a flat uint8 array."""
        return self._bytes[offset : offset + size]

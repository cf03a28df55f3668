"""Device memory by the driver's pages: buffers lie side by side and take no more pages than they fill.

``cudaMalloc`` rounds every large buffer up to pages of 2 MiB, which is a seventh of a small model. Here one
range of addresses is reserved; pages are put under it where a buffer needs them and taken away with the last
buffer that touches them.
"""

from __future__ import annotations

import ctypes
from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vramscope.devices.base import NoRoomError
from vramscope.units import align

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.devices.base import Memory

RESERVED = 2**40
"""Bytes of addresses that are reserved: they cost nothing."""
PINNED, ON_DEVICE, READ_AND_WRITE = 1, 1, 3
"""``CU_MEM_ALLOCATION_TYPE_PINNED``, ``CU_MEM_LOCATION_TYPE_DEVICE``, ``…_ACCESS_FLAGS_PROT_READWRITE``."""


class RuntimeMemory:
    """One ``cudaMalloc`` a buffer."""

    def __init__(self, runtime: Any) -> None:  # noqa: ANN401 - CuPy has no types
        """``runtime``: CuPy's, or what stands for it."""
        self._runtime = runtime

    def malloc(self, size: int) -> int:
        """A buffer of its own."""
        try:
            return int(self._runtime.malloc(max(size, 1)))
        except self._runtime.CUDARuntimeError as error:
            raise NoRoomError(str(error)) from error

    def free(self, address: int) -> None:
        """The runtime's own."""
        self._runtime.free(address)

    def close(self) -> None:
        """Nothing is held."""


class Mapper(Protocol):
    """The driver's virtual memory: ``size`` and ``address`` are whole pages."""

    page: int

    def reserve(self, size: int) -> int:
        """Addresses without memory."""

    def give_up(self, address: int, size: int) -> None:
        """Reserved addresses, back."""

    def map(self, address: int, size: int) -> int:
        """Memory under addresses: its handle; raises NoRoomError."""

    def unmap(self, address: int, size: int, handle: int) -> None:
        """The memory, back."""


@dataclass(slots=True)
class _Run:
    """Pages that came and go together: how many uses of a page by a buffer there are."""

    first: int
    count: int
    handle: int
    uses: int = 0


@dataclass(slots=True)
class PagedMemory:
    """Buffers side by side in one range of addresses, pages under those that are in use."""

    mapper: Mapper
    _base: int = 0
    _free: list[tuple[int, int]] = field(default_factory=list)
    """Start and size of unused addresses, in order, never touching."""
    _sizes: dict[int, int] = field(default_factory=dict)
    _runs: dict[int, _Run] = field(default_factory=dict)
    """By page."""

    def malloc(self, size: int) -> int:
        """The first place that is large enough; what pages it lacks are mapped."""
        if not self._base:
            self._base = self.mapper.reserve(RESERVED)
            self._free = [(self._base, RESERVED)]
        room = align(max(size, 1))
        index = next((n for n, (_, free) in enumerate(self._free) if free >= room), -1)
        if index < 0:
            raise NoRoomError("the reserved addresses are used up")
        start, free = self._free[index]
        self._map(start, room)
        self._free[index : index + 1] = [(start + room, free - room)] if free > room else []
        self._sizes[start] = room
        for page in self._pages(start, room):
            self._runs[page].uses += 1
        return start

    def _pages(self, start: int, size: int) -> range:
        page = self.mapper.page
        return range((start - self._base) // page, -(-(start + size - self._base) // page))

    def _map(self, start: int, size: int) -> None:
        """Maps missing pages: those that only this buffer touches together, its last one by itself."""
        missing = [page for page in self._pages(start, size) if page not in self._runs]
        made: list[_Run] = []
        try:
            for part in (missing[:-1], missing[-1:]):
                while part:
                    count = next((n for n in range(1, len(part)) if part[n] != part[0] + n), len(part))
                    made.append(self._new_run(part[0], count))
                    part = part[count:]
        except NoRoomError:
            for run in made:
                self._drop(run)
            raise

    def _new_run(self, first: int, count: int) -> _Run:
        page = self.mapper.page
        run = _Run(first, count, self.mapper.map(self._base + first * page, count * page))
        self._runs.update(dict.fromkeys(range(first, first + count), run))
        return run

    def _drop(self, run: _Run) -> None:
        page = self.mapper.page
        self.mapper.unmap(self._base + run.first * page, run.count * page, run.handle)
        for number in range(run.first, run.first + run.count):
            del self._runs[number]

    def free(self, address: int) -> None:
        """Pages that no buffer touches any more go back to the card."""
        size = self._sizes.pop(address)
        for page in self._pages(address, size):
            run = self._runs[page]
            run.uses -= 1
            if not run.uses:
                self._drop(run)
        insort(self._free, (address, size))
        self._join()

    def _join(self) -> None:
        joined: list[tuple[int, int]] = []
        for start, size in self._free:
            if joined and sum(joined[-1]) == start:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((start, size))
        self._free = joined

    def close(self) -> None:
        """Everything goes back, the addresses too."""
        for address in tuple(self._sizes):
            self.free(address)
        if self._base:
            self.mapper.give_up(self._base, RESERVED)
        self._base, self._free = 0, []


def page_of(memory: Memory) -> int:
    """The driver's page where buffers share pages, else 0."""
    return memory.mapper.page if isinstance(memory, PagedMemory) else 0


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """``CUmemAllocationProp``."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """``CUmemAccessDesc``."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class DriverMapper:
    """libcuda's virtual memory of one GPU, whose context is current."""

    def __init__(self, library: ctypes.CDLL, index: int) -> None:
        """``library``: libcuda; ``index``: the GPU."""
        self._library = library
        location = _Location(ON_DEVICE, index)
        self._properties = _Properties(PINNED, 0, location, None)
        self._access = _Access(location, READ_AND_WRITE)
        page = ctypes.c_size_t()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(page), ctypes.byref(self._properties), 0)
        self.page = page.value

    def _call(self, name: str, *arguments: object) -> None:
        function: Callable[..., int] = getattr(self._library, name)
        code = function(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise NoRoomError(f"{name} answers {code}: {(text.value or b'unknown').decode(errors='replace')}")

    def reserve(self, size: int) -> int:
        """Addresses, aligned to pages."""
        found = ctypes.c_uint64()
        size_, zero = ctypes.c_size_t(size), ctypes.c_uint64(0)
        self._call("cuMemAddressReserve", ctypes.byref(found), size_, ctypes.c_size_t(0), zero, zero)
        return found.value

    def give_up(self, address: int, size: int) -> None:
        """Addresses, back."""
        self._call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(size))

    def map(self, address: int, size: int) -> int:
        """Created, mapped, readable and writable; undone where a step fails."""
        handle, zero = ctypes.c_uint64(), ctypes.c_uint64(0)
        start, extent = ctypes.c_uint64(address), ctypes.c_size_t(size)
        self._call("cuMemCreate", ctypes.byref(handle), extent, ctypes.byref(self._properties), zero)
        try:
            self._call("cuMemMap", start, extent, ctypes.c_size_t(0), handle, zero)
            self._call("cuMemSetAccess", start, extent, ctypes.byref(self._access), ctypes.c_size_t(1))
        except NoRoomError:
            self._library.cuMemUnmap(start, extent)
            self._library.cuMemRelease(handle)
            raise
        return handle.value

    def unmap(self, address: int, size: int, handle: int) -> None:
        """Unmapped and released."""
        self._call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(size))
        self._call("cuMemRelease", ctypes.c_uint64(handle))


def driver_memory(library: ctypes.CDLL, index: int, runtime: Any) -> Memory:  # noqa: ANN401 - CuPy has no types
    """Memory by pages where the driver has them, else a ``cudaMalloc`` a buffer."""
    try:
        mapper = DriverMapper(library, index)
    except (NoRoomError, AttributeError):
        return RuntimeMemory(runtime)
    return memory_over(mapper, runtime)


def memory_over(mapper: Mapper, runtime: Any) -> Memory:  # noqa: ANN401 - CuPy has no types
    """Memory by pages where as many addresses can be had, else a ``cudaMalloc`` a buffer."""
    try:
        mapper.give_up(mapper.reserve(RESERVED), RESERVED)
    except NoRoomError:
        return RuntimeMemory(runtime)
    return PagedMemory(mapper)

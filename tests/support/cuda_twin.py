"""A stand-in for CUDA: real host memory behind made-up pointers, launches checked and recorded, never run."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.cuda.launch import Launch
from vramscope.devices.cuda.platform import Platform

if TYPE_CHECKING:
    from vramscope.devices.cuda.library_form import AnyLaunch, LibraryProduct


class TwinError(Exception):
    """What CuPy calls CUDARuntimeError."""


@dataclass
class TwinIssue:
    """Counts instead of launching."""

    launch: AnyLaunch
    twin: Twin

    def __call__(self) -> None:
        """One more."""
        self.twin.issued += 1


@dataclass
class Twin:
    """Everything the stand-in saw."""

    blocks: dict[int, Any] = field(default_factory=dict)
    launches: list[AnyLaunch] = field(default_factory=list)
    issued: int = 0
    capturing: bool = False
    graphs: int = 0
    replays: int = 0
    mallocs: int = 0
    uploads: int = 0
    downloads: int = 0
    events: list[int] = field(default_factory=list)

    CUDARuntimeError = TwinError
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3  # noqa: N815 - CuPy's names
    streamCaptureModeThreadLocal = 1  # noqa: N815 - CuPy's name

    def malloc(self, size: int) -> int:
        """Real memory, 256-byte aligned."""
        if self.capturing:
            raise TwinError("cudaErrorStreamCaptureUnsupported")
        raw = np.zeros(size + 256, np.uint8)
        address = -(-raw.ctypes.data // 256) * 256
        self.blocks[address] = (raw, size)
        self.mallocs += 1
        return address

    def free(self, address: int) -> None:
        """Must be ours."""
        del self.blocks[address]

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802 - CuPy's name
        """A small card."""
        return (1, 2)

    def memcpyAsync(  # noqa: N802 - CuPy's name
        self, target: int, source: int, size: int, kind: int, _stream: int
    ) -> None:
        """Moves bytes at once; not inside a capture."""
        assert not self.capturing
        self.uploads += kind == 1
        self.downloads += kind == 2
        ctypes.memmove(target, source, size)

    def memsetAsync(self, target: int, value: int, size: int, _stream: int) -> None:  # noqa: N802 - CuPy's name
        """Fills at once."""
        ctypes.memset(target, value, size)

    def bind(self, launch: AnyLaunch, stream: int, *, overlap: bool = False) -> TwinIssue:
        """Checks what a driver or cuBLASLt would refuse."""
        del stream, overlap
        if isinstance(launch, Launch):
            check(launch)
        else:
            self.check_product(launch)
        self.launches.append(launch)

        return TwinIssue(launch, self)

    def check_product(self, product: LibraryProduct) -> None:
        """Lines hold their elements, and every byte is ours, the workspace's too."""
        size = {"float": 4, "f16": 2, "bf16": 2}[product.kind]
        shapes = ((product.m, product.k), (product.k, product.n), (product.m, product.n))
        for operand, (rows, columns) in zip((product.a, product.b, product.c), shapes, strict=True):
            lines, width = (columns, rows) if operand.turned else (rows, columns)
            assert operand.leading >= width > 0, product.function
            elements = (product.count - 1) * operand.step + (lines - 1) * operand.leading + width
            self.need(operand.address, size * elements)
        if product.bias:
            self.need(product.bias, size * product.n)
        assert product.room == 0 or product.workspace % 256 == 0
        self.need(product.workspace, product.room)

    def need(self, address: int, size: int) -> None:
        """These bytes lie in one allocation."""
        held = any(
            start <= address and address + size <= start + room for start, (_, room) in self.blocks.items()
        )
        assert held or not size, (address, size)

    def close(self) -> None:
        """Nothing is loaded."""

    def begin_capture(self, _mode: int) -> None:
        """One at a time."""
        assert not self.capturing
        self.capturing = True

    def end_capture(self) -> Any:  # noqa: ANN401 - a graph
        """A graph that counts its launches."""
        self.capturing = False
        self.graphs += 1

        def launch(_stream: object) -> None:
            self.replays += 1

        return SimpleNamespace(launch=launch, upload=lambda _stream: None, graph=self.graphs)

    def graph_nodes(self, graph: int) -> int:
        """As many as the graph's own number."""
        return graph

    def graph_dot(self, graph: int) -> str:
        """Names the graph."""
        return f"digraph dot {{ graph_{graph} }}"

    def eventCreate(self) -> int:  # noqa: N802 - CuPy's name
        """A new event."""
        self.events.append(-1)
        return len(self.events) - 1

    def eventRecord(self, event: int, _stream: int) -> None:  # noqa: N802 - CuPy's name
        """Its time is the number of launches before it: each takes a millisecond."""
        assert not self.capturing
        self.events[event] = self.issued

    def eventSynchronize(self, event: int) -> None:  # noqa: N802 - CuPy's name
        """It must have been recorded."""
        assert self.events[event] >= 0

    def eventElapsedTime(self, start: int, end: int) -> float:  # noqa: N802 - CuPy's name
        """Milliseconds."""
        return float(self.events[end] - self.events[start])

    def eventDestroy(self, event: int) -> None:  # noqa: N802 - CuPy's name
        """Once."""
        assert self.events[event] > -2
        self.events[event] = -2

    def synchronize(self) -> None:
        """All is done already."""
        assert not self.capturing

    @property
    def ptr(self) -> int:
        """The stream's handle."""
        return 7


def twin_device(budget: int | None = None, *, library: bool = True) -> tuple[CudaDevice, Twin]:
    """A CUDA device on a stand-in, with cuBLASLt or without."""
    twin = Twin()
    return CudaDevice(budget, platform=Platform(twin, twin, twin, hopper=True, library=library)), twin


def check(launch: Launch) -> None:
    """What every launch must keep to: positive extents, 1,024 threads, the grid's limits, shared memory."""
    assert all(extent > 0 for extent in (*launch.grid, *launch.block)), launch.function
    assert np.prod(launch.block) <= 1024, launch.function
    assert launch.grid[0] < 2**31, launch.function
    assert launch.grid[1] < 2**16, launch.function
    assert launch.grid[2] < 2**16, launch.function
    assert launch.shared <= 227 * 1024, launch.function
    assert all(len(item) % 4 == 0 for item in launch.arguments), launch.function
    assert f" {launch.function}(" in launch.source.text or "#define" in launch.source.text, launch.function
    struct.pack("<I", launch.shared)

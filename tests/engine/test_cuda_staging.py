"""Uploads through page-locked pieces, on a stand-in for CUDA that copies late and checks who waited."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from cuda_twin import Twin

from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.cuda.platform import Platform
from vramscope.devices.cuda.staging import PIECE, STAGED_BYTES, Staging
from vramscope.devices.ledger import Site


class LateTwin(Twin):
    """Host memory that is locked, and copies from it that happen when an event behind them is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.locked: dict[int, Any] = {}
        self.pending: list[tuple[int, int, int]] = []
        self.recorded: dict[int, int] = {}
        self.made = 0

    def hostAlloc(self, size: int, _flags: int) -> int:  # noqa: N802 - CuPy's name
        raw = (ctypes.c_char * size)()
        self.locked[ctypes.addressof(raw)] = raw
        return ctypes.addressof(raw)

    def freeHost(self, address: int) -> None:  # noqa: N802 - CuPy's name
        del self.locked[address]

    def eventCreateWithFlags(self, _flags: int) -> int:  # noqa: N802 - CuPy's name
        self.made += 1
        return self.made

    def eventDestroy(self, event: int) -> None:  # noqa: N802 - CuPy's name
        self.recorded.pop(event, None)
        self.made -= 1

    def eventRecord(self, event: int, _stream: int) -> None:  # noqa: N802 - CuPy's name
        self.recorded[event] = len(self.pending)

    def eventSynchronize(self, event: int) -> None:  # noqa: N802 - CuPy's name
        self._settle(self.recorded.get(event, 0))

    def synchronize(self) -> None:
        self._settle(len(self.pending))

    def memcpyAsync(self, target: int, source: int, size: int, kind: int, stream: int) -> None:  # noqa: N802 - CuPy's name
        if kind == self.memcpyHostToDevice:
            self.uploads += 1
            self.pending.append((target, source, size))
        else:
            self.synchronize()
            super().memcpyAsync(target, source, size, kind, stream)

    def _settle(self, count: int) -> None:
        for target, source, size in self.pending[:count]:
            ctypes.memmove(target, source, size)
        del self.pending[:count]
        self.recorded = {event: max(0, at - count) for event, at in self.recorded.items()}


@pytest.fixture
def twin() -> LateTwin:
    return LateTwin()


@pytest.mark.parametrize("size", [1, PIECE, PIECE + 1, 9 * PIECE + 17])
def test_every_byte_arrives_once_the_stream_is_done(twin: LateTwin, size: int) -> None:
    values = np.random.default_rng().integers(0, 256, size, np.uint8)
    target = twin.malloc(size)
    staging = Staging(twin, 7, threads=2)
    staging.copy(target, values)
    kept = values.copy()
    values[:] = 0
    twin.synchronize()
    assert ctypes.string_at(target, size) == kept.tobytes()
    assert twin.uploads == -(-size // PIECE)


def test_pieces_of_two_uploads_do_not_meet(twin: LateTwin) -> None:
    random = np.random.default_rng()
    staging = Staging(twin, 7, threads=1)
    values = [random.integers(0, 256, count * PIECE + 3, np.uint8) for count in (1, 3, 2)]
    targets = [twin.malloc(item.nbytes) for item in values]
    for target, item in zip(targets, values, strict=True):
        staging.copy(target, item)
    twin.synchronize()
    for target, item in zip(targets, values, strict=True):
        assert ctypes.string_at(target, item.nbytes) == item.tobytes()


def test_what_was_taken_is_given_back_and_can_be_taken_again(twin: LateTwin) -> None:
    staging = Staging(twin, 7, threads=2)
    staging.close()
    for _ in range(2):
        staging.copy(twin.malloc(5), np.arange(5, dtype=np.uint8))
        twin.synchronize()
        staging.close()
        assert (twin.locked, twin.made) == ({}, 0)


def test_the_device_stages_large_uploads_alone(twin: LateTwin) -> None:
    device = CudaDevice(platform=Platform(twin, twin, twin, staging=Staging(twin, 7, threads=2)))
    for size in (STAGED_BYTES - 1, STAGED_BYTES):
        values = np.random.default_rng().integers(0, 256, size, np.uint8)
        buffer = device.allocate(Site("weights", "w"), size)
        device.upload(buffer.bytes, values)
        assert bool(twin.locked) == (size >= STAGED_BYTES)
        assert device.download(buffer.bytes).tobytes() == values.tobytes()
    device.close()
    assert not twin.locked

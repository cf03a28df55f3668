"""The host device: real NumPy buffers under a byte budget, counted like a card's memory."""

from __future__ import annotations

import numpy as np

from vramscope.devices.base import Buffer
from vramscope.devices.ledger import Ledger, Site

ALIGNMENT = 256
"""Address alignment of every buffer, as cudaMalloc gives it."""


class HostDevice:
    """Buffers in host memory. The budget stands for the memory of the card that is being tried."""

    def __init__(self, budget: int | None = None) -> None:
        """``budget``: bytes that may be out at once; None for no limit."""
        self._ledger = Ledger(budget)
        self._open: dict[int, Buffer] = {}

    @property
    def name(self) -> str:
        """``host``."""
        return "host"

    @property
    def ledger(self) -> Ledger:
        """Counts what is out."""
        return self._ledger

    def allocate(self, site: Site, size: int) -> Buffer:
        """A new buffer of exactly ``size`` bytes, aligned; its contents are undefined.

        Raises:
            OutOfBudgetError: the budget does not hold it.
            LedgerSealedError: a graph is being captured or replayed.
        """
        lease = self._ledger.take(site, size)
        raw = np.empty(size + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        view = raw[start : start + size]
        buffer = Buffer(lease, view, view.ctypes.data)
        self._open[lease.number] = buffer
        return buffer

    def release(self, buffer: Buffer) -> None:
        """Gives a buffer back.

        Raises:
            VramscopeError: it was given back before.
        """
        self._ledger.give_back(buffer.lease)
        del self._open[buffer.lease.number]

    def close(self) -> None:
        """Gives back everything that is still out."""
        for buffer in tuple(self._open.values()):
            self.release(buffer)

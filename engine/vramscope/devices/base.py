"""What a device offers: buffers under a ledger, and nothing else that the layers above may rely on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vramscope.devices.ledger import Lease, Ledger, Site
    from vramscope.graph.model import Array


@dataclass(frozen=True, slots=True)
class Buffer:
    """Device memory.

    ``bytes`` is a flat uint8 array of exactly the leased size, ``address`` where it starts.
    """

    lease: Lease
    bytes: Array
    address: int

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.lease.size


class Device(Protocol):
    """Memory of one device. Every byte it gives out is in its ledger."""

    @property
    def name(self) -> str:
        """A short name: ``host`` or ``cuda:0``."""

    @property
    def ledger(self) -> Ledger:
        """Counts what is out."""

    def allocate(self, site: Site, size: int) -> Buffer:
        """A new buffer of exactly ``size`` bytes; raises OutOfBudgetError or LedgerSealedError."""

    def release(self, buffer: Buffer) -> None:
        """Gives a buffer back, exactly once."""

    def close(self) -> None:
        """Gives back everything that is still out."""

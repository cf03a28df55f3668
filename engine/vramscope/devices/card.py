"""What a card says about its own memory: everybody's, not only what this process's ledger counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from vramscope.devices.base import Device


@dataclass(frozen=True, slots=True)
class CardMemory:
    """Bytes of a card that are in use by anybody, and all it has."""

    used: int
    total: int


@runtime_checkable
class OnCard(Protocol):
    """A device whose driver tells how full its card is."""

    def card_memory(self) -> tuple[int, int]:
        """Bytes of the card: free, and in all."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Beside a device's buffers: bytes in use before the first one, and the driver's page (0: none)."""

    taken: int
    page: int


@runtime_checkable
class Opened(Protocol):
    """A device that looked at its card when it was opened."""

    @property
    def outside(self) -> Outside:
        """What was there before its buffers."""


def outside_of(device: Device) -> Outside:
    """What lies outside the device's buffers; nothing where there is no card."""
    return device.outside if isinstance(device, Opened) else Outside(0, 0)


def card_memory(device: Device) -> CardMemory | None:
    """How full the device's card is; None where nothing tells."""
    if not isinstance(device, OnCard):
        return None
    free, total = device.card_memory()
    return CardMemory(total - free, total)

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


def card_memory(device: Device) -> CardMemory | None:
    """How full the device's card is; None where nothing tells."""
    if not isinstance(device, OnCard):
        return None
    free, total = device.card_memory()
    return CardMemory(total - free, total)

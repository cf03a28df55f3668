"""One governor for each device of a process, so that sessions share its limit and devices do not mix."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vramscope.devices.governor import Governor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.governor_types import Tier


class ProcessMemoryManager:
    """Hands out the governor of a device: the same one to every session of the process.

    It is made by whoever owns the sessions and passed to them; nothing is kept per module.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._governors: dict[str, Governor] = {}

    def governor(self, device: str, limits: Mapping[Tier, int | None]) -> Governor:
        """The governor of ``device``; ``limits`` count only when it is asked for the first time."""
        with self._lock:
            if device not in self._governors:
                self._governors[device] = Governor(limits, device)
            return self._governors[device]

    def devices(self) -> tuple[str, ...]:
        """The devices that have a governor, in the order in which they were asked for."""
        with self._lock:
            return tuple(self._governors)

    def lose_device(self, device: str, reason: str) -> None:
        """Marks a device as lost: no grants any more, and its charges stay until ``terminate``."""
        self.governor(device, {}).lose_device(reason)

    def terminate(self) -> dict[str, int]:
        """Ends every lease of every device; returns the bytes that were charged, by device."""
        with self._lock:
            return {device: governor.terminate() for device, governor in self._governors.items()}

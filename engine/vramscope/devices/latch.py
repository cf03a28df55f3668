"""A device's validation latch: kernels raise flags, a request reads them once it has waited."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

INVALID_INDEX = 0x1
"""An index outside its axis."""


class ErrorLatch:
    """Sticky flags. Raised while work runs, read and cleared around every request."""

    def __init__(self) -> None:
        """No flag is raised."""
        self._flags = 0
        self.resets = 0

    def signal(self, flags: int) -> None:
        """Raises flags; what was raised before stays."""
        self._flags |= flags

    def read(self) -> int:
        """The flags raised since the last reset."""
        return self._flags

    def reset(self) -> None:
        """Clears the flags and counts the reset."""
        self._flags = 0
        self.resets += 1


@runtime_checkable
class Latched(Protocol):
    """A device that has a latch."""

    @property
    def latch(self) -> ErrorLatch:
        """The device's latch."""

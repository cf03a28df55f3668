"""Memory of the caller, used in place: no copy, no ownership (semantics 2.6).

A NumPy array, any object with ``__array_interface__`` or ``__dlpack__`` on the host, or a bare address.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from vramscope.errors import ExternalMemoryError

if TYPE_CHECKING:
    from vramscope.graph.model import Array


@dataclass(frozen=True, slots=True)
class RawMemory:
    """``size`` bytes at ``address``; ``keep`` is held as long as the memory is used."""

    address: int
    size: int
    keep: object = None


@dataclass(frozen=True, slots=True)
class Adopted:
    """The caller's memory as flat bytes; ``keep`` is what must stay alive meanwhile."""

    bytes: Array
    address: int
    keep: object
    writable: bool


@runtime_checkable
class Adopting(Protocol):
    """A device that can use memory of others in place."""

    def adopt(self, memory: object, name: str) -> Adopted:
        """The memory as this device's flat bytes; raises ExternalMemoryError where it cannot be used."""


def adopt(memory: object, name: str) -> Adopted:
    """Looks at the caller's memory as flat bytes, in place.

    Args:
        memory: :class:`RawMemory`, an array, or an object with one of the two interfaces.
        name: of the binding, for refusals.

    Raises:
        ExternalMemoryError: null, not contiguous, or no memory that this host can see.
    """
    if isinstance(memory, RawMemory):
        return _from_address(memory, name)
    array = _as_array(memory, name)
    if not array.flags.c_contiguous:
        raise ExternalMemoryError(
            f"memory of {name}",
            f"it is not contiguous: strides {array.strides} for shape {array.shape}",
            "Bind a contiguous array, and show its valid prefix with a logical shape",
        )
    address = array.ctypes.data
    if address == 0:
        raise _null(name)
    flat = array.reshape(-1).view(np.uint8)
    return Adopted(flat, address, memory, bool(array.flags.writeable))


def _from_address(memory: RawMemory, name: str) -> Adopted:
    if memory.address == 0:
        raise _null(name)
    block = (ctypes.c_uint8 * memory.size).from_address(memory.address)
    return Adopted(np.ctypeslib.as_array(block), memory.address, memory.keep, writable=True)


def _as_array(memory: object, name: str) -> Array:
    if isinstance(memory, np.ndarray):
        return memory
    if hasattr(memory, "__array_interface__"):
        _refuse_null(memory, name)
        return np.asarray(memory)
    if hasattr(memory, "__dlpack__"):
        try:
            found: Array = np.from_dlpack(memory)
        except (BufferError, RuntimeError, ValueError, TypeError) as error:
            raise ExternalMemoryError(
                f"memory of {name}", f"it cannot be seen from the host: {error}", "Bind host memory"
            ) from error
        return found
    raise ExternalMemoryError(
        f"memory of {name}",
        f"a {type(memory).__name__} has neither __array_interface__ nor __dlpack__",
        "Bind a NumPy array, or an object with one of the two",
    )


def _refuse_null(memory: object, name: str) -> None:
    """An interface may name address 0, which NumPy would take for an empty buffer."""
    interface = getattr(memory, "__array_interface__", {})
    data = interface.get("data") if isinstance(interface, dict) else None
    if isinstance(data, tuple) and data[0] == 0:
        raise _null(name)


def _null(name: str) -> ExternalMemoryError:
    return ExternalMemoryError(f"memory of {name}", "its address is null", "Bind memory that exists")


def check_fit(adopted: Adopted, name: str, itemsize: int, need: int, shape: tuple[int, ...]) -> None:
    """Raises ExternalMemoryError where the address is misaligned for the type or the memory too short."""
    if adopted.address % itemsize:
        raise ExternalMemoryError(
            f"memory of {name}",
            f"address 0x{adopted.address:x} breaks the alignment of its elements: {itemsize} bytes",
            "Bind memory that starts at a multiple of the element size",
        )
    if adopted.bytes.nbytes < need:
        raise ExternalMemoryError(
            f"memory of {name}",
            f"shape {list(shape)} needs {need:,} bytes and the memory has {adopted.bytes.nbytes:,}",
            "Bind more memory",
        )

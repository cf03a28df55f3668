"""A tensor in device memory: an address, a type, a shape and strides; the host never reads through it.

Shape arithmetic (slices, reshapes, transposes) is NumPy's own, done on a *shadow*: a NumPy array whose
pointer is the device address and is never followed. What would need a copy raises instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramscope.graph.model import Array


class Port(Protocol):
    """How bytes get in and out of device memory."""

    def read(self, source: DeviceArray) -> Array:
        """A host copy; waits for the work that makes it."""

    def write(self, target: DeviceArray, source: Array) -> None:
        """Copies host elements of the same shape and type into device memory."""

    def clear(self, target: DeviceArray) -> None:
        """Sets every byte of a contiguous view to 0."""


class DeviceArray:
    """A view of device memory. Reading it (``np.asarray``) or assigning to it copies through its port."""

    __slots__ = ("_steps", "address", "dtype", "port", "shadow", "shape")

    def __init__(self, port: Port, shadow: Array) -> None:
        """``shadow``: a NumPy array at the device address; it is looked at, never read."""
        self.port = port
        self.shadow = shadow
        self.shape: tuple[int, ...] = shadow.shape
        self.dtype: np.dtype[Any] = shadow.dtype
        self.address: int = shadow.__array_interface__["data"][0]
        self._steps: tuple[int, ...] | None = None

    @property
    def ndim(self) -> int:
        """Its rank."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.shadow.size

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.shadow.nbytes

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides in elements."""
        if self._steps is None:
            size = self.dtype.itemsize
            self._steps = tuple(stride // size for stride in self.shadow.strides)
        return self._steps

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie one after the other in C order."""
        return self.shadow.flags.c_contiguous

    def view(self, dtype: Any) -> DeviceArray:  # noqa: ANN401 - whatever NumPy takes as a type
        """The same bytes as another type."""
        return DeviceArray(self.port, self.shadow.view(dtype))

    def reshape(self, *shape: Any) -> DeviceArray:  # noqa: ANN401 - NumPy's own calling forms
        """The same bytes in another shape; raises ValueError where that would need a copy."""
        wanted = shape[0] if len(shape) == 1 else shape
        return DeviceArray(self.port, self.shadow.reshape(wanted, copy=False))

    def transpose(self, axes: Sequence[int] | None = None) -> DeviceArray:
        """Axes in another order."""
        return DeviceArray(self.port, self.shadow.transpose(axes))

    def broadcast(self, shape: tuple[int, ...]) -> DeviceArray:
        """Repeated along axes of extent 1, with strides of 0."""
        return self if shape == self.shape else DeviceArray(self.port, np.broadcast_to(self.shadow, shape))

    def __getitem__(self, key: Any) -> DeviceArray:  # noqa: ANN401 - NumPy's own index forms
        """A basic index (integers, slices, new axes) as a view."""
        if type(key) is slice:
            return DeviceArray(self.port, self.shadow[key])
        parts = key if isinstance(key, tuple) else (key,)
        if not all(part is None or part is Ellipsis or isinstance(part, int | slice) for part in parts):
            raise TypeError(f"device arrays take integers and slices, not {key!r}")
        whole = parts if Ellipsis in parts else (*parts, Ellipsis)
        return DeviceArray(self.port, np.asarray(self.shadow[whole]))

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401 - NumPy's own index forms
        """Copies a host array, or one number, into the part."""
        part = self[key]
        if isinstance(value, int) and value == 0 and part.contiguous:
            self.port.clear(part)
            return
        self.port.write(part, np.broadcast_to(np.asarray(value), part.shape).astype(part.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: ANN401 - the protocol
        """A host copy."""
        del copy
        found = self.port.read(self)
        return found if dtype is None else found.astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(0x{self.address:x}, {self.dtype}, {list(self.shape)})"


class _Address:
    """What NumPy asks for to make an array at an address."""

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
        }


def at_address(port: Port, address: int, size: int) -> DeviceArray:
    """``size`` bytes at ``address``, flat."""
    return DeviceArray(port, np.asarray(_Address(address, size)))


def on_device(value: object) -> DeviceArray | None:
    """``value`` where it is an array in device memory, else None."""
    return value if isinstance(value, DeviceArray) else None


def need_device(value: object) -> DeviceArray:
    """``value``, which must be an array in device memory.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, DeviceArray):
        raise TypeError(f"not in device memory: {type(value).__name__}")
    return value


def contiguous_runs(array: DeviceArray) -> Iterator[tuple[Any, DeviceArray]]:
    """The longest contiguous parts of an array: their index and themselves."""
    split = next(axis for axis in range(array.ndim + 1) if array[(0,) * axis].contiguous)
    for index in np.ndindex(*array.shape[:split]):
        yield (*index, Ellipsis), array[index]

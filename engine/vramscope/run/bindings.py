"""Bindings.

A graph input or output held in a device buffer, with a physical and a logical shape (semantics 1.13).

The physical shape is the allocation's geometry, the logical one the valid prefix. A binding that exposes its
logical prefix shows it to kernels under the *physical* strides, so a cache grows without moving.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.errors import BindingError
from vramscope.graph.dtypes import ElementType, numpy_dtype, tensor_bytes

if TYPE_CHECKING:
    from vramscope.devices.base import Buffer
    from vramscope.graph.model import Array


@dataclass(frozen=True, slots=True)
class Binding:
    """One buffer bound to an input, an output, or both (past and present in one buffer).

    Attributes:
        input: the graph input it feeds; empty when none.
        output: the graph output it receives; empty when none.
        dtype: element type of both.
        physical: allocation geometry.
        logical: valid prefix shown as the input; same rank, each extent ≤ physical.
        output_logical: valid prefix written as the output.
        array: the whole buffer in its physical shape.
        address: where the buffer starts.
    """

    input: str
    output: str
    dtype: ElementType
    physical: tuple[int, ...]
    logical: tuple[int, ...]
    output_logical: tuple[int, ...]
    array: Array
    address: int

    @property
    def name(self) -> str:
        """The input's name, else the output's."""
        return self.input or self.output

    @property
    def exposes_logical(self) -> bool:
        """Whether kernels see less than the physical shape."""
        return self.logical != self.physical or self.output_logical != self.physical

    def input_view(self) -> Array:
        """What kernels read: the logical prefix under physical strides."""
        return prefix(self.array, self.logical)

    def output_view(self) -> Array:
        """What kernels write."""
        return prefix(self.array, self.output_logical)

    def with_logical(self, logical: tuple[int, ...], output_logical: tuple[int, ...]) -> Binding:
        """The same buffer with another valid prefix.

        Raises:
            BindingError: a prefix of another rank or beyond the physical shape.
        """
        for shape in (logical, output_logical):
            check_logical(self.name, shape, self.physical)
        return replace(self, logical=logical, output_logical=output_logical)


def prefix(array: Array, shape: tuple[int, ...]) -> Array:
    """The leading part of ``array``, a view with the same strides."""
    return array if array.shape == shape else array[tuple(slice(0, extent) for extent in shape)]


def check_logical(name: str, logical: tuple[int, ...], physical: tuple[int, ...]) -> None:
    """Raises BindingError unless ``logical`` has the physical rank and lies inside it (semantics 2.6)."""
    if len(logical) != len(physical) or any(a > b for a, b in zip(logical, physical, strict=True)):
        raise BindingError(
            f"logical shape {list(logical)} of {name}",
            f"it does not lie inside the physical shape {list(physical)}",
            "Bind a larger buffer, or shorten the logical shape",
        )


def bind(
    buffer: Buffer,
    dtype: ElementType,
    physical: tuple[int, ...],
    *,
    input_name: str = "",
    output_name: str = "",
) -> Binding:
    """Binds the head of a buffer, whole physical shape visible.

    Raises:
        BindingError: bound to nothing, or the buffer is shorter than the physical shape needs.
    """
    if not input_name and not output_name:
        raise BindingError("a binding", "it names neither an input nor an output")
    need = tensor_bytes(dtype, physical)
    if need > buffer.size:
        raise BindingError(
            f"buffer of {input_name or output_name}",
            f"shape {list(physical)} needs {need:,} bytes and the buffer has {buffer.size:,}",
        )
    array = buffer.bytes[:need].view(numpy_dtype(dtype)).reshape(physical)
    return Binding(input_name, output_name, dtype, physical, physical, physical, array, buffer.address)

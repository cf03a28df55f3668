"""Bindings.

A graph input or output held in a device buffer, with a physical and a logical shape (semantics 1.13).

The physical shape is the allocation's geometry, the logical one the valid prefix. A binding that exposes its
logical prefix shows it to kernels under the *physical* strides, so a cache grows without moving.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.errors import BindingError
from vramscope.graph.dtypes import ElementType, is_packed, numpy_dtype, tensor_bytes
from vramscope.ops.call import Packed

if TYPE_CHECKING:
    from vramscope.devices.base import Buffer
    from vramscope.graph.model import Array
    from vramscope.ops.call import Tensor


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
        array: the whole buffer in its physical shape; flat bytes for types whose elements share bytes.
        address: where the buffer starts.
        exposes: whether kernels see the logical prefix; decided when the buffer is bound (semantics 2.6).
        fixed_strides: the physical strides stay while the logical prefix grows.
        mask_freeze_safe: an attention mask that a captured step may see at its physical width.
    """

    input: str
    output: str
    dtype: ElementType
    physical: tuple[int, ...]
    logical: tuple[int, ...]
    output_logical: tuple[int, ...]
    array: Array
    address: int
    exposes: bool = True
    fixed_strides: bool = False
    mask_freeze_safe: bool = False

    @property
    def name(self) -> str:
        """The input's name, else the output's."""
        return self.input or self.output

    @property
    def kernel_input_shape(self) -> tuple[int, ...]:
        """What kernels see as the input: the logical prefix where it is exposed, else the physical shape."""
        return self.logical if self.exposes else self.physical

    @property
    def moves(self) -> bool:
        """Whether a length is shown that may move: bound as an input, exposed, and not at capacity."""
        return bool(self.input) and self.exposes and self.logical != self.physical

    def input_view(self) -> Array:
        """What kernels read: the exposed shape under physical strides."""
        return prefix(self.array, self.kernel_input_shape)

    def output_view(self) -> Array:
        """What kernels write."""
        return prefix(self.array, self.output_logical)

    def input_tensor(self) -> Tensor:
        """What kernels read; elements that share bytes stay packed."""
        return Packed(self.array, self.dtype, self.physical) if is_packed(self.dtype) else self.input_view()

    def output_tensor(self) -> Tensor:
        """What kernels write; elements that share bytes stay packed."""
        return Packed(self.array, self.dtype, self.physical) if is_packed(self.dtype) else self.output_view()

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
    if len(logical) != len(physical) or any(not 0 <= a <= b for a, b in zip(logical, physical, strict=True)):
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
    check_named(input_name, output_name)
    need = tensor_bytes(dtype, physical)
    if need > buffer.size:
        raise too_short(input_name or output_name, physical, need, buffer.size)
    array = buffer.bytes[:need]
    if not is_packed(dtype):
        array = array.view(numpy_dtype(dtype)).reshape(physical)
    return Binding(input_name, output_name, dtype, physical, physical, physical, array, buffer.address)


def check_named(input_name: str, output_name: str) -> None:
    """Raises BindingError for a binding to neither an input nor an output."""
    if not input_name and not output_name:
        raise BindingError(
            "a binding", "it names neither an input nor an output", "Name an input, an output, or both"
        )


def too_short(name: str, shape: tuple[int, ...], need: int, have: int) -> BindingError:
    """The refusal of a buffer that does not hold its shape."""
    return BindingError(
        f"buffer of {name}",
        f"shape {list(shape)} needs {need:,} bytes and the buffer has {have:,}",
        "Bind a larger buffer",
    )

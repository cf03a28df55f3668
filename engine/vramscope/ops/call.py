"""One execution of one node as its kernel sees it: inputs, outputs to write, planned scratch.

A kernel computes the shape of each output from its inputs and asks :meth:`Call.output` for the array to
write. Where the plan placed the value, that array is a view into planned memory, and a shape that disagrees
with the plan is an error, so every run checks the plan. Where nothing was placed (a data-dependent extent),
memory is taken there and then and the caller accounts for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.errors import ModelGraphError, VramscopeError
from vramscope.graph.dtypes import ElementType, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope.graph.model import Array, Node

SequenceValue: TypeAlias = list["Tensor"]


@dataclass(frozen=True, slots=True)
class Packed:
    """A tensor whose elements share bytes (4-bit and 2-bit types): exactly its bytes, low bits first."""

    data: Array
    dtype: ElementType
    shape: tuple[int, ...]

    def unpack(self) -> Array:
        """The elements one a byte, as the ml_dtypes type of :attr:`dtype`, in :attr:`shape`."""
        bits = 2 if self.dtype in (ElementType.INT2, ElementType.UINT2) else 4
        count = prod(self.shape)
        mask = (1 << bits) - 1
        flat = self.data.reshape(-1).astype(np.uint8)
        fields = [(flat >> shift) & mask for shift in range(0, 8, bits)]
        codes = np.stack(fields, axis=-1).reshape(-1)[:count].astype(np.uint8)
        return from_codes(codes, self.dtype).reshape(self.shape)


def from_codes(codes: Array, dtype: ElementType) -> Array:
    """Bit codes, one a byte, as values of a sub-byte type (two's complement for the signed ones)."""
    if dtype in (ElementType.INT4, ElementType.INT2):
        half = 8 if dtype is ElementType.INT4 else 2
        signed = codes.astype(np.int8)
        return np.where(signed >= half, signed - 2 * half, signed).astype(np.int8).astype(numpy_dtype(dtype))
    if dtype is ElementType.FLOAT4E2M1:
        return codes.astype(np.uint8).view(numpy_dtype(dtype))
    return codes.astype(numpy_dtype(dtype))


Tensor: TypeAlias = "Array | Packed | SequenceValue"
RunBody: TypeAlias = "Callable[[str, list[Tensor]], list[Tensor]]"


@dataclass(slots=True, eq=False)
class Call:
    """Inputs (None: left out), placed outputs (None: not placed), which are wanted, planned scratch."""

    node: Node
    inputs: tuple[Tensor | None, ...]
    placed: list[Tensor | None]
    wanted: tuple[bool, ...]
    output_types: tuple[ElementType, ...]
    scratch_bytes: Array | None = None
    run_body: RunBody | None = None
    body_inputs: Mapping[str, int] | None = None
    inferred: tuple[tuple[int | None, ...] | None, ...] = ()
    """What shape inference knows of each output, None per unknown extent; only Loop and Scan look at it."""
    memo: object | None = None
    """What a kernel derived from ``inputs`` and ``scratch_bytes``, kept while they are the same objects."""

    def has(self, index: int) -> bool:
        """Whether input ``index`` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def array(self, index: int) -> Array:
        """Input ``index`` as an array; packed types are unpacked, one element a byte.

        Raises:
            VramscopeError: the input is left out or is a sequence.
        """
        value = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, Packed):
            return value.unpack()
        why = "it is a sequence" if isinstance(value, list) else "it is left out"
        raise VramscopeError(
            f"input {index} of {self.node.qualified}", f"a tensor is needed, but {why}", node=self.node.name
        )

    def optional(self, index: int) -> Array | None:
        """Input ``index`` as an array, or None where the node leaves it out."""
        return self.array(index) if self.has(index) else None

    def places(self) -> tuple[int, ...]:
        """Which arrays the outputs are placed in, for a memo to tell whether they are still the same."""
        return tuple(id(item) for item in self.placed)

    def wants(self, index: int) -> bool:
        """Whether anybody reads output ``index``; a kernel need not compute one that nobody reads."""
        return index < len(self.wanted) and self.wanted[index]

    def output(
        self, index: int, shape: tuple[int, ...], dtype: np.dtype[np.generic] | type | None = None
    ) -> Array:
        """The array to write output ``index`` into, exactly of ``shape``.

        Raises:
            VramscopeError: the plan placed this value with another shape: the plan was wrong.
        """
        placed = self.placed[index]
        if isinstance(placed, np.ndarray):
            if placed.shape != shape:
                raise VramscopeError(
                    f"output {index} of {self.node.qualified}",
                    f"the plan says {placed.shape}, the kernel computes {shape}",
                    "This is a fault of shape inference: please report the model",
                    self.node.name,
                )
            return placed
        kind = np.dtype(dtype) if dtype is not None else numpy_dtype(self.output_types[index])
        fresh = np.empty(shape, kind)
        self.placed[index] = fresh
        return fresh

    def put(self, index: int, value: Tensor) -> None:
        """Write a computed result: copied into the placed array, or kept as it is where none was placed."""
        if not self.wants(index):
            return
        if isinstance(value, np.ndarray) and isinstance(self.placed[index], np.ndarray):
            target = self.output(index, value.shape)
            if target is not value:
                np.copyto(target, value, casting="unsafe")
            return
        self.placed[index] = value

    def scratch(self, shape: tuple[int, ...], dtype: np.dtype[np.generic] | type, offset: int = 0) -> Array:
        """A view of the planned workspace at byte ``offset``.

        Raises:
            VramscopeError: the plan reserved less than the kernel needs ("undersized slot", semantics 1.11).
        """
        kind = np.dtype(dtype)
        need = offset + prod(shape) * kind.itemsize
        have = 0 if self.scratch_bytes is None else self.scratch_bytes.nbytes
        if self.scratch_bytes is None or need > have:
            raise VramscopeError(
                f"workspace of {self.node.qualified}",
                f"the kernel needs {need:,} bytes and {have:,} are prepared",
                "Prepare the session for this shape first",
                self.node.name,
            )
        return self.scratch_bytes[offset:need].view(kind).reshape(shape)


def compute(kernel: Callable[[Call], None], call: Call) -> None:
    """Runs a kernel, which takes for granted that ranks, extents and types are such as the operator takes.

    Raises:
        ModelGraphError: they are not; the node and what it was given are named.
    """
    try:
        kernel(call)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        given = ", ".join(_form(value) for value in call.inputs if value is not None)
        why = f"it cannot compute from {given or 'nothing'}: {error}"
        remedy = "Look at what gives the node its inputs, or export the model again"
        raise ModelGraphError(f"node {call.node.name!r}", why, remedy, call.node.name) from error


def _form(value: Tensor) -> str:
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    return f"{value.dtype} {list(value.shape)}"

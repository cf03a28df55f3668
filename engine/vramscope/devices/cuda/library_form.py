"""A matrix product for cuBLASLt as plain data: operands, extents, and the planned workspace it may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from vramscope.devices.cuda.launch import Launch, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.devices.cuda.launch import Extent

LIBRARY = "cublasLt"
NARROW = 256
"""Bytes that cuBLASLt supposes addresses to be multiples of, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One matrix: its address, the elements from one line to the next, and whether its columns are the lines.

    Attributes:
        address: of its first element.
        leading: elements between two lines.
        turned: lines are columns, the row index runs within a line.
        step: elements between two matrices of a batch.
    """

    address: int
    leading: int
    turned: bool = False
    step: int = 0

    @property
    def alignment(self) -> int:
        """Bytes, a power of two, that the address is a multiple of; at most what cuBLASLt asks about."""
        return min(NARROW, self.address & -self.address) or NARROW


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """C [m, n] = alpha · A [m, k] · B [k, n] + bias, ``count`` times; C's lines are rows.

    Attributes:
        kind: C++ name of the element type of every operand.
        m, n, k: rows, columns, depth.
        a, b, c: the operands.
        count: products of a batch.
        alpha: factor.
        bias: address of n elements that are added to every row; 0: none.
        workspace: address of the planned scratch, 0: none.
        room: its bytes.
        instead: makes the launch of own kernels for where the library has no algorithm.
    """

    kind: str
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    c: Operand
    count: int = 1
    alpha: float = 1.0
    bias: int = 0
    workspace: int = 0
    room: int = 0
    instead: Callable[[], Launch] | None = field(default=None, compare=False)

    @property
    def source(self) -> Source:
        """No text of ours."""
        return Source(LIBRARY, "")

    @property
    def function(self) -> str:
        """The extents, for tables and messages."""
        return f"{self.kind} {self.m}x{self.n}x{self.k}"

    @property
    def grid(self) -> Extent:
        """How many products there are; their blocks are the library's own."""
        return (self.count, 1, 1)


AnyLaunch: TypeAlias = Launch | LibraryProduct
"""What a builder makes."""

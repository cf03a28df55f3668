"""A product of a few rows and what surrounds it: tensors, packed arguments, whether kernels have its form."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.devices.cuda.attend_form import address
from vramscope.devices.cuda.rows import MOST_SHARED

if TYPE_CHECKING:
    from vramscope.devices.cuda.array import DeviceArray

WARPS = 8
"""Warps of a block of every fused kernel."""
MOST_ROWS = 4
"""Activation rows of a fused product at most."""
ROOM = MOST_SHARED - 34 * 1024
"""Dynamic shared memory of a fused kernel; the rest is for its partial results."""
PLAIN, SILU, GELU, GELU_TANH = 0, 1, 2, 3
"""How a pair of products is joined: not at all (one product), or by one of these activations of the first."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What a MatMulNBits weight has beside its codes: scales, zero points, and their geometry."""

    scales: DeviceArray
    zeros: DeviceArray | None
    zero_kind: int
    bits: int
    block: int
    blocks: int
    row_bytes: int
    zero_bytes: int


@dataclass(frozen=True, slots=True)
class Weight:
    """One constant weight [k, n]; ``columns``: n lies side by side, else k does (dense or packed)."""

    value: DeviceArray
    columns: bool
    packed: Packed | None = None


@dataclass(frozen=True, slots=True)
class Norm:
    """The RMS norm before a product: of ``x``, plus ``skip`` where there is one."""

    gamma: DeviceArray
    epsilon: float
    skip: DeviceArray | None = None


@dataclass(frozen=True, slots=True)
class Fused:
    """A product of a few rows and what surrounds it.

    Attributes:
        kind: C++ name of the element type.
        rows: activation rows, contiguous in ``x``, ``residual`` and ``y``.
        n: columns of the result.
        k: depth.
        x: the activation.
        y: the result.
        weights: one, or two that are joined.
        biases: of each weight, or None.
        joined: PLAIN, or the activation of the first of a pair.
        norm: before.
        residual: added behind.
    """

    kind: str
    rows: int
    n: int
    k: int
    x: DeviceArray
    y: DeviceArray
    weights: tuple[Weight, ...]
    biases: tuple[DeviceArray | None, ...]
    joined: int = PLAIN
    norm: Norm | None = None
    residual: DeviceArray | None = None

    def pack(self) -> bytes:
        """The ``Fused`` structure."""
        norm, first = self.norm, self.weights[0].packed
        skip = norm.skip if norm else None
        heads = (self.x, skip, norm.gamma if norm else None, self.residual, self.y)
        pairs = [self._pair([item.value for item in self.weights])]
        pairs.append(self._pair([item.packed.scales if item.packed else None for item in self.weights]))
        pairs.append(self._pair([item.packed.zeros if item.packed else None for item in self.weights]))
        pairs.append(self._pair(list(self.biases)))
        pointers = [*(address(item) for item in heads), *(number for pair in pairs for number in pair)]
        geometry = (first.blocks, first.block, first.row_bytes, first.zero_bytes) if first else (0, 0, 0, 0)
        numbers = (self.n, self.k, self.k, self.k, self.n, self.n, *geometry)
        return struct.pack("<13Q10qd", *pointers, *numbers, norm.epsilon if norm else 0.0)

    def _pair(self, values: list[DeviceArray | None]) -> tuple[int, int]:
        return (address(values[0]), address(values[1]) if len(values) > 1 else 0)

    def suits(self) -> bool:
        """Whether the kernels have this form: alignment, sizes, types, equal geometry of a pair."""
        tensors = (self.x, self.y, self.residual, *self.biases)
        tensors += (self.norm.gamma, self.norm.skip) if self.norm else ()
        given = [item for item in tensors if item is not None]
        plain = all(item.dtype == self.x.dtype and item.contiguous for item in given)
        aligned = all(weight.value.address % 16 == 0 for weight in self.weights)
        alike = all(self._form(item) == self._form(self.weights[0]) for item in self.weights)
        return plain and aligned and alike and self.rows <= MOST_ROWS and self._weight_suits()

    @property
    def vector(self) -> int:
        """Elements in 16 bytes."""
        return 16 // self.x.itemsize

    def _weight_suits(self) -> bool:
        first = self.weights[0]
        if first.packed is not None:
            return self.on_matrix_units or self._codes_suit(first.packed)
        if first.columns:
            return self.n % self.vector == 0 and 4 * self.rows * self.k < ROOM - 64 * 1024
        whole = self.k % self.vector == 0 and 4 * self.rows * self.k < MOST_SHARED - 1024
        return self.joined == PLAIN and whole

    def _form(self, weight: Weight) -> tuple[object, ...]:
        packed = weight.packed
        if packed is None:
            return (weight.columns,)
        return (packed.bits, packed.block, packed.zero_kind, packed.row_bytes)

    @property
    def on_matrix_units(self) -> bool:
        """Whether a packed weight goes through the matrix units."""
        packed = self.weights[0].packed
        return packed is not None and self._packed_suits(packed)

    def _codes_suit(self, packed: Packed) -> bool:
        """Whole words of codes, each of one scale; the activation in shared memory."""
        whole = (
            packed.bits in (4, 8) and packed.row_bytes % 4 == 0 and packed.block % (32 // packed.bits) == 0
        )
        return (
            whole and packed.scales.dtype == self.x.dtype and self.codes_shared(packed) < MOST_SHARED - 1024
        )

    def codes_shared(self, packed: Packed) -> int:
        """Bytes of the activation chunk by chunk, an odd number of chunks apart."""
        words = 4 if packed.row_bytes % 16 == 0 else 1
        chunks = packed.row_bytes // (4 * words)
        return 4 * self.rows * words * (32 // packed.bits) * (chunks | 1)

    def _packed_suits(self, packed: Packed) -> bool:
        """Codes in whole 16-byte chunks of one scale, scales and zero points in whole 4-byte pieces."""
        if packed.bits not in (4, 8) or packed.row_bytes % 16 or packed.scales.dtype != self.x.dtype:
            return False
        if packed.block < 128 // packed.bits or self.n * packed.row_bytes >= 2**32:
            return False
        pieces = [item.packed for item in self.weights if item.packed is not None]
        meta = [item for one in pieces for item in (one.scales, one.zeros) if item is not None]
        vectors = (self.x, self.norm.gamma, self.norm.skip) if self.norm else (self.x,)
        if any(item.address % 16 or item.nbytes % 4 for item in meta) or self.k % 8:
            return False
        if any(item.address % 16 for item in vectors if item is not None):
            return False
        narrow = self.kind == "f16" or (self.kind == "bf16" and packed.bits == 4)
        return narrow and self._packed_least(packed) <= MOST_SHARED - 10 * 1024

    def _packed_least(self, packed: Packed) -> int:
        """Shared memory of the packed kernel with one window a warp."""
        chunk = 128 // packed.bits
        depth = -(-self.k // (64 * chunk)) * 64 * chunk
        scales = 16 * packed.blocks * self.x.itemsize * (2 if packed.zero_kind else 1)
        return len(self.weights) * (16 * 1024 + scales) + self.rows * (2 * depth + 8 * (depth // chunk))

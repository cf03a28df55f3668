"""The fused product kernels.

Their packed arguments, their specialised source, and which form suits a weight.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.devices.cuda.attend_form import address
from vramscope.devices.cuda.launch import Launch, blocks, source
from vramscope.devices.cuda.rows import MOST_SHARED

if TYPE_CHECKING:
    from vramscope.devices.cuda.array import DeviceArray

WARPS = 8
"""Warps of a block of every fused kernel."""
MOST_ROWS = 4
"""Activation rows of a fused product at most."""
DEEP_ENOUGH = 512
"""Depth from which several blocks share it."""
ENOUGH_BLOCKS = 200
"""Blocks that keep a large card busy."""
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

    def launch(self, *, clusters: bool) -> Launch:
        """The one launch; :meth:`suits` must hold. ``clusters``: the card has them."""
        cluster = 1
        names: list[tuple[str, object]] = [("T", self.kind), ("ROWS", self.rows), ("PAIR", self.joined)]
        names += [("NORM", int(self.norm is not None))]
        names += [("SKIP", int(self.norm is not None and self.norm.skip is not None))]
        weight = self.weights[0]
        vector = 16 // self.x.itemsize
        threads = (32 * WARPS, 1, 1)
        if weight.packed is not None:
            names += [("BITS", weight.packed.bits), ("ZERO", weight.packed.zero_kind)]
            names += [("IS_HALF", 1)] if self.kind == "f16" else []
            grid, function, shared = blocks(self.n, 16), "packed", self._packed_bytes()
        elif weight.columns:
            lanes = self.lanes(clusters=clusters)
            tiles = blocks(self.n, lanes * vector)
            cluster = self.shares(tiles) if clusters else 1
            names += [("LANES", lanes), ("SHARES", cluster)]
            grid, function, shared = tiles * cluster, "columns", 0
        else:
            grid, function, shared = blocks(self.n, 4 * WARPS), "lines", 4 * self.rows * self.k
        text = source("fused", tuple((name, str(value)) for name, value in names))
        return Launch(text, function, (grid, 1, 1), threads, (self.pack(),), shared, cluster)

    def shares(self, tiles: int) -> int:
        """Blocks of a cluster that share one tile's depth: up to 8 where there are few tiles."""
        return next((n for n in (1, 2, 4) if tiles * n >= ENOUGH_BLOCKS), 8) if self.k >= DEEP_ENOUGH else 1

    def lanes(self, *, clusters: bool) -> int:
        """Threads side by side along the columns: as many as still give every multiprocessor a block.

        With clusters a tile is always 128 bytes wide, for the depth is shared instead.
        """
        if clusters and self.k >= DEEP_ENOUGH:
            return 8
        vector = 16 // self.x.itemsize
        return next((n for n in (8, 4) if self.n // (n * vector) >= ENOUGH_BLOCKS), 2)

    def _packed_bytes(self) -> int:
        packed = self.weights[0].packed
        span = 128 // packed.bits if packed else 1
        return self.x.itemsize * self.rows * (-(-self.k // span) * span)

    def suits(self) -> bool:
        """Whether the kernels have this form: alignment, sizes, types, equal geometry of a pair."""
        tensors = (self.x, self.y, self.residual, *self.biases)
        tensors += (self.norm.gamma, self.norm.skip) if self.norm else ()
        given = [item for item in tensors if item is not None]
        plain = all(item.dtype == self.x.dtype and item.contiguous for item in given)
        aligned = all(weight.value.address % 16 == 0 for weight in self.weights)
        alike = all(self._form(item) == self._form(self.weights[0]) for item in self.weights)
        return plain and aligned and alike and self.rows <= MOST_ROWS and self._weight_suits()

    def _weight_suits(self) -> bool:
        first, vector = self.weights[0], 16 // self.x.itemsize
        if first.packed is not None:
            return self._packed_suits(first.packed)
        if first.columns:
            return self.n % vector == 0
        return self.joined == PLAIN and self.k % vector == 0 and 4 * self.rows * self.k < MOST_SHARED - 1024

    def _form(self, weight: Weight) -> tuple[object, ...]:
        packed = weight.packed
        if packed is None:
            return (weight.columns,)
        return (packed.bits, packed.block, packed.zero_kind, packed.row_bytes)

    def _packed_suits(self, packed: Packed) -> bool:
        if packed.bits not in (4, 8) or packed.row_bytes % 16 or packed.scales.dtype != self.x.dtype:
            return False
        if self.kind == "f16":
            return self._packed_bytes() < MOST_SHARED - 8192
        return self.kind == "bf16" and packed.bits == 4 and self._packed_bytes() < MOST_SHARED - 8192

"""A model's weights as a table with file offsets, and the one loop that streams them into the data file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.graph.dtypes import ElementType, numpy_dtype, tensor_bytes
from vramscope.units import align

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.build.config import Rope
    from vramscope.build.work import Cancel, Progress
    from vramscope.graph.model import Array

ALIGNMENT = 4096
"""Every tensor starts at a multiple of this in the data file, so that it can be mapped on its own."""

BLOCK = 32
"""Input features that share one scale in the quantised storages."""

PIECE_ELEMENTS = 1 << 21
"""About how many elements a fill makes at a time: bounds memory and the time between two cancel checks."""


class WeightKind(Enum):
    """What a weight is to the decoder, which decides how random values are drawn for it."""

    LINEAR = "linear"
    """Stored dense as [columns, rows], the layout MatMul reads."""
    TABLE = "table"
    """Stored dense as [rows, columns], the layout Gather reads."""
    BIAS = "bias"
    NORM = "norm"
    COSINE = "cosine"
    SINE = "sine"


class Storage(Enum):
    """How a matrix's numbers are kept."""

    DENSE = "dense"
    Q4 = "4-bit blocks with float zero points"
    Q8 = "8-bit blocks around 128"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One initializer in the data file: ``offset`` and ``size`` in bytes."""

    name: str
    dtype: ElementType
    shape: tuple[int, ...]
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Weight:
    """One logical weight of ``rows`` outputs by ``columns`` inputs (a vector: 1 row), and what stores it.

    Dense: one tensor. Q4: codes [rows, blocks, 16], scales and zero points [rows, blocks]. Q8: codes
    [rows, blocks, 32] and scales; its zero point is the operator's default, 128.
    """

    name: str
    kind: WeightKind
    storage: Storage
    rows: int
    columns: int
    tensors: tuple[TensorSpec, ...]
    rope: Rope | None = None


Piece: TypeAlias = "tuple[TensorSpec, int, Array]"
"""A tensor, a byte offset inside it, and a contiguous array of its own element type to store there."""

Fill: TypeAlias = Callable[[Weight], Iterator[Piece]]
"""Makes a weight's bytes piece by piece."""


Described: TypeAlias = "tuple[str, ElementType, tuple[int, ...]]"
"""An initializer before it has a place: name, element type, shape."""


def storage_tensors(
    weight: tuple[str, WeightKind, Storage], rows: int, columns: int, dtype: ElementType
) -> list[Described]:
    """Names, types and shapes of the initializers that store a weight (see :class:`Weight`)."""
    name, kind, storage = weight
    blocks = -(-columns // BLOCK)
    if storage is Storage.Q4:
        return [
            (f"{name}_Q4", ElementType.UINT8, (rows, blocks, BLOCK // 2)),
            (f"{name}_scales", dtype, (rows, blocks)),
            (f"{name}_zero_points", dtype, (rows, blocks)),
        ]
    if storage is Storage.Q8:
        return [
            (f"{name}_Q8", ElementType.UINT8, (rows, blocks, BLOCK)),
            (f"{name}_scales", dtype, (rows, blocks)),
        ]
    if kind in (WeightKind.BIAS, WeightKind.NORM):
        return [(name, dtype, (columns,))]
    return [(name, dtype, (columns, rows) if kind is WeightKind.LINEAR else (rows, columns))]


def place(described: list[Described], start: int) -> tuple[TensorSpec, ...]:
    """Gives each described tensor an aligned offset from ``start`` on."""
    placed: list[TensorSpec] = []
    for name, dtype, shape in described:
        start = align(start, ALIGNMENT)
        size = tensor_bytes(dtype, shape)
        placed.append(TensorSpec(name, dtype, shape, start, size))
        start += size
    return tuple(placed)


def stored(values: Array, spec: TensorSpec) -> Array:
    """``values`` rounded once to the tensor's element type, contiguous."""
    return np.ascontiguousarray(values, dtype=numpy_dtype(spec.dtype))


def write_weights(
    path: Path, weights: tuple[Weight, ...], size: int, fill: Fill, progress: Progress, cancel: Cancel
) -> None:
    """Streams every weight into ``path`` (``size`` bytes in all), one piece in memory at a time."""
    total, done = sum(spec.size for weight in weights for spec in weight.tensors), 0
    with path.open("wb") as file:
        file.truncate(size)
        for weight in weights:
            for spec, offset, values in fill(weight):
                cancel()
                file.seek(spec.offset + offset)
                file.write(values.reshape(-1).view(np.uint8).data)
                done += values.nbytes
                progress("weights", done, total)


def write_hole(path: Path, size: int) -> None:
    """A data file of ``size`` zero bytes that takes no room on a disk with sparse files."""
    with path.open("wb") as file:
        file.truncate(size)

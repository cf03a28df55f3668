"""A dense matrix product as plain data, and the launch that it becomes: cuBLASLt, matrix units, or plain."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from vramscope.devices.cuda.launch import Launch, Source, blocks, pointer, source
from vramscope.devices.cuda.library_form import LibraryProduct, Operand
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.cuda_workspace import FEW_ROWS, MATRIX_TILE

if TYPE_CHECKING:
    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.library_form import AnyLaunch

TENSOR_SHARED = 3 * 2 * MATRIX_TILE * 32 * 2
"""Shared memory of the matrix-unit kernel: three slices of both operands."""


@dataclass(frozen=True, slots=True)
class Product:
    """One batched product A [m, k] · B [k, n]; strides in elements, batch axes first.

    Attributes:
        m: rows.
        n: columns.
        k: depth.
        a: strides of A along m and k.
        b: strides of B along k and n.
        row: stride of C along m; along n it is 1.
        batch: extents of the batch axes.
        steps: strides of A, B and C along each batch axis.
    """

    m: int
    n: int
    k: int
    a: tuple[int, int]
    b: tuple[int, int]
    row: int
    batch: tuple[int, ...] = ()
    steps: tuple[tuple[int, ...], ...] = ((), (), ())


@dataclass(frozen=True, slots=True)
class Bias:
    """``beta · value`` added to every element; strides along m and n."""

    value: DeviceArray
    steps: tuple[int, int]
    beta: float = 1.0


@dataclass(frozen=True, slots=True)
class Room:
    """Planned scratch that cuBLASLt may use: an address and bytes."""

    address: int
    size: int


def gemm_launch(
    kind: str,
    product: Product,
    pointers: tuple[bytes, bytes, bytes],
    *,
    bias: Bias | None = None,
    alpha: float = 1.0,
) -> Launch:
    """The tiled product for any strides. ``pointers``: of A, B and C."""
    if len(product.batch) > 3:
        raise NoKernelError("its batch axes are strided in more than three ways")
    room = (0,) * (3 - len(product.batch))
    extents = (*(1,) * len(room), *product.batch)
    steps = [item for strides in product.steps for item in (*room, *strides)]
    bias_steps = bias.steps if bias else (0, 0)
    form = struct.pack(
        "<22q2d",
        *(product.m, product.n, product.k, *product.a, *product.b, product.row, *bias_steps),
        *(*extents, *steps),
        *(alpha, bias.beta if bias else 0.0),
    )
    grid = (blocks(product.n, 64), blocks(product.m, 64), prod(product.batch))
    a, b, c = pointers
    arguments = (form, a, b, pointer(bias.value if bias else None), c)
    return Launch(products_source(kind, 1, 4), "gemm", grid, (256, 1, 1), arguments)


def product_launch(
    kind: str,
    product: Product,
    addresses: tuple[int, int, int],
    *,
    bias: Bias | None = None,
    alpha: float = 1.0,
    room: Room | None = None,
) -> AnyLaunch:
    """The product by cuBLASLt where it is there, else on the matrix units, else plainly.

    Args:
        kind: C++ name of the element type.
        product: extents and strides.
        addresses: of A, B and C.
        bias: added to the product.
        alpha: its factor.
        room: planned scratch for cuBLASLt; None: it is not installed, or shall not be used.
    """
    own = partial(_own_launch, kind, product, addresses, bias=bias, alpha=alpha)
    library = _library_product(kind, product, addresses, bias, room) if room else None
    return own() if library is None else replace(library, alpha=alpha, instead=own)


def _own_launch(
    kind: str,
    product: Product,
    addresses: tuple[int, int, int],
    *,
    bias: Bias | None,
    alpha: float,
) -> Launch:
    """On the matrix units where they have the form, else plainly."""
    if not _tensor_suits(kind, product, addresses):
        a, b, c = (pointer(item) for item in addresses)
        return gemm_launch(kind, product, (a, b, c), bias=bias, alpha=alpha)
    columns = product.b[1] == 1
    steps = bias.steps if bias else (0, 0)
    leading = product.b[0] if columns else product.b[1]
    sizes = (product.m, product.n, product.k, product.a[0], leading, product.row, *steps)
    form = struct.pack("<8q2d", *sizes, alpha, bias.beta if bias else 0.0)
    text = source("tensor", (("T", kind), ("HALF", str(int(kind == "f16"))), ("COLUMNS", str(int(columns)))))
    grid = (blocks(product.m, MATRIX_TILE), blocks(product.n, MATRIX_TILE), 1)
    a, b, c = (pointer(item) for item in addresses)
    arguments = (form, a, b, pointer(bias.value if bias else None), c)
    return Launch(text, "tensor", grid, (256, 1, 1), arguments, TENSOR_SHARED)


def _library_product(
    kind: str, product: Product, addresses: tuple[int, int, int], bias: Bias | None, room: Room
) -> LibraryProduct | None:
    """The product for cuBLASLt: at most one batch axis, lines side by side, a bias along the columns."""
    if len(product.batch) > 1 or max(product.m, product.n, product.k) >= 2**31 or product.row < product.n:
        return None
    steps = [strides[0] if strides else 0 for strides in product.steps]
    a = _operand(addresses[0], (product.m, product.k), product.a, steps[0])
    b = _operand(addresses[1], (product.k, product.n), product.b, steps[1])
    if a is None or b is None:
        return None
    if bias and (bias.beta != 1.0 or bias.steps != (0, 1) or bias.value.address % 16):
        return None
    return LibraryProduct(
        *(kind, product.m, product.n, product.k),
        *(a, b, Operand(addresses[2], product.row, step=steps[2])),
        count=prod(product.batch),
        bias=bias.value.address if bias else 0,
        workspace=room.address,
        room=room.size,
    )


def _operand(address: int, extents: tuple[int, int], strides: tuple[int, int], step: int) -> Operand | None:
    """A matrix whose rows, or else whose columns, are lines of elements side by side."""
    rows, columns = extents
    if strides[1] == 1 and strides[0] >= columns:
        return Operand(address, strides[0], step=step)
    if strides[0] == 1 and strides[1] >= rows:
        return Operand(address, strides[1], turned=True, step=step)
    return None


def _tensor_suits(kind: str, product: Product, addresses: tuple[int, int, int]) -> bool:
    """Whole 16-byte pieces of both operands, one batch, enough rows."""
    columns = product.b[1] == 1
    leading = product.b[0] if columns else product.b[1]
    sides = columns or product.b[0] == 1
    even = all(item % 8 == 0 for item in (product.k, product.a[0], leading))
    width = product.n % (8 if columns else 2) == 0 and product.row % 2 == 0
    placed = addresses[0] % 16 == 0 and addresses[1] % 16 == 0 and addresses[2] % 4 == 0
    enough = product.m > FEW_ROWS and not product.batch and product.a[1] == 1
    return kind in ("f16", "bf16") and sides and even and width and placed and enough


def products_source(kind: str, rows: int, lanes: int) -> Source:
    """The kernels without matrix units, for one element type."""
    return source("products", (("T", kind), ("ROWS", str(rows)), ("LANES", str(lanes))))

"""CUDA builders of matrix products: MatMul, Gemm, MatMulNBits, and the dequantising operators."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.launch import Launch, Source, blocks, i64, numbers, pointer, source
from vramscope.devices.cuda.layout import flat_grid
from vramscope.devices.cuda.product_form import Bias, Product, Room, product_launch, products_source
from vramscope.devices.cuda.strided import THREADS, merged, type_name
from vramscope.devices.cuda.work import NoKernelError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.cuda_workspace import FEW_ROWS, dense_columns, library_room, matmul_room
from vramscope.ops.kernels.nbits_form import nbits_form
from vramscope.units import align

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.library_form import AnyLaunch
    from vramscope.devices.cuda.work import Builder, Work
    from vramscope.ops.kernels.nbits_form import NBitsForm

TARGET_BLOCKS = 264
"""Twice the multiprocessors of a large card: fewer blocks leave some of it idle."""
WORDS_A_THREAD = 4
"""Words of codes that one thread makes dense."""


def _float_kind(value: DeviceArray) -> str:
    name = type_name(value.dtype)
    if name not in ("float", "f16", "bf16"):
        raise NoKernelError(f"its kernel multiplies float32, float16 and bfloat16, not {value.dtype}")
    return name


def _matmul(work: Work) -> list[AnyLaunch]:
    a, b, out = work.input(0), work.input(1), work.output(0)
    kind = _float_kind(a)
    if min(a.ndim, b.ndim) == 0 or a.dtype != b.dtype or not out.contiguous:
        raise NoKernelError("its operands differ in type, or its output is strided")
    if out.size == 0:
        return []
    if a.ndim == 1:
        a = a.reshape(1, a.size)
    if b.ndim == 1:
        b = b[:, None]
    product = _product(a, b)
    if product.k == 0:
        raise NoKernelError("its depth is 0")
    vector = _vector_launch(kind, product, (a, b, out))
    if vector is not None:
        return [vector]
    room = _room(work, matmul_room(work.shape(0), work.shape(1)))
    return [product_launch(kind, product, (a.address, b.address, out.address), room=room)]


def _room(work: Work, size: int, start: int = 0) -> Room | None:
    """What the plan holds for cuBLASLt from ``start`` on; None where own kernels are to do it."""
    if not size or not work.mirror.library:
        return None
    return Room(work.scratch(size, start), size)


def _product(a: DeviceArray, b: DeviceArray) -> Product:
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.ndim == 2 and a.contiguous:
        return Product(a.size // k if k else 0, n, k, (k, 1), (b.steps[0], b.steps[1]), n)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    whole_a, whole_b = a.broadcast((*lead, m, k)), b.broadcast((*lead, k, n))
    c_steps = tuple(m * n * prod(lead[axis + 1 :]) for axis in range(len(lead)))
    axes = merged(lead, [whole_a.steps[:-2], whole_b.steps[:-2], c_steps])
    product = Product(
        m, n, k, (a.steps[-2], a.steps[-1]), (b.steps[-2], b.steps[-1]), n, axes.shape, axes.steps
    )
    return _rows_joined(product)


def _rows_joined(product: Product) -> Product:
    """One batch axis over one B is more rows of A."""
    if len(product.batch) != 1 or product.steps[1][0] != 0:
        return product
    a_step, c_step = product.steps[0][0], product.steps[2][0]
    if product.m == 1:
        return Product(product.batch[0], product.n, product.k, (a_step, product.a[1]), product.b, c_step)
    if a_step == product.m * product.a[0] and c_step == product.m * product.row:
        rows = product.batch[0] * product.m
        return Product(rows, product.n, product.k, product.a, product.b, product.row)
    return product


def _vector_launch(
    kind: str, product: Product, operands: tuple[DeviceArray, DeviceArray, DeviceArray]
) -> Launch | None:
    """The kernels for a few rows; None where strides, sizes or addresses do not suit them."""
    a, b, out = operands
    if product.m > FEW_ROWS or product.batch or (product.a[1] != 1 and product.k > 1):
        return None
    vector = 16 // b.itemsize
    form = numbers((product.n, product.k, product.a[0], product.row))
    arguments = (form, pointer(a), pointer(b), pointer(out))
    if product.b == (product.n, 1) and product.n % vector == 0 and b.address % 16 == 0:
        lanes = columns_lanes(product.n, vector)
        grid = (blocks(product.n, lanes * vector), 1, 1)
        return Launch(products_source(kind, product.m, lanes), "gemv_columns", grid, (256, 1, 1), arguments)
    suited = product.k % vector == 0 and b.address % 16 == 0 and a.address % 16 == 0
    if product.b == (1, product.k) and suited and product.a[0] % vector == 0:
        grid = (blocks(product.n, 8), 1, 1)
        return Launch(products_source(kind, product.m, 4), "gemv_rows", grid, (256, 1, 1), arguments)
    return None


def columns_lanes(columns: int, vector: int) -> int:
    """Threads side by side along the columns: as many as still give every multiprocessor a block."""
    return next((n for n in (16, 8, 4) if columns // (n * vector) >= TARGET_BLOCKS), 2)


def _gemm(work: Work) -> list[AnyLaunch]:
    a, b, out = work.input(0), work.input(1), work.output(0)
    kind = _float_kind(a)
    node = work.node
    a = a.transpose() if node.integer("transA", 0) else a
    b = b.transpose() if node.integer("transB", 0) else b
    if out.size == 0 or not out.contiguous or a.dtype != b.dtype:
        raise NoKernelError("its output is empty or strided")
    product = Product(a.shape[0], b.shape[1], a.shape[1], a.steps, b.steps, b.shape[1])  # type: ignore[arg-type] # two axes
    bias, alpha = None, node.number("alpha", 1.0)
    if work.has(2) and node.number("beta", 1.0) != 0:
        given = work.input(2)
        while given.ndim > 2:
            given = given[0]
        whole = given.broadcast(out.shape)
        bias = Bias(whole, (whole.steps[0], whole.steps[1]), node.number("beta", 1.0))
    if bias is None and alpha == 1.0:
        vector = _vector_launch(kind, product, (a, b, out))
        if vector is not None:
            return [vector]
    addresses = (a.address, b.address, out.address)
    room = _room(work, library_room(product.m, product.n))
    return [product_launch(kind, product, addresses, bias=bias, alpha=alpha, room=room)]


def _matmul_nbits(work: Work) -> list[AnyLaunch]:
    x, weight, scales, out = work.input(0), work.input(1), work.input(2), work.output(0)
    kind = _float_kind(x)
    form = nbits_form(work.node, x.shape, half=False, zeros=work.has(3), grouped=work.has(4))
    zeros, groups, bias = work.optional(3), work.optional(4), work.optional(5)
    every = (x, weight, scales, out, zeros, bias)
    if any(item is not None and not item.contiguous for item in every) or weight.size == 0 or out.size == 0:
        raise NoKernelError("a tensor is strided or empty")
    if scales.dtype != x.dtype:
        raise NoKernelError("its scales have another type than its activation")
    shape = numbers(_geometry(form))
    if form.rows <= FEW_ROWS and groups is None:
        tensors = (x, weight, scales, zeros, bias, out)
        arguments = (shape, *(pointer(item) for item in tensors))
        text = _nbits_source(kind, form, weight, zeros, form.rows)
        return [Launch(text, "gemv_nbits", (blocks(form.columns, 8), 1, 1), (256, 1, 1), arguments)]
    text = _nbits_source(kind, form, weight, zeros, 1)
    tile = dense_columns(form.columns, form.depth, x.itemsize)
    dense = work.scratch(tile * form.depth * x.itemsize)
    room = _room(work, library_room(form.rows, tile), align(tile * form.depth * x.itemsize))
    found: list[AnyLaunch] = []
    for first in range(0, form.columns, tile):
        count = min(tile, form.columns - first)
        inputs = (weight, scales, zeros, groups)
        arguments = (shape, i64(first), i64(count), *(pointer(item) for item in inputs), pointer(dense))
        found.append(_dense_launch(text, form, arguments, count, grouped=groups is not None))
        product = Product(form.rows, count, form.depth, (form.depth, 1), (1, form.depth), form.columns)
        target = out.address + first * out.itemsize
        tail = Bias(bias.reshape(-1)[first:], (0, 1)) if bias is not None else None
        found.append(product_launch(kind, product, (x.address, dense, target), bias=tail, room=room))
    return found


def _geometry(form: NBitsForm) -> tuple[int, ...]:
    """The ``NBits`` structure of the kernels."""
    row_bytes = form.blocks * form.blob
    sizes = (form.columns, form.depth, form.blocks, form.block, row_bytes, form.zero_bytes)
    return (*sizes, form.depth, form.columns)


def _nbits_source(
    kind: str, form: NBitsForm, weight: DeviceArray, zeros: DeviceArray | None, rows: int
) -> Source:
    zero_kind = 0 if zeros is None else 1 if zeros.dtype == np.uint8 else 2
    words = 4 if form.blocks * form.blob % 16 == 0 and weight.address % 16 == 0 else 1
    names = (("T", kind), ("BITS", form.bits), ("ZERO", zero_kind), ("ROWS", rows), ("WORDS", words))
    return source("nbits", tuple((name, str(value)) for name, value in names))


def _dense_launch(
    text: Source, form: NBitsForm, arguments: tuple[bytes, ...], count: int, *, grouped: bool
) -> Launch:
    """``count`` columns of the weight made dense: by whole words of codes where every word has one scale."""
    codes = 32 // form.bits
    even = form.depth % codes == 0 and form.block % codes == 0 and form.blob % 4 == 0
    if grouped or not even or count * form.depth >= 2**31:
        grid = flat_grid(count * form.depth)
        return Launch(text, "dense_nbits", grid, (THREADS, 1, 1), arguments)
    grid = (blocks(count * (form.depth // codes), THREADS * WORDS_A_THREAD), 1, 1)
    return Launch(text, "dense_words", grid, (THREADS, 1, 1), arguments)


_CODES: Mapping[ElementType, tuple[int, str]] = {
    ElementType.UINT2: (2, "u2"),
    ElementType.INT2: (2, "i2"),
    ElementType.UINT4: (4, "u4"),
    ElementType.INT4: (4, "i4"),
    ElementType.UINT8: (8, "u8"),
    ElementType.INT8: (8, "i8"),
}


def _gather_block_quantized(work: Work) -> list[Launch]:
    data, index, scales, out = work.input(0), work.input(1), work.input(2), work.output(0)
    node, shape = work.node, work.shape(0)
    packed = work.element(0) is ElementType.UINT8
    rank = len(shape)
    quantize = node.integer("quantize_axis", 1)
    axes = (node.integer("gather_axis", 0) % rank, quantize % rank)
    every = (data, index, scales, out)
    if axes != (0, rank - 1) or not all(item.contiguous for item in every) or index.dtype.kind != "i":
        raise NoKernelError("its kernel gathers on axis 0 what is quantised along the last axis")
    bits, name = _CODES.get(work.element(0), (0, ""))
    if packed:
        bits = node.integer("bits", 4)
        name = f"u{bits}"
    inner = prod(shape[1:]) * (8 // bits if packed else 1)
    last = shape[-1] * (8 // bits if packed else 1)
    block = node.integer("block_size", 128) or last
    if name not in ("u2", "u4", "u8", "i4", "i8") or last % block:
        raise NoKernelError("its codes or its blocks are not of the kernel's kind")
    zero = float(1 << (bits - 1)) if packed else 0.0
    if out.size == 0:
        return []
    row_scales = scales.size // shape[0]
    form = struct.pack("<6qd", index.size, inner, shape[0], row_scales, block, int(packed), zero)
    tensors = (data, index, scales, work.optional(3), out)
    text = source("dequantize", (("S", _float_kind(scales)),))
    kind = "i64" if index.dtype == np.int64 else "i32"
    arguments = (form, *(pointer(item) for item in tensors))
    return [Launch(text, f"gather_{name}_{kind}", flat_grid(out.size), (THREADS, 1, 1), arguments)]


def _dequantize(work: Work) -> list[Launch]:
    data, scales, out = work.input(0), work.input(1), work.output(0)
    shape = work.shape(0)
    _, name = _CODES.get(work.element(0), (0, ""))
    if not name or not all(item.contiguous for item in (data, scales, out)) or out.dtype != scales.dtype:
        raise NoKernelError(f"its kernel has no form for {work.element(0).name}")
    if out.size == 0:
        return []
    axis, block, steps = _scale_steps(work, shape, scales.shape)
    inner = prod(shape[axis + 1 :])
    form = numbers((prod(shape), shape[axis] if shape else 1, inner, block, *steps))
    tensors = (data, scales, work.optional(2), out)
    text = source("dequantize", (("S", _float_kind(scales)),))
    arguments = (form, *(pointer(item) for item in tensors))
    return [Launch(text, f"dequantize_{name}", flat_grid(out.size), (THREADS, 1, 1), arguments)]


def _scale_steps(
    work: Work, shape: tuple[int, ...], scales: Sequence[int]
) -> tuple[int, int, tuple[int, int, int]]:
    """The axis, its block, and the scale's strides along what is before, on and behind the axis."""
    axis = work.node.integer("axis", 1)
    axis += len(shape) if axis < 0 else 0
    if prod(scales) == 1:
        return 0, 1, (0, 0, 0)
    block = work.node.integer("block_size", 0)
    if block == 0:
        return axis, 1, (0, 1, 0)
    inner = prod(shape[axis + 1 :])
    return axis, block, (-(-shape[axis] // block) * inner, inner, 1)


BUILDERS: Mapping[tuple[str, str], Builder] = {
    ("", "MatMul"): _matmul,
    ("", "Gemm"): _gemm,
    ("com.microsoft", "MatMulNBits"): _matmul_nbits,
    ("com.microsoft", "GatherBlockQuantized"): _gather_block_quantized,
    ("", "DequantizeLinear"): _dequantize,
}
"""Builders of this family."""

"""Host kernel of MatMulNBits: a product with a weight of 2, 4 or 8 bits, exact within f32 summation.

With few activation rows (decoding) the codes are multiplied first and scaled afterwards:
``y[n] = Σ_b s[n,b] · (Σ_j q[n,b,j]·a[b,j] − z[n,b]·Σ_j a[b,j])``. A byte holds several codes; instead of
taking them apart, the kernel widens the byte's low 1, 2, … codes as one number F_i (a mask and a cast; the
last needs no mask) and multiplies F_i by a_i/2^(bits·i) − a_(i+1)/2^(bits·(i+1)), which adds up to the same.
With many rows the weight is dequantised tile by tile and multiplied by BLAS.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.ops.kernels.nbits_form import nbits_form, nbits_workspace
from vramscope.ops.kernels.planned import Values, query_of, regions_of
from vramscope.ops.kernels.widening import is_half, widen
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.nbits_form import NBitsForm


Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class _Operands:
    """The inputs of one call in the shapes the kernel walks, and its scratch by region name (flat)."""

    __slots__ = ("activation", "bias", "codes", "form", "groups", "scales", "scratch", "zeros")

    def __init__(self, call: Call, form: NBitsForm) -> None:
        requirement = nbits_workspace(query_of(call))
        self.form = form
        self.activation = call.array(0).reshape(form.rows, form.depth)
        self.codes = _shaped(call, 1, (form.columns, form.blocks, form.blob))
        self.scales = _shaped(call, 2, (form.columns, form.blocks))
        self.zeros = _zero_points(call, form)
        self.groups = call.optional(4)
        self.bias = call.optional(5)
        self.scratch: Mapping[str, Values] = regions_of(call, requirement)

    def region(self, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> Values:
        """The first bytes of a region as an array."""
        size = prod(shape) * np.dtype(dtype).itemsize
        return self.scratch[name][:size].view(dtype).reshape(shape)


def matmul_nbits(call: Call) -> None:
    """``Y[..., N] = A[..., K] · dequantised(B)ᵀ + bias``; f32 accumulation, one rounding for half types.

    Raises:
        UnsupportedOperatorError: a prepacked weight or an unknown number of bits.
        ModelGraphError: extents that do not fit the attributes.
    """
    activation = call.array(0)
    form = nbits_form(
        call.node,
        activation.shape,
        half=is_half(activation.dtype),
        zeros=call.has(3),
        grouped=call.has(4),
    )
    out = call.output(0, (*activation.shape[:-1], form.columns))
    if out.size == 0:
        return
    if call.array(1).size == 0:
        bias = call.optional(5)
        np.copyto(out, 0 if bias is None else bias, casting="unsafe")
        return
    operands = _Operands(call, form)
    run = _blockwise if form.blockwise else _dense
    run(operands, out.reshape(form.rows, form.columns))


def _shaped(call: Call, index: int, shape: tuple[int, ...]) -> Array:
    array = call.array(index)
    if array.size != prod(shape):
        raise ModelGraphError(
            f"input {index} of {call.node.qualified}",
            f"its shape is {list(array.shape)} and the attributes ask for {list(shape)}",
            "",
            call.node.name,
        )
    return array.reshape(shape)


def _zero_points(call: Call, form: NBitsForm) -> Array | None:
    """Packed [N, bytes] when uint8, else one number a block."""
    if not call.has(3):
        return None
    packed = call.array(3).dtype == np.uint8
    return _shaped(call, 3, (form.columns, form.zero_bytes if packed else form.blocks))


def _tile_scales(operands: _Operands, rows: slice) -> Values:
    """Scales [rows, blocks] in f32: the weight's own bytes where nothing has to be widened."""
    scales: Values = operands.scales[rows]
    if not (operands.form.half or operands.form.zeros):
        return scales
    wide = operands.region("scales", scales.shape)
    widen(scales, wide)
    return wide


def _tile_zeros(operands: _Operands, rows: slice) -> Values | None:
    """Zero points [rows, blocks] in f32, minus 128 for 8-bit codes, which are centred at once."""
    if operands.zeros is None:
        return None
    form, stored = operands.form, operands.zeros[rows]
    zeros = operands.region("zeros", (stored.shape[0], form.blocks))
    if stored.dtype == np.uint8:
        codes = operands.region("codes", stored.shape, np.uint8)
        for plane in range(form.planes):
            target = zeros[:, plane :: form.planes]
            np.right_shift(stored, form.bits * plane, out=codes)
            np.bitwise_and(codes, (1 << form.bits) - 1, out=codes)
            np.copyto(target, codes[:, : target.shape[1]])
    else:
        widen(stored, zeros)
    if form.bits == 8:
        np.subtract(zeros, 128, out=zeros)
    return zeros


def _finish(operands: _Operands, result: Array, columns: slice, out: Array) -> None:
    """Add the bias to an f32 block [rows, columns] and write it out, unless it is the output already."""
    if operands.bias is not None:
        bias = operands.bias[columns]
        if operands.form.half:
            wide = operands.region("bias", bias.shape)
            widen(bias, wide)
            bias = wide
        np.add(result, bias, out=result)
    if not np.may_share_memory(result, out):
        np.copyto(out, result, casting="unsafe")


def _spread_activation(operands: _Operands) -> tuple[Array, Array]:
    """Coefficients [planes, blocks, blob, rows] of the masked bytes, and block sums [blocks, rows]."""
    form = operands.form
    padded = operands.region("activation", (form.rows, form.padded))
    widen(operands.activation, padded[:, : form.depth])
    padded[:, form.depth :] = 0
    sums = operands.region("sums", (form.blocks, form.rows))
    np.add.reduce(padded.reshape(form.rows, form.blocks, form.block), axis=2, out=sums.T)
    spread = operands.region("coefficients", (form.planes, form.blocks, form.blob, form.rows))
    parts = padded.reshape(form.rows, form.blocks, form.blob, form.planes).transpose(3, 1, 2, 0)
    for plane in range(form.planes):
        np.multiply(parts[plane], np.float32(2.0 ** (-form.bits * plane)), out=spread[plane])
    for plane in range(form.planes - 1):
        np.subtract(spread[plane], spread[plane + 1], out=spread[plane])
    return spread, sums


def _blockwise(operands: _Operands, out: Array) -> None:
    form = operands.form
    spread, sums = _spread_activation(operands)
    plain = operands.zeros is None and form.bits != 8
    if plain:
        np.multiply(sums, form.default_zero, out=sums)
    for start in range(0, form.columns, form.tile):
        columns = slice(start, min(start + form.tile, form.columns))
        product = _code_products(operands, columns, spread)
        scales = _tile_scales(operands, columns)
        zeros = _tile_zeros(operands, columns)
        if plain:
            np.subtract(product, sums[:, np.newaxis], out=product)
        np.multiply(product, scales.T[:, :, np.newaxis], out=product)
        result = operands.region("result", product.shape[1:])
        np.add.reduce(product, axis=0, out=result)
        if zeros is not None:
            np.multiply(zeros, scales, out=zeros)
            offset = operands.region("partial", result.shape)
            np.matmul(zeros, sums, out=offset)
            np.subtract(result, offset, out=result)
        _finish(operands, result.T, columns, out[:, columns])


def _code_products(operands: _Operands, columns: slice, spread: Array) -> Array:
    """``Σ_j q[n,b,j]·a[b,j]`` as [blocks, n, rows]; 8-bit codes are taken as q − 128."""
    form, stored = operands.form, operands.codes[columns]
    plane = operands.region("plane", stored.shape)
    codes = operands.region("codes", stored.shape, np.uint8)
    shape = (form.blocks, stored.shape[0], form.rows)
    product, partial = operands.region("product", shape), operands.region("partial", shape)
    for number in range(form.planes):
        if form.bits == 8:
            np.bitwise_xor(stored, 128, out=codes)
            np.copyto(plane, codes.view(np.int8))
        elif number == form.planes - 1:
            np.copyto(plane, stored)
        else:
            np.bitwise_and(stored, (1 << form.bits * (number + 1)) - 1, out=codes)
            np.copyto(plane, codes)
        np.matmul(plane.transpose(1, 0, 2), spread[number], out=product if number == 0 else partial)
        if number:
            np.add(product, partial, out=product)
    return product


def _dense(operands: _Operands, out: Array) -> None:
    form = operands.form
    for first in range(0, form.rows, form.row_block):
        rows = slice(first, min(first + form.row_block, form.rows))
        activation = _plane_major(operands, rows)
        for start in range(0, form.columns, form.tile):
            columns = slice(start, min(start + form.tile, form.columns))
            block = out[rows, columns]
            result = operands.region("result", block.shape) if form.half else block
            weight = _tile_weight(operands, columns)
            np.matmul(activation, weight.reshape(weight.shape[0], -1).T, out=result)
            _finish(operands, result, columns, block)


def _plane_major(operands: _Operands, rows: slice) -> Array:
    """Activation rows in f32 in the order of the dequantised tile: plane, block, byte; the K tail is zero."""
    form = operands.form
    source = operands.activation[rows]
    target = operands.region("activation", (source.shape[0], form.planes, form.padded // form.planes))
    for plane in range(form.planes):
        part = source[:, plane :: form.planes]
        np.copyto(target[:, plane, : part.shape[1]], part, casting="unsafe")
        target[:, plane, part.shape[1] :] = 0
    return target.reshape(source.shape[0], form.padded)


def _tile_weight(operands: _Operands, columns: slice) -> Array:
    """Dequantised rows [n, planes, blocks, blob] in f32."""
    form, stored = operands.form, operands.codes[columns]
    scales = _tile_scales(operands, columns)
    zeros = _tile_zeros(operands, columns)
    weight = operands.region("weight", (stored.shape[0], form.planes, form.blocks, form.blob))
    codes = operands.region("codes", stored.shape, np.uint8)
    for plane in range(form.planes):
        np.right_shift(stored, form.bits * plane, out=codes)
        if form.bits < 8:
            np.bitwise_and(codes, (1 << form.bits) - 1, out=codes)
        if form.bits == 8 or zeros is None:
            np.subtract(codes, form.default_zero, out=codes)
        np.copyto(weight[:, plane], codes.view(np.int8))
    if operands.groups is not None:
        _scale_by_group(operands, weight, scales, zeros)
        return weight
    if zeros is not None:
        np.subtract(weight, zeros[:, np.newaxis, :, np.newaxis], out=weight)
    np.multiply(weight, scales[:, np.newaxis, :, np.newaxis], out=weight)
    return weight


def _scale_by_group(operands: _Operands, weight: Array, scales: Values, zeros: Values | None) -> None:
    """g_idx: column k takes the scale and zero point of block g_idx[k]; its code stays where it is."""
    form = operands.form
    groups: Integers = operands.region("groups", (form.planes, form.padded // form.planes), np.int64)
    groups[...] = 0
    assert operands.groups is not None
    for plane in range(form.planes):
        part = operands.groups[plane :: form.planes]
        groups[plane, : part.shape[0]] = part
    expanded = operands.region("expanded", (weight.shape[0], form.padded))
    flat = weight.reshape(expanded.shape)
    if zeros is not None:
        np.take(zeros, groups.reshape(-1), axis=1, out=expanded, mode="clip")
        np.subtract(flat, expanded, out=flat)
    np.take(scales, groups.reshape(-1), axis=1, out=expanded, mode="clip")
    np.multiply(flat, expanded, out=flat)


SPECS: tuple[OpSpec, ...] = (OpSpec("com.microsoft", "MatMulNBits", matmul_nbits, workspace=nbits_workspace),)

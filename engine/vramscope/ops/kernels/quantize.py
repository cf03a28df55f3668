"""Host kernels: QuantizeLinear and DynamicQuantizeLinear."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType, bit_width, numpy_dtype
from vramscope.ops.call import Packed
from vramscope.ops.kernels.dequantize import parameter_blocks, zeros_in_f32
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

_LARGEST = MappingProxyType(
    {
        ElementType.FLOAT8E4M3FN: 448.0,
        ElementType.FLOAT8E4M3FNUZ: 240.0,
        ElementType.FLOAT8E5M2: 57344.0,
        ElementType.FLOAT8E5M2FNUZ: 57344.0,
        ElementType.FLOAT4E2M1: 6.0,
    }
)
"""The largest finite number of the float types that are quantised to."""


def integer_range(kind: ElementType) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    bits = bit_width(kind)
    return (0, (1 << bits) - 1) if kind.name.startswith("U") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _target(node: Node, zeros: ElementType | None) -> ElementType:
    """The output's type: the zero point's, else the attribute's, else uint8."""
    return zeros or ElementType(node.integer("output_dtype", 0)) or ElementType.UINT8


def quantize_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """The quotient in f32, zero points in f32, and one byte an element where several share a byte."""
    source, zeros = query.input(0), query.input(2)
    kind = _target(query.node, zeros.dtype if zeros.present else None)
    elements = prod(source.shape)
    sizes = {
        "work": 4 * elements,
        "zeros": 4 * prod(zeros.shape) if zeros.present else 0,
        "codes": elements + elements % 2 + 2 if bit_width(kind) < 8 else 0,
    }
    return lay_out("host-quantize", sizes)


def quantize_linear(call: Call) -> None:
    """``y = saturate(round(x / scale) + zero point)``, halves to even; float8 and float4 only saturate."""
    source, scale = call.array(0), call.array(1)
    requirement = quantize_workspace(query_of(call))
    given = query_of(call).input(2)
    kind = _target(call.node, given.dtype if given.present else None)
    work = region_of(call, requirement, "work", source.shape)
    np.copyto(work, source, casting="unsafe")
    for part, own, shape in parameter_blocks(call.node, work.shape, scale.shape):
        divisor = scale[own].reshape(shape)
        np.divide(work[part], divisor, out=work[part], dtype=np.float32, casting="unsafe")
    if kind in _LARGEST:
        _saturate_float(work, kind, saturate=call.node.integer("saturate", 1) == 1)
    else:
        np.rint(work, out=work)
        zeros = zeros_in_f32(call, 2, requirement)
        if zeros is not None:
            for part, own, shape in parameter_blocks(call.node, work.shape, zeros.shape):
                np.add(work[part], zeros[own].reshape(shape), out=work[part])
        np.clip(work, *integer_range(kind), out=work)
    if bit_width(kind) == 8 or bit_width(kind) == 16:
        np.copyto(call.output(0, source.shape, numpy_dtype(kind)), work, casting="unsafe")
        return
    codes = region_of(call, requirement, "codes", (work.size + work.size % 2 + 2,), np.uint8)
    _pack(call, work, kind, codes)


def _saturate_float(work: Values, kind: ElementType, *, saturate: bool) -> None:
    """Clip to the largest finite number; NaN stays, and without saturation so does what is too large."""
    if saturate or kind is ElementType.FLOAT4E2M1:
        np.clip(work, -_LARGEST[kind], _LARGEST[kind], out=work)


def _pack(call: Call, work: Values, kind: ElementType, codes: Values) -> None:
    """Two or four numbers into each byte of the output, low-order bits first."""
    bits, count = bit_width(kind), work.size
    per = 8 // bits
    size = -(-count // per)
    placed = call.placed[0]
    if not isinstance(placed, Packed):
        placed = Packed(np.empty(size, np.uint8), kind, work.shape)
        call.put(0, placed)
    flat = work.reshape(-1)
    if kind is ElementType.FLOAT4E2M1:
        np.copyto(codes[:count].view(numpy_dtype(kind)), flat, casting="unsafe")
    else:
        np.copyto(
            codes[:count].view(np.int8 if kind.name.startswith("I") else np.uint8), flat, casting="unsafe"
        )
    codes[count:] = 0
    np.bitwise_and(codes, (1 << bits) - 1, out=codes)
    target: Values = placed.data.reshape(-1).view(np.uint8)
    target[...] = 0
    for place in range(per):
        part = codes[place:count:per]
        np.left_shift(part, bits * place, out=part)
        np.bitwise_or(target[: part.size], part, out=target[: part.size])


def dynamic_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """The quotient in f32."""
    return lay_out("host-dynamic-quantize", {"work": 4 * prod(query.input(0).shape)})


def dynamic_parameters(source: Values) -> tuple[np.float32, np.float32]:
    """Scale and zero point that put min(x, 0) … max(x, 0) on 0 … 255."""
    low = np.float32(min(float(source.min(initial=0)), 0.0))
    high = np.float32(max(float(source.max(initial=0)), 0.0))
    scale = (high - low) / np.float32(255)
    if scale == 0:
        return np.float32(1), np.float32(0)
    return np.float32(scale), np.float32(np.clip(np.rint(-low / scale), 0, 255))


def quantize_dynamically(source: Values, work: Values) -> tuple[np.float32, np.float32]:
    """Write the uint8 codes of ``source`` (as floats) into ``work``; returns scale and zero point."""
    scale, zero = dynamic_parameters(source)
    np.divide(source, scale, out=work)
    np.rint(work, out=work)
    np.add(work, zero, out=work)
    np.clip(work, 0, 255, out=work)
    return scale, zero


def dynamic_quantize_linear(call: Call) -> None:
    """Y uint8 with the shape of x, its scale f32 and its zero point uint8, both scalars."""
    source: Values = call.array(0)
    work = region_of(call, dynamic_workspace(query_of(call)), "work", source.shape)
    scale, zero = quantize_dynamically(source, work)
    np.copyto(call.output(0, source.shape, np.uint8), work, casting="unsafe")
    call.output(1, (), np.float32)[...] = scale
    np.copyto(call.output(2, (), np.uint8), zero, casting="unsafe")


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "QuantizeLinear", quantize_linear, workspace=quantize_workspace),
    OpSpec("com.microsoft", "QuantizeLinear", quantize_linear, workspace=quantize_workspace),
    OpSpec("", "DynamicQuantizeLinear", dynamic_quantize_linear, workspace=dynamic_workspace),
)

"""Host kernels: Cast, CastLike and BitCast, with the saturation rules of the small float types."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType, from_numpy, numpy_dtype
from vramscope.ops.kernels.common import copy_into
from vramscope.ops.kernels.packing import packs
from vramscope.ops.reference import run_reference
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values

_LARGEST: Mapping[ElementType, float] = MappingProxyType(
    {
        ElementType.FLOAT8E4M3FN: 448.0,
        ElementType.FLOAT8E4M3FNUZ: 240.0,
        ElementType.FLOAT8E5M2: 57344.0,
        ElementType.FLOAT8E5M2FNUZ: 57344.0,
    }
)
"""The largest finite value of each 8-bit float, to which a saturating Cast clips."""

_BITS4 = frozenset((ElementType.INT4, ElementType.UINT4, ElementType.INT2, ElementType.UINT2))


def cast(call: Call) -> None:
    """Cast to the type of attribute ``to``."""
    convert(call, ElementType(call.node.integer("to", 0)))


def cast_like(call: Call) -> None:
    """CastLike: Cast to the type of input 1."""
    convert(call, from_numpy(call.array(1).dtype))


def convert(call: Call, target: ElementType) -> None:
    """Write input 0 as ``target`` into output 0; strings go through the reference evaluator."""
    source = call.array(0)
    if ElementType.STRING in (target, from_numpy(source.dtype)):
        run_reference(call)
        return
    out = call.output(0, source.shape, numpy_dtype(target))
    if target in _LARGEST:
        copy_into(out, _to_float8(source, target, saturate=call.node.integer("saturate", 1) != 0))
    elif target is ElementType.FLOAT8E8M0:
        run_reference(call)
    elif target in _BITS4:
        copy_into(out, _to_small_integer(source, target))
    elif source.dtype.kind == "V" and target not in _LARGEST:
        copy_into(out, source.astype(np.float32) if source.dtype.itemsize <= 2 else source)
    else:
        copy_into(out, source)


def _to_float8(source: Array, target: ElementType, *, saturate: bool) -> Values:
    kind = numpy_dtype(target)
    wide: Values = source.astype(np.float32)
    if saturate:
        largest = _LARGEST[target]
        wide = np.clip(wide, -largest, largest)
    return wide.astype(kind)


def _to_small_integer(source: Array, target: ElementType) -> Values:
    bits = 2 if target in (ElementType.INT2, ElementType.UINT2) else 4
    codes = source.astype(np.int64) & ((1 << bits) - 1)
    if target in (ElementType.INT4, ElementType.INT2):
        codes = np.where(codes >= 1 << (bits - 1), codes - (1 << bits), codes)
    return codes.astype(np.int8).astype(numpy_dtype(target))


def bit_cast(call: Call) -> None:
    """BitCast: the same bits under another type of the same width."""
    source = call.array(0)
    kind = numpy_dtype(ElementType(call.node.integer("to", 0)))
    copy_into(
        call.output(0, source.shape, kind), np.ascontiguousarray(source).reshape(source.shape).view(kind)
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "Cast", packs(cast), in_place=((0, 0),)),
    OpSpec("", "CastLike", packs(cast_like), in_place=((0, 0),)),
    OpSpec("", "BitCast", packs(bit_cast), view=((0, 0),)),
)

"""Which calls are products of a few rows with a constant weight, and how that weight lies in memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.array import on_device
from vramscope.devices.cuda.fused_form import MOST_ROWS, Fused, Packed, Weight
from vramscope.devices.cuda.strided import TYPES
from vramscope.graph.dtypes import from_numpy
from vramscope.ops.kernels.nbits_form import nbits_form

if TYPE_CHECKING:
    from vramscope.ops.call import Call

_KINDS = ("float", "f16", "bf16")


def product_of(call: Call, constant: bool) -> Fused | None:
    """The product of a MatMul or MatMulNBits call; None where it is none of a few rows and a constant."""
    x, y = (
        on_device(call.inputs[0]) if call.inputs else None,
        on_device(call.placed[0] if call.placed else None),
    )
    if not constant or x is None or y is None or x.ndim == 0 or not (x.contiguous and y.contiguous):
        return None
    kind = TYPES.get(from_numpy(x.dtype), "")
    rows = prod(x.shape[:-1])
    if kind not in _KINDS or not 0 < rows <= MOST_ROWS or x.shape[-1] == 0:
        return None
    if call.node.operator == "MatMul" and call.node.domain == "":
        return _dense(call, kind, rows)
    if call.node.operator == "MatMulNBits":
        return _packed(call, kind, rows)
    return None


def _dense(call: Call, kind: str, rows: int) -> Fused | None:
    x, weight, y = on_device(call.inputs[0]), on_device(call.inputs[1]), on_device(call.placed[0])
    if x is None or weight is None or y is None or weight.ndim != 2 or weight.dtype != x.dtype:
        return None
    k, n = weight.shape
    if weight.steps not in ((n, 1), (1, k)):
        return None
    return Fused(kind, rows, n, k, x, y, (Weight(weight, weight.steps == (n, 1)),), (None,))


def _packed(call: Call, kind: str, rows: int) -> Fused | None:
    x, weight, scales = (on_device(call.inputs[index]) for index in range(3))
    y = on_device(call.placed[0])
    if x is None or weight is None or scales is None or y is None or call.has(4) or weight.size == 0:
        return None
    form = nbits_form(call.node, x.shape, half=False, zeros=call.has(3), grouped=False)
    zeros = on_device(call.inputs[3]) if call.has(3) else None
    bias = on_device(call.inputs[5]) if call.has(5) else None
    kinds = 0 if zeros is None else 1 if zeros.dtype == np.uint8 else 2
    if kinds == 2 and zeros is not None and zeros.dtype != x.dtype:
        return None
    packed = Packed(
        *(scales, zeros, kinds, form.bits, form.block, form.blocks),
        form.blocks * form.blob,
        form.zero_bytes,
    )
    return Fused(
        kind, rows, form.columns, form.depth, x, y, (Weight(weight, columns=False, packed=packed),), (bias,)
    )

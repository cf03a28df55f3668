"""Host kernel of DequantizeLinear: ``(q − zero point) · scale`` per tensor, per axis or per block."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType, numpy_dtype
from vramscope.ops.call import Packed
from vramscope.ops.kernels.codes import byte_table, expand
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

_WIDE_INTEGERS = (ElementType.INT16, ElementType.UINT16, ElementType.INT32, ElementType.UINT32)
_HALVES = (ElementType.FLOAT16, ElementType.BFLOAT16)


def parameter_blocks(
    node: Node, shape: tuple[int, ...], parameter: tuple[int, ...]
) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...], tuple[int, ...]]]:
    """How scales or zero points of shape ``parameter`` meet a tensor of ``shape``.

    Yields:
        The part of the tensor, the part of the parameter, and the shape to give the latter to broadcast.

    Raises:
        ModelGraphError: the parameter's extents do not follow from ``axis`` and ``block_size``.
    """
    axis = node.integer("axis", 1)
    axis += len(shape) if axis < 0 else 0
    block = node.integer("block_size", 0)
    if prod(parameter) == 1 and len(parameter) <= 1:
        yield (), (), ()
        return
    if not 0 <= axis < len(shape):
        raise ModelGraphError(
            f"attribute axis of {node.qualified}", f"a rank {len(shape)} has none", "", node.name
        )
    if block == 0 and parameter == (shape[axis],):
        yield (), (), (shape[axis], *(1,) * (len(shape) - axis - 1))
        return
    count = -(-shape[axis] // block) if block else 0
    if not block or parameter != (*shape[:axis], count, *shape[axis + 1 :]):
        raise ModelGraphError(
            f"scale of {node.qualified}",
            f"shape {list(parameter)} for {list(shape)}, axis {axis} and block_size {block}",
            "Give one scale, one an index of the axis, or one a block",
            node.name,
        )
    before = (slice(None),) * axis
    for number in range(count):
        part = (*before, slice(number * block, (number + 1) * block))
        yield part, (*before, slice(number, number + 1)), (*shape[:axis], 1, *shape[axis + 1 :])


def dequantize_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Zero points in f32; and all of the output in f32 where 16- or 32-bit codes become half floats."""
    source, scale, zeros = query.input(0), query.input(1), query.input(2)
    output = ElementType(query.node.integer("output_dtype", 0)) or scale.dtype
    wide = source.dtype in _WIDE_INTEGERS and output in _HALVES
    sizes = {
        "zeros": 4 * prod(zeros.shape) if zeros.present else 0,
        "work": 4 * prod(source.shape) if wide else 0,
    }
    return lay_out("host-dequantize", sizes)


def dequantize_linear(call: Call) -> None:
    """``y = (x − zero point) · scale`` in f32 with one rounding; y has x's shape and the scale's type."""
    value, scale = call.inputs[0], call.array(1)
    kind = ElementType(call.node.integer("output_dtype", 0))
    dtype = numpy_dtype(kind) if kind else scale.dtype
    assert isinstance(value, np.ndarray | Packed)
    out = call.output(0, value.shape, dtype)
    requirement = dequantize_workspace(query_of(call))
    needs_work = any(region.name == "work" for region in requirement.regions)
    work: Values = region_of(call, requirement, "work", out.shape) if needs_work else out
    if isinstance(value, Packed):
        expand(value.data.reshape(-1).view(np.uint8), byte_table(value.dtype, work.dtype), work)
    else:
        np.copyto(work, value, casting="unsafe")
    zeros = zeros_in_f32(call, 2, requirement)
    compute = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    if zeros is not None:
        for part, own, shape in parameter_blocks(call.node, work.shape, zeros.shape):
            np.subtract(
                work[part], zeros[own].reshape(shape), out=work[part], dtype=compute, casting="unsafe"
            )
    for part, own, shape in parameter_blocks(call.node, work.shape, scale.shape):
        np.multiply(work[part], scale[own].reshape(shape), out=work[part], dtype=compute, casting="unsafe")
    if work is not out:
        np.copyto(out, work, casting="unsafe")


def zeros_in_f32(call: Call, index: int, requirement: WorkspaceRequirement) -> Values | None:
    """Zero points of any type in f32 in the region "zeros", or None where they are left out."""
    value = call.inputs[index] if index < len(call.inputs) else None
    if not isinstance(value, np.ndarray | Packed):
        return None
    zeros = region_of(call, requirement, "zeros", value.shape)
    if isinstance(value, Packed):
        expand(value.data.reshape(-1).view(np.uint8), byte_table(value.dtype, zeros.dtype), zeros)
    else:
        np.copyto(zeros, value, casting="unsafe")
    return zeros


SPECS: tuple[OpSpec, ...] = tuple(
    OpSpec(domain, "DequantizeLinear", dequantize_linear, workspace=dequantize_workspace)
    for domain in ("", "com.microsoft")
)

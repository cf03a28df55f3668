"""Host kernel of BlockQuantizedMatMul: a product with a weight of GGUF blocks, decoded tile by tile."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError, UnsupportedOperatorError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.block_formats import block_format, decode
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.kernels.widening import is_half, widen
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.block_formats import BlockFormat
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

TILE_ELEMENTS = 1 << 17
"""Weights decoded at once."""


def _form(node: Node) -> tuple[BlockFormat, int, int]:
    """Format, K and N."""
    if node.integer("block_layout_version", 1) != 1:
        raise UnsupportedOperatorError(
            f"operator {node.qualified}",
            f"block_layout_version {node.integer('block_layout_version', 1)}",
            "Version 1 is supported",
            node.name,
        )
    return block_format(node.text("format", ""), node.name), node.integer("K", 0), node.integer("N", 0)


def _tile(form: BlockFormat, depth: int, columns: int) -> int:
    return max(1, min(columns, TILE_ELEMENTS // max(form.blocks(depth) * form.elements, 1)))


def block_matmul_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """One tile of decoded weight rows; half types also the widened activation and an f32 result."""
    form, depth, columns = _form(query.node)
    tile = _tile(form, depth, columns)
    half = query.input(0).dtype in (ElementType.FLOAT16, ElementType.BFLOAT16)
    rows = prod(query.input(0).shape[:-1])
    sizes = {
        "weight": 4 * tile * form.blocks(depth) * form.elements,
        "activation": 4 * rows * depth if half else 0,
        "result": 4 * rows * tile if half else 0,
    }
    return lay_out("host-block-product", sizes)


def block_matmul(call: Call) -> None:
    """``Y[..., N] = A[..., K] · decode(B)ᵀ + bias`` in f32, one rounding for half types.

    Raises:
        ModelGraphError: extents that do not fit K, N and the format, or a fourth input.
    """
    form, depth, columns = _form(call.node)
    activation, packed = call.array(0), call.array(1)
    expected = (columns, form.blocks(depth), form.size)
    if packed.shape != expected or activation.ndim == 0 or activation.shape[-1] != depth or call.has(3):
        raise ModelGraphError(
            f"inputs of {call.node.qualified}",
            f"A {list(activation.shape)}, B {list(packed.shape)} for K {depth} and blocks {list(expected)}",
            "Two or three inputs are supported: A, packed B, bias",
            call.node.name,
        )
    out = call.output(0, (*activation.shape[:-1], columns)).reshape(-1, columns)
    requirement = block_matmul_workspace(query_of(call))
    flat: Values = activation.reshape(-1, depth)
    half = is_half(activation.dtype)
    if half:
        wide = region_of(call, requirement, "activation", flat.shape)
        widen(flat, wide)
        flat = wide
    bias = call.optional(2)
    tile = _tile(form, depth, columns)
    for start in range(0, columns, tile):
        part = slice(start, min(start + tile, columns))
        block = out[:, part]
        weight = region_of(call, requirement, "weight", (block.shape[1], form.blocks(depth) * form.elements))
        decode(form, packed[part], weight)
        result = region_of(call, requirement, "result", block.shape) if half else block
        np.matmul(flat, weight[:, :depth].T, out=result)
        if bias is not None:
            np.add(result, bias[part], out=result, dtype=np.float32, casting="unsafe")
        if half:
            np.copyto(block, result, casting="unsafe")


SPECS: tuple[OpSpec, ...] = (
    OpSpec("pkg.nxrt", "BlockQuantizedMatMul", block_matmul, workspace=block_matmul_workspace),
)

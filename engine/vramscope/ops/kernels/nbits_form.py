"""What a MatMulNBits node says about its weight, and how much scratch the host kernel takes for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from vramscope.errors import ModelGraphError, UnsupportedOperatorError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.planned import lay_out
from vramscope.ops.spec import NO_WORKSPACE

if TYPE_CHECKING:
    from vramscope.graph.model import Node
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

FEW_ROWS = 8
"""Up to so many activation rows the codes are multiplied block by block and scaled afterwards."""
ROW_BLOCK = 512
BLOCKWISE_CODES = 1 << 18
DENSE_WEIGHTS = 1 << 19


@dataclass(frozen=True, slots=True)
class NBitsForm:
    """Extents of one MatMulNBits call.

    Attributes:
        rows: activation rows, all leading axes together.
        depth: K.
        columns: N.
        bits: 2, 4 or 8.
        block: codes that share a scale.
        half: the activation is float16 or bfloat16.
        zeros: zero points are given.
        grouped: g_idx is given.
    """

    rows: int
    depth: int
    columns: int
    bits: int
    block: int
    half: bool = False
    zeros: bool = False
    grouped: bool = False

    @property
    def blocks(self) -> int:
        """Blocks along K; the last may be partly filled."""
        return -(-self.depth // self.block)

    @property
    def planes(self) -> int:
        """Codes in one byte."""
        return 8 // self.bits

    @property
    def blob(self) -> int:
        """Bytes of one block."""
        return self.block // self.planes

    @property
    def padded(self) -> int:
        """K with the tail of the last block."""
        return self.blocks * self.block

    @property
    def zero_bytes(self) -> int:
        """Bytes of one row of packed zero points: each row is padded to a byte by itself."""
        return -(-self.blocks * self.bits // 8)

    @property
    def default_zero(self) -> int:
        """The zero point where none is given."""
        return 1 << (self.bits - 1)

    @property
    def blockwise(self) -> bool:
        """Whether codes are multiplied before they are scaled."""
        return self.rows <= FEW_ROWS and not self.grouped

    @property
    def row_block(self) -> int:
        """Activation rows in one product."""
        return min(self.rows, ROW_BLOCK)

    @property
    def tile(self) -> int:
        """Weight rows (columns of the output) in one tile."""
        budget = (
            BLOCKWISE_CODES // (self.blocks * self.blob) if self.blockwise else DENSE_WEIGHTS // self.padded
        )
        return max(1, min(self.columns, budget))

    def sizes(self) -> dict[str, int]:
        """Bytes of every region of the scratch."""
        tile, blocks = self.tile, self.blocks
        wide = 4 * tile * blocks * self.blob
        shared = {
            "codes": tile * blocks * self.blob,
            "scales": 4 * tile * blocks if self.half or self.zeros else 0,
            "zeros": 4 * tile * blocks if self.zeros else 0,
            "bias": 4 * tile if self.half else 0,
        }
        if self.blockwise:
            return shared | {
                "activation": 4 * self.rows * self.padded,
                "coefficients": 4 * self.rows * self.padded,
                "sums": 4 * self.rows * blocks,
                "plane": wide,
                "product": 4 * blocks * tile * self.rows,
                "partial": 4 * blocks * tile * self.rows,
                "result": 4 * tile * self.rows,
            }
        return shared | {
            "activation": 4 * self.row_block * self.padded,
            "weight": wide * self.planes,
            "expanded": wide * self.planes if self.grouped else 0,
            "groups": 8 * self.padded if self.grouped else 0,
            "result": 4 * self.row_block * tile if self.half else 0,
        }


def nbits_form(
    node: Node, activation: tuple[int, ...], *, half: bool, zeros: bool, grouped: bool
) -> NBitsForm:
    """The form of ``node`` for an activation of this shape.

    Raises:
        UnsupportedOperatorError: a prepacked (opaque) weight, or bits other than 2, 4 and 8.
        ModelGraphError: block_size is not a power of two from 16 up, or K is not the activation's last axis.
    """
    depth, columns = node.integer("K", 0), node.integer("N", 0)
    bits, block = node.integer("bits", 4), node.integer("block_size", 0)
    if node.integer("weight_prepacked", 0) != 0:
        raise UnsupportedOperatorError(
            f"the weight of {node.qualified}",
            f"weight_prepacked is {node.integer('weight_prepacked', 0)}: a layout of one GPU's kernel",
            "Export the model with weight_prepacked = 0",
            node.name,
        )
    if bits not in (2, 4, 8):
        raise UnsupportedOperatorError(
            f"attribute bits of {node.qualified}",
            f"{bits} bits a weight",
            "2, 4 and 8 are supported",
            node.name,
        )
    if block < 16 or block & (block - 1):
        raise ModelGraphError(
            f"attribute block_size of {node.qualified}",
            f"{block} is no power of two from 16 up",
            "",
            node.name,
        )
    if not activation or activation[-1] != depth:
        raise ModelGraphError(
            f"input 0 of {node.qualified}", f"its shape is {list(activation)} and K is {depth}", "", node.name
        )
    return NBitsForm(prod(activation[:-1]), depth, columns, bits, block, half, zeros, grouped)


def nbits_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Scratch of the host kernel: one tile of weight rows, whatever the size of the weight.

    Never less than for fewer activation rows, which take the other path.
    """
    activation = query.input(0)
    if 0 in query.input(1).shape or 0 in activation.shape:
        return NO_WORKSPACE
    form = nbits_form(
        query.node,
        activation.shape,
        half=activation.dtype in (ElementType.FLOAT16, ElementType.BFLOAT16),
        zeros=query.input(3).present,
        grouped=query.input(4).present,
    )
    planned = lay_out("host-nbits-product", form.sizes())
    if form.blockwise or form.grouped:
        return planned
    few = lay_out("host-nbits-product", replace(form, rows=FEW_ROWS).sizes())
    return replace(planned, bytes=max(planned.bytes, few.bytes))

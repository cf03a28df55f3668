"""Host kernels over quantised numbers, gathered from their files: one tuple for the operator table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.ops.kernels import (
    block_matmul,
    dequantize,
    gather_quantized,
    integer_convolution,
    integer_products,
    nbits,
    quantize,
)

if TYPE_CHECKING:
    from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = (
    *nbits.SPECS,
    *gather_quantized.SPECS,
    *dequantize.SPECS,
    *quantize.SPECS,
    *integer_products.SPECS,
    *integer_convolution.SPECS,
    *block_matmul.SPECS,
)

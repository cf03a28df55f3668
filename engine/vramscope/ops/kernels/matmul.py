"""Host kernels: dense matrix products: MatMul, Gemm and the fused forms."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

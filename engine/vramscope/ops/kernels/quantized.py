"""Host kernels: quantised weights and activations: MatMulNBits, GatherBlockQuantized, QDQ, integer products."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

"""Host kernels: MultiHeadAttention and Attention of com.microsoft."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

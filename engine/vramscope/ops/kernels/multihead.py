"""Host kernels: MultiHeadAttention and Attention of com.microsoft."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

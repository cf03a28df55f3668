"""Host kernels: convolution, pooling and resizing."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

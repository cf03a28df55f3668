"""Host kernels: the Gather and Scatter families and TensorScatter."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

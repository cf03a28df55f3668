"""Host kernels: layer, RMS, batch, instance and group normalisation, with residuals."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

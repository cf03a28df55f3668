"""Host kernels: mixtures of experts."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

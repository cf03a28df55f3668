"""Host kernels: If, Loop and Scan."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

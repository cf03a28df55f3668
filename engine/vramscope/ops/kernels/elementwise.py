"""Host kernels: arithmetic, comparison and logic with broadcasting."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

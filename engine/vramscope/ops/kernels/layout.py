"""Host kernels: shape and layout: Reshape, Transpose, Concat, Split, Slice, Pad, Expand, Range and their like."""

from __future__ import annotations

from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

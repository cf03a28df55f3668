"""Host kernels: shape and layout, from Reshape and Concat to Pad and Range."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

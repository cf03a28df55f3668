"""Host kernels: reductions, softmax, cumulative sums, TopK and other axis-wise operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

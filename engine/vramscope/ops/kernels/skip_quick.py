"""The decode step of a residual RMS norm.

One contiguous float32 row, its arrays in hand from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call, Tensor


@dataclass(frozen=True, slots=True)
class QuickSkip:
    """SkipSimplifiedLayerNormalization of one row: sum kept in ``total``, its norm in ``out``."""

    inputs: tuple[Tensor | None, ...]
    placed: tuple[int, ...]
    source: Array
    skip: Array
    gamma: Array
    total: Array
    out: Array
    epsilon: float

    def fits(self, call: Call) -> bool:
        """Whether the call still has the arrays that are in hand."""
        return self.inputs is call.inputs and self.placed == call.places()

    def run(self) -> None:
        """The same arithmetic, in the same order, as the general kernel's."""
        total = self.total
        np.add(self.source, self.skip, out=total)
        root = sqrt(float(np.dot(total, total)) / total.shape[0] + self.epsilon)
        np.multiply(total, 1.0 / root if root else inf, out=self.out)
        np.multiply(self.out, self.gamma, out=self.out)


def quick_skip(call: Call) -> QuickSkip | None:
    """The step in hand, or None where it is more than one plain row."""
    if call.has(3) or call.wants(1) or call.wants(2):
        return None
    source, skip, gamma, out = call.array(0), call.array(1), call.array(2), call.placed[0]
    kept = call.placed[3] if call.wants(3) else out
    arrays = [item for item in (source, skip, gamma, out, kept) if isinstance(item, np.ndarray)]
    plain = all(item.dtype == np.float32 and item.flags.c_contiguous for item in arrays)
    if len(arrays) < 5 or not plain or any(item.size != source.shape[-1] for item in arrays):
        return None
    flat = [item.reshape(-1) for item in arrays]
    return QuickSkip(
        inputs=call.inputs,
        placed=call.places(),
        source=flat[0],
        skip=flat[1],
        gamma=flat[2],
        total=flat[4],
        out=flat[3],
        epsilon=call.node.number("epsilon", 1e-12),
    )

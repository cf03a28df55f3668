"""Which experts a token goes to, with which weight: the routing of every mixture operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vramscope.ops.kernels.planned import Values


def total_order(logits: Values) -> Values:
    """Keys that sort f32 like IEEE's total order: −NaN, −inf, …, −0, +0, …, +inf, +NaN."""
    bits = np.ascontiguousarray(logits, np.float32).view(np.int32).astype(np.int64)
    keys: Values = np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)
    return keys


def route(logits: Values, weights: Values | None, count: int, *, normalize: bool) -> tuple[Values, Values]:
    """The ``count`` experts of every row and their weights, both [rows, count].

    Args:
        logits: [rows, experts], f32: the largest are chosen, the lower index first among equals.
        weights: [rows, experts] to gather from instead of the softmax of ``logits``, or None.
        count: experts a row.
        normalize: divide by the sum over the chosen ones (a sum of 0 gives 0) instead of over all.
    """
    chosen: Values = np.argsort(-total_order(logits), axis=1, kind="stable")[:, :count]
    if weights is not None:
        gathered: Values = np.take_along_axis(weights.astype(np.float32), chosen, axis=1)
        if not normalize:
            return chosen, gathered
        sums = gathered.sum(axis=1, keepdims=True)
        return chosen, np.divide(gathered, sums, out=np.zeros_like(gathered), where=sums != 0)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    picked: Values = np.take_along_axis(shifted, chosen, axis=1)
    whole = picked if normalize else shifted
    return chosen, picked / whole.sum(axis=1, keepdims=True)

"""The masks of com.microsoft's attention operators as integers [B, N, S, total], 0 where a key is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels.multihead_core import wrong

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.multihead_core import HeadForm


def soft_mask(call: Call, index: int, form: HeadForm, held: int) -> tuple[Array, ...]:
    """Input ``index`` (int32) in whatever form it has; () where it is left out.

    Forms: [B] ends; [2B] ends, then starts; [3B + 2] lengths, then offsets; [B, keys]; [B, S, total];
    [B, 1, most, most]. A mask of the new keys alone leaves the past visible.

    Raises:
        ModelGraphError: another shape.
    """
    mask = call.optional(index)
    if mask is None:
        return ()
    whole = (form.batch, form.heads, form.queries, held + form.keys)
    if mask.ndim == 1:
        rows = _from_ends(mask, form.batch, whole[3])
    elif mask.ndim == 2 and mask.shape[1] == form.keys != whole[3]:
        rows = np.ones((form.batch, 1, 1, whole[3]), np.int32)
        rows[:, 0, 0, held:] = mask
    elif mask.ndim == 2:
        rows = mask[:, None, None]
    elif mask.ndim == 3:
        rows = mask[:, None]
    else:
        rows = mask[:, :, held : held + form.queries, : whole[3]]
    if rows is None or rows.shape[3] != whole[3] or rows.shape[0] not in (1, form.batch):
        raise wrong(call.node, f"the mask {mask.shape} does not fit {form.batch} entries of {whole[3]} keys")
    return (np.broadcast_to(rows, whole),)


def _from_ends(mask: Array, batch: int, total: int) -> Array | None:
    if mask.size not in (batch, 2 * batch, 3 * batch + 2):
        return None
    columns = np.arange(total)
    ends = mask[:batch].astype(np.int64)[:, None]
    seen = columns < ends
    if mask.size == 2 * batch:
        seen &= columns >= mask[batch:].astype(np.int64)[:, None]
    return seen[:, None, None].astype(np.int8)


def additive_bias(call: Call, index: int, form: HeadForm, held: int) -> tuple[Array, ...]:
    """Input ``index`` [B or 1, N or 1, S, total], added to the scores; () where it is left out.

    Raises:
        ModelGraphError: it does not broadcast.
    """
    bias = call.optional(index)
    if bias is None:
        return ()
    whole = (bias.shape[0], form.heads, form.queries, held + form.keys)
    if bias.ndim != 4 or bias.shape[0] not in (1, form.batch) or bias.shape[3] < whole[3]:
        raise wrong(call.node, f"attention_bias {bias.shape} does not broadcast to {whole}")
    return (np.broadcast_to(bias[..., : whole[3]], whole),)

"""The plain decode step of GroupQueryAttention.

One new float32 row a sequence, cache in place, views in hand.

Everything that does not change from step to step is taken apart once; a step then costs some twenty NumPy
calls. Whatever is not plain (biases, sinks, soft caps, quantised or sliding caches, other types) is the
general kernel's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels.grouped_form import attention_scale
from vramscope.ops.kernels.storage import same_buffer

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.grouped_form import GroupedForm
    from vramscope.ops.kernels.tiles import Scratch

_UNUSUAL_INPUTS = (9, 10, 11, 12, 13, 14, 15, 16)
_UNUSUAL_ATTRIBUTES = (
    "softcap",
    "qk_output",
    "sliding_window_cache",
    "rotary_interleaved",
    "kv_cache_bit_width",
)


@dataclass(frozen=True, slots=True)
class _Row:
    """One sequence of the batch.

    Its new query, key and value as halves of heads, its cache and its output.
    """

    query: Array
    """[heads, D]; key and value: [kv, D]; views of the packed or separate inputs."""
    key: Array
    value: Array
    keys: Array
    """The key cache as [kv, D, C], for the product with queries."""
    key_rows: Array
    """The key cache as it lies, [kv, C, D]; values likewise."""
    values: Array
    output: Array
    """[kv, group, D]."""


@dataclass(frozen=True, slots=True)
class QuickDecode:
    """A decode step whose arrays are in hand."""

    rows: tuple[_Row, ...]
    lengths: Array
    extent: Array
    capacity: int
    cosines: Array | None
    sines: Array | None
    window: int
    scale: np.float32
    turned: Array
    """[heads, D]: the rotated, scaled query."""
    spare: Array
    """[heads, D / 2]: products while rotating."""
    scores: Array
    """[kv, group, C]."""

    def run(self) -> bool:
        """Runs the step; False when a length is out of bounds, which the general kernel explains."""
        lengths = self.lengths.tolist()
        limit = self.capacity if self.cosines is None else min(self.capacity, self.cosines.shape[0])
        if min(lengths) < 0 or max(lengths) >= min(limit, int(self.extent.reshape(-1)[0])):
            return False
        for row, position in zip(self.rows, lengths, strict=True):
            self._attend(row, position)
        return True

    def _attend(self, row: _Row, position: int) -> None:
        turned = self.turned
        if self.cosines is None or self.sines is None:
            np.multiply(row.query, self.scale, out=turned)
            row.key_rows[:, position] = row.key
        else:
            cosine, sine = self.cosines[position], self.sines[position]
            _rotate(row.query, turned, cosine, sine, self.spare)
            np.multiply(turned, self.scale, out=turned)
            _rotate(row.key, row.key_rows[:, position], cosine, sine, self.spare)
        row.values[:, position] = row.value
        first = max(position + 1 - self.window, 0) if self.window else 0
        kv_heads, group = self.scores.shape[:2]
        scores = self.scores[..., : position + 1 - first]
        np.matmul(turned.reshape(kv_heads, group, -1), row.keys[:, :, first : position + 1], out=scores)
        np.subtract(scores, np.maximum.reduce(scores, axis=2, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        total = np.add.reduce(scores, axis=2, keepdims=True)
        np.matmul(scores, row.values[:, first : position + 1], out=row.output)
        np.divide(row.output, total, out=row.output)


def _rotate(source: Array, target: Array, cosine: Array, sine: Array, spare: Array) -> None:
    """Half-split rotation of [heads, D] by one position's angles; channels beyond them pass through."""
    half = cosine.shape[0]
    low, high = source[:, :half], source[:, half : 2 * half]
    product = spare[: source.shape[0], :half]
    np.multiply(low, cosine, out=target[:, :half])
    np.multiply(high, sine, out=product)
    np.subtract(target[:, :half], product, out=target[:, :half])
    np.multiply(high, cosine, out=target[:, half : 2 * half])
    np.multiply(low, sine, out=product)
    np.add(target[:, half : 2 * half], product, out=target[:, half : 2 * half])
    if 2 * half < source.shape[1]:
        target[:, 2 * half :] = source[:, 2 * half :]


def quick_decode(call: Call, form: GroupedForm, scratch: Scratch) -> QuickDecode | None:
    """The step in hand, or None where it is not plain."""
    if form.positions != 1 or form.bits or form.sliding or len(call.placed) < 3 or not _plain(call):
        return None
    past, present = (call.array(3), call.array(4)), (call.placed[1], call.placed[2])
    arrays = [item for item in (*past, *present, call.placed[0]) if isinstance(item, np.ndarray)]
    if len(arrays) < 5 or not _in_place(call, arrays):
        return None
    output = arrays[4]
    group, half = form.heads // form.kv_heads, form.width // 2
    need = form.heads * form.past
    if scratch.scores.size < need or scratch.queries.size < form.heads * form.width:
        return None
    if scratch.outputs.size < form.heads * half or output.shape != (form.batch, 1, form.heads * form.width):
        return None
    rotary = call.node.integer("do_rotary", 0) != 0
    return QuickDecode(
        rows=tuple(_row(call, form, arrays, entry) for entry in range(form.batch)),
        lengths=call.array(5).reshape(-1),
        extent=call.array(6),
        capacity=form.past,
        cosines=call.array(7) if rotary else None,
        sines=call.array(8) if rotary else None,
        window=form.window,
        scale=np.float32(attention_scale(call.node, form.width)),
        turned=scratch.queries[: form.heads * form.width].reshape(form.heads, form.width),
        spare=scratch.outputs[: form.heads * half].reshape(form.heads, half),
        scores=scratch.scores[:need].reshape(form.kv_heads, group, form.past),
    )


def _plain(call: Call) -> bool:
    node = call.node
    if any(call.has(index) for index in _UNUSUAL_INPUTS) or not (call.has(3) and call.has(4)):
        return False
    if any(node.attributes.get(name) for name in _UNUSUAL_ATTRIBUTES):
        return False
    if node.integer("smooth_softmax", -1) > 0 or node.integer("causal", 1) == 0:
        return False
    if node.integer("do_rotary", 0) and not (call.has(7) and call.has(8)):
        return False
    floats = [call.array(index).dtype for index in (0, 3, 4) if call.has(index)]
    rotary = [call.array(index).dtype for index in (7, 8) if call.has(index)]
    return all(kind == np.float32 for kind in (*floats, *rotary))


def _in_place(call: Call, arrays: list[Array]) -> bool:
    """Whether past and present are one buffer at one extent, for keys and for values."""
    pairs = ((arrays[0], arrays[2]), (arrays[1], arrays[3]))
    return all(
        one.shape == two.shape and one.ndim == 4 and same_buffer(one, two, call.node) for one, two in pairs
    )


def _row(call: Call, form: GroupedForm, arrays: list[Array], entry: int) -> _Row:
    if form.packed:
        packed = call.array(0)[entry].reshape(-1, form.width)
        query, key = packed[: form.heads], packed[form.heads : form.heads + form.kv_heads]
        value = packed[form.heads + form.kv_heads :]
    else:
        query, key, value = (call.array(index)[entry].reshape(-1, form.width) for index in range(3))
    keys, values = arrays[0][entry], arrays[1][entry]
    output = arrays[4][entry].reshape(form.kv_heads, form.heads // form.kv_heads, form.width)
    return _Row(query, key, value, keys.transpose(0, 2, 1), keys, values, output)

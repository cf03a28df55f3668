"""Inputs of GroupQueryAttention that are read on the host: lengths, positions, norms, sinks, cache scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import BindingError
from vramscope.ops.kernels.grouped_form import wrong
from vramscope.ops.kernels.rotation import Rotation, check_positions, rotate

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.attend import Prepare
    from vramscope.ops.kernels.grouped_form import GroupedForm


@dataclass(frozen=True, slots=True)
class Lengths:
    """Per batch entry: positions held after the step and how many of them are new; the batch's maximum."""

    total: tuple[int, ...]
    new: tuple[int, ...]
    extent: int


def read_lengths(call: Call, form: GroupedForm) -> Lengths:
    """Lengths from seqlens_k (5), total_sequence_length (6) and query_seqlens (16).

    Raises:
        BindingError: a length that is negative, or more new positions than there are.
    """
    total = tuple(int(item) + 1 for item in call.array(5).reshape(-1).tolist())
    extent = int(call.array(6).reshape(-1)[0])
    if len(total) != form.batch:
        raise wrong(call.node, f"seqlens_k has {len(total)} entries for a batch of {form.batch}")
    given = call.optional(16)
    new = tuple(min(form.positions, length) for length in total)
    if given is not None:
        new = tuple(int(item) for item in given.reshape(-1).tolist())
    for length, count in zip(total, new, strict=True):
        if length < 0 or not 0 <= count <= min(form.positions, length) or length > extent:
            raise BindingError(
                f"lengths of {call.node.qualified}",
                f"{length} positions with {count} new ones, {form.positions} queries, a maximum of {extent}",
                "seqlens_k is the valid length minus one; total_sequence_length is at least that length",
                call.node.name,
            )
    return Lengths(total, new, extent)


def preparation(
    call: Call, form: GroupedForm, lengths: Lengths, entry: int
) -> tuple[Prepare | None, Prepare | None]:
    """What happens to the entry's queries and to its new keys: RMS norm per head, then rotation."""
    rotation = _rotation(call, form, lengths, entry)
    norms = (Norm.read(call, 14, "q_norm_epsilon"), Norm.read(call, 15, "k_norm_epsilon"))
    query, key = (Preparation(norm, rotation) if norm or rotation else None for norm in norms)
    return query, key


@dataclass(frozen=True, slots=True)
class Norm:
    """Weight [D] and epsilon of a root-mean-square norm over a head."""

    weight: Array
    epsilon: float

    @classmethod
    def read(cls, call: Call, index: int, attribute: str) -> Norm | None:
        """The norm whose weight is input ``index``; None where it is left out."""
        weight = call.optional(index)
        if weight is None:
            return None
        return cls(weight, call.node.number(attribute, call.node.number("qk_norm_epsilon", 1e-6)))


@dataclass(frozen=True, slots=True)
class Preparation:
    """Root-mean-square norm over the head, then rotation from channel ``first`` on, of a tile in place."""

    norm: Norm | None
    rotation: Rotation | None
    first: int = 0

    def __call__(self, tile: Array, head: int, start: int, spare: Array) -> None:
        """As :class:`~vramscope.ops.kernels.attend.Prepare` says."""
        del head
        if self.norm is not None:
            squares = np.multiply(tile, tile, out=spare[: tile.size].reshape(tile.shape))
            mean = np.mean(squares, axis=-1, keepdims=True)
            np.divide(tile, np.sqrt(mean + mean.dtype.type(self.norm.epsilon)), out=tile)
            np.multiply(tile, self.norm.weight, out=tile, casting="unsafe")
        if self.rotation is not None:
            rotate(tile[..., self.first :], self.rotation, start, spare)


def _rotation(call: Call, form: GroupedForm, lengths: Lengths, entry: int) -> Rotation | None:
    if call.node.integer("do_rotary", 0) == 0:
        return None
    if not (call.has(7) and call.has(8)):
        raise wrong(call.node, "do_rotary needs cos_cache and sin_cache")
    cosines, sines = call.array(7), call.array(8)
    if 2 * cosines.shape[1] > form.width:
        raise wrong(call.node, f"the cos cache is {cosines.shape[1]} wide, the head only {form.width}")
    count = lengths.new[entry]
    positions: Array | int = lengths.total[entry] - count
    given = call.optional(9)
    if given is not None:
        positions = _collapse(given.reshape(form.batch, -1)[entry, :count])
    if count:
        lowest, highest = _range(positions, count)
        check_positions(lowest, highest, cosines.shape[0], call.node)
    return Rotation(cosines, sines, positions, call.node.integer("rotary_interleaved", 0) != 0)


def _collapse(positions: Array) -> Array | int:
    """One position becomes its number, which needs no gather."""
    return int(positions[0]) if positions.size == 1 else positions


def _range(positions: Array | int, count: int) -> tuple[int, int]:
    if isinstance(positions, int):
        return positions, positions + count - 1
    return int(np.min(positions)), int(np.max(positions))


def sink(call: Call, form: GroupedForm) -> Array | None:
    """Logits that only enlarge the denominator, [kv, group, 1, 1]; smooth_softmax is a sink of zeros."""
    given = call.optional(11)
    if given is None and call.node.integer("smooth_softmax", -1) != 1:
        return None
    flat = np.zeros(form.heads, np.float32) if given is None else given.astype(np.float32)
    return flat.reshape(form.kv_heads, -1, 1, 1)


def cache_scale(call: Call, form: GroupedForm, index: int) -> Array:
    """k_scale (12) or v_scale (13) as [1 or KV, 1, 1 or D].

    Raises:
        ModelGraphError: a quantised cache without its scale, or one of another size.
    """
    scale = call.optional(index)
    if scale is None:
        raise wrong(call.node, f"a quantised cache needs input {index} (k_scale 12, v_scale 13)")
    if scale.size == 1:
        return scale.reshape(1, 1, 1)
    if scale.size != form.kv_heads * form.width:
        raise wrong(call.node, f"input {index} has {scale.size} scales for {form.kv_heads}×{form.width}")
    return scale.reshape(form.kv_heads, 1, form.width)


def overflow(node: Node, length: int, rows: int) -> BindingError:
    """The cache is too small for the step."""
    return BindingError(
        f"the cache of {node.qualified}",
        f"{length:,} positions are to be held and the buffer has {rows:,} rows",
        "Bind a larger KV cache, or stop at its capacity",
        node.name,
    )

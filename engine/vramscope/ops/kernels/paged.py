"""Host kernel: PagedAttention over a pool of cache blocks that all sequences share through a block table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import numpy_dtype
from vramscope.ops.kernels.attend import Problem, Segment, attend
from vramscope.ops.kernels.grouped import grouped
from vramscope.ops.kernels.grouped_form import attention_scale, wrong
from vramscope.ops.kernels.grouped_inputs import Norm, Preparation
from vramscope.ops.kernels.paged_form import CACHE_INPUTS, SHAPED_INPUTS, cache_bits, paged_form
from vramscope.ops.kernels.paged_places import Places, find_places
from vramscope.ops.kernels.planned import lay_out
from vramscope.ops.kernels.rotation import Rotation, check_positions
from vramscope.ops.kernels.storage import Picked, Stored, same_buffer, write_rows
from vramscope.ops.kernels.tiles import AttentionExtent, take_scratch
from vramscope.ops.spec import Lifetime, OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.paged_form import PagedForm
    from vramscope.ops.kernels.storage import Indices
    from vramscope.ops.kernels.tiles import Scratch
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

POOL_ROWS = 256
"""Rows of the pool that are picked or stored together at most."""


def _sizes(form: PagedForm, itemsize: int) -> tuple[tuple[str, int], ...]:
    """Regions of the node's scratch: tiles, and room for rows on their way out of the pool or into it."""
    width = max(form.width, form.value_width)
    extent = AttentionExtent(form.heads, form.kv_heads, form.tokens, form.capacity, width, widen=True)
    rows = min(POOL_ROWS, max(form.capacity, form.tokens))
    return (*extent.sizes(), ("pool rows", rows * form.kv_heads * form.width * itemsize))


def paged_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Query, output and score tiles; widened keys or values; rows picked out of the pool.

    Keys are counted to the block table's full width, whatever the valid lengths are.
    """
    shapes = [item.shape if item.present else None for item in map(query.input, range(SHAPED_INPUTS))]
    form = paged_form(query.node, shapes)
    itemsize = numpy_dtype(query.input(3).dtype).itemsize
    return lay_out("paged attention tiles", dict(_sizes(form, itemsize)), Lifetime.SESSION_PERSISTENT)


def paged_attention(call: Call) -> None:
    """PagedAttention: store the new keys and values in the pool, then attend; see operators 2.11.

    Token ``t`` of sequence ``b`` is at position ``past[b] + t − start[b]``; its row of the pool is that of
    the block table, or ``slot_mapping``'s. The caches are written in place. Positions without a block are
    neither written nor seen; tokens behind the last sequence give zeros.

    Raises:
        BindingError: starts, lengths or slots that the buffers do not hold.
        ModelGraphError: an attribute or a shape that the operator does not allow.
        UnsupportedOperatorError: a cache of elements that share bytes, or of 8-bit floats.
    """
    form = paged_form(call.node, [call.array(i).shape if call.has(i) else None for i in range(SHAPED_INPUTS)])
    places = find_places(call, form)
    itemsize = call.array(3).dtype.itemsize
    scratch = take_scratch(call, _sizes(form, itemsize), np.dtype(np.float32))
    work = _Work(call, form, places, scratch, _caches(call, form))
    output = call.output(0, (form.tokens, form.heads * form.value_width))
    output[places.end :] = 0
    with np.errstate(all="ignore"):
        _store(work)
        for entry in range(form.batch):
            _attend_entry(work, entry, output)


@dataclass(frozen=True, slots=True)
class _Work:
    """What every sequence of one call shares; ``caches``: the pools of keys and, unless latent, of values."""

    call: Call
    form: PagedForm
    places: Places
    scratch: Scratch
    caches: tuple[Stored, ...]

    @property
    def room(self) -> Array:
        """Room for rows of the pool, in its type."""
        return self.scratch.bytes["pool rows"].view(self.caches[0].data.dtype)


def _caches(call: Call, form: PagedForm) -> tuple[Stored, ...]:
    """The pools as [rows, kv heads, stored width], each the output's memory where that is wanted."""
    found = []
    for index in range(1 if form.latent else 2):
        cache = call.array(CACHE_INPUTS[index])
        if call.wants(index + 1):
            target = call.output(index + 1, cache.shape, cache.dtype)
            if not same_buffer(cache, target, call.node):
                np.copyto(target, cache)
            cache = target
        bits = cache_bits(call.node, index, cache.dtype.itemsize)
        scale = _cache_scale(call, form, 14 + index) if bits else None
        found.append(Stored(cache.reshape(form.rows, form.kv_heads, cache.shape[3]), bits, scale))
    return tuple(found)


def _cache_scale(call: Call, form: PagedForm, index: int) -> Array:
    """k_scale (14) or v_scale (15) as [1 or KV, 1, 1 or D]."""
    scale = call.optional(index)
    if scale is None or scale.size not in (1, form.kv_heads * form.width):
        raise wrong(call.node, f"a quantised cache needs input {index}: 1 or kv heads × head size scales")
    return scale.reshape((1, 1, 1) if scale.size == 1 else (form.kv_heads, 1, form.width))


def _parts(work: _Work) -> tuple[Array, Array, Array]:
    """Queries [tokens, heads, D], new keys and values [tokens, kv, D], as views."""
    call, form = work.call, work.form
    if form.packed:
        rows = call.array(0).reshape(form.tokens, -1, form.width)
        keys, values = form.heads, form.heads + form.kv_heads
        return rows[:, :keys], rows[:, keys:values], rows[:, values:]
    split = [
        call.array(index).reshape(form.tokens, -1, form.width)
        for index in ((0, 1) if form.latent else (0, 1, 2))
    ]
    return split[0], split[1], split[-1]


def _preparation(work: _Work, norm: int, positions: Array | int) -> Preparation | None:
    """RMS norm by input ``norm`` and rotation at ``positions``; None where a node has neither."""
    call = work.call
    weight = Norm.read(call, norm, "qk_norm_epsilon")
    if call.node.integer("do_rotary", 0) == 0:
        return None if weight is None else Preparation(weight, None)
    if not (call.has(8) and call.has(9)):
        raise wrong(call.node, "do_rotary needs cos_cache and sin_cache")
    cosines, first = call.array(8), work.form.rotary_offset
    if first + 2 * cosines.shape[1] > work.form.width:
        why = (
            f"the cos cache is {cosines.shape[1]} wide from channel {first}, the head only {work.form.width}"
        )
        raise wrong(call.node, why)
    interleaved = call.node.integer("rotary_interleaved", 0) != 0
    return Preparation(weight, Rotation(cosines, call.array(9), positions, interleaved), first)


def _store(work: _Work) -> None:
    """The new keys, normed and rotated, and the new values into their rows of the pool."""
    _, keys, values = _parts(work)
    positions = work.places.positions
    prepare = _preparation(work, 13, positions)
    if prepare is not None and prepare.rotation is not None and positions.size:
        rows = prepare.rotation.cos.shape[0]
        check_positions(int(positions.min()), int(positions.max()), rows, work.call.node)
    _store_rows(work, work.caches[0], keys, prepare)
    if not work.form.latent:
        _store_rows(work, work.caches[1], values, None)


def _store_rows(work: _Work, cache: Stored, fresh: Array, prepare: Preparation | None) -> None:
    slots = work.places.slots
    if prepare is None and cache.bits == 0:
        kept = np.flatnonzero(np.greater_equal(slots, 0))
        cache.data[slots[kept]] = fresh[kept]
        return
    heads, width = fresh.shape[1:]
    scratch, room = work.scratch, work.room
    step = max(1, min(scratch.rows(width) // heads, room.size // (heads * width)))
    for start in range(0, slots.size, step):
        rows = slots[start : start + step]
        part = fresh[start : start + rows.size].swapaxes(0, 1)
        tile = scratch.queries[: part.size].reshape(part.shape)
        np.copyto(tile, part, casting="unsafe")
        if prepare is not None:
            prepare(tile, 0, start, scratch.outputs)
        stored = room[: part.size].reshape(part.shape)
        write_rows(Stored(stored, cache.bits, cache.scale), 0, tile)
        kept = np.flatnonzero(np.greater_equal(rows, 0))
        cache.data[rows[kept]] = stored[:, kept].swapaxes(0, 1)


def _attend_entry(work: _Work, entry: int, output: Array) -> None:
    form, call = work.form, work.call
    span = work.places.span(entry)
    past, count = work.places.past[entry], len(span)
    if count == 0:
        return
    tokens = slice(span.start, span.stop)
    target = output[tokens].reshape(count, form.heads, form.value_width)
    segment, visible = _segment(work, entry, past + count)
    hidden = np.broadcast_to(visible, (form.kv_heads, form.heads // form.kv_heads, count, past + count))
    sink = call.optional(11)
    problem = Problem(
        queries=grouped(_parts(work)[0][tokens], form.kv_heads),
        segments=(segment,),
        keys=past + count,
        output=grouped(target, form.kv_heads),
        scale=attention_scale(call.node, form.width),
        stop=past + count,
        offset=past,
        left=form.window - 1 if form.window else None,
        right=0 if call.node.integer("is_causal", 1) else None,
        softcap=call.node.number("softcap", 0.0),
        biases=() if visible.all() else (hidden,),
        sink=None if sink is None else sink.astype(np.float32).reshape(form.kv_heads, -1, 1, 1),
        prepare=_preparation(work, 12, past),
    )
    attend(problem, work.scratch)


def _segment(work: _Work, entry: int, total: int) -> tuple[Segment, Array]:
    """All positions of one sequence: as they lie where its blocks follow each other, else picked.

    And whether each position has a block.
    """
    form, caches = work.form, work.caches
    rows = work.places.rows(entry, total)
    visible = np.greater_equal(rows, 0)
    straight = bool(visible.all()) and int(rows[-1]) - int(rows[0]) == total - 1
    if straight and bool(np.all(np.diff(rows) == 1)):
        first = int(rows[0])
        lie = [cache.data[first : first + total].swapaxes(0, 1) for cache in caches]
        keys = Stored(lie[0], caches[0].bits, caches[0].scale)
        values = Stored(lie[-1][..., : _stored_width(form, lie[-1])], caches[-1].bits, caches[-1].scale)
        return Segment(keys, values, total), visible
    keys, values = (_picked(work, index, rows) for index in (0, -1))
    return Segment(keys, values, total), visible


def _picked(work: _Work, index: int, rows: Indices) -> Stored:
    """Rows of the first pool as keys, or of the last one as values."""
    cache = work.caches[index]
    width = cache.data.shape[2] if index == 0 else _stored_width(work.form, cache.data)
    return Stored(cache.data, cache.bits, cache.scale, Picked(rows, work.room, width))


def _stored_width(form: PagedForm, rows: Array) -> int:
    """Elements of a stored row that are a value."""
    return form.value_width if form.latent else rows.shape[-1]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "com.microsoft",
        "PagedAttention",
        paged_attention,
        paged_workspace,
        aliases=((1, 3), (2, 4)),
        host_inputs=(16,),
    ),
)

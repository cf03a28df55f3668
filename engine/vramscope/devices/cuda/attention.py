"""CUDA builders of attention: GroupQueryAttention, the default domain's Attention, RotaryEmbedding."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.attend_cache import Append, Move
from vramscope.devices.cuda.attend_decode import Fresh, cluster_splits, decode_launch
from vramscope.devices.cuda.attend_form import (
    FIXED,
    MASK_ROWS,
    MOST_ROWS,
    SEQLENS,
    VALID_ROWS,
    Attention,
    Lengths,
    Mask,
    Rotary,
    Rows,
    attend_launches,
    attend_source,
    heads_of,
)
from vramscope.devices.cuda.launch import Launch, pointer
from vramscope.devices.cuda.layout import flat_grid
from vramscope.devices.cuda.strided import THREADS
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.cuda_workspace import partial_bytes, splits_of
from vramscope.ops.kernels import attention_form as default_form
from vramscope.ops.kernels.grouped_form import attention_scale, grouped_form
from vramscope.units import align

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.work import Builder, Work
    from vramscope.ops.kernels.attention_form import AttentionForm
    from vramscope.ops.kernels.grouped_form import GroupedForm

_CONTRIB = "com.microsoft"


@dataclass(frozen=True, slots=True)
class _Cache:
    """Where keys and values are attended to, and the launches before and after that."""

    keys: Rows
    values: Rows
    before: list[Launch]
    after: list[Launch]


def _shapes(work: Work, count: int) -> list[tuple[int, ...] | None]:
    return [work.shape(index) if work.has(index) else None for index in range(count)]


def _grouped(work: Work) -> list[Launch]:
    """GroupQueryAttention; lengths are read on the card, total_sequence_length is not needed there."""
    form = grouped_form(work.node, _shapes(work, 5))
    if form.bits or work.wants(3):
        raise NoKernelError("its cache is quantised, or it hands out scores")
    query = work.input(0)
    if work.has(3) and work.input(3).dtype != query.dtype:
        raise NoKernelError("its cache has another type than its query")
    lengths = Lengths(
        SEQLENS,
        _int32(work, 5),
        _int32(work, 16) if work.has(16) else None,
        form.positions,
        form.past + form.positions,
        fresh=form.positions,
        capacity=form.past if form.sliding else 0,
        window=form.window if form.sliding else 0,
    )
    parts = _grouped_parts(work, form)
    rotary = _grouped_rotary(work, form)
    splits = cluster_splits(form.past) if _one_launch(work, form) else 0
    if splits:
        keys, values = (Rows.of(work.output(index)) for index in (1, 2))
        fresh = Fresh(parts[1], parts[2], work.optional(15), _epsilon(work, "k_norm_epsilon"))
        whole = _grouped_attention(work, form, (parts[0], keys, values), lengths, rotary)
        return [decode_launch(replace(whole, splits=splits), fresh)]
    cache = _grouped_cache(work, form, lengths, (parts[1], parts[2], rotary))
    capacity = max(form.past, form.past + form.positions)
    splits = splits_of(capacity) if form.positions == 1 else 1
    rows = form.batch * form.heads
    size = partial_bytes(rows, splits, form.width)
    whole = _grouped_attention(work, form, (parts[0], cache.keys, cache.values), lengths, rotary)
    partial = work.scratch(size, _window_bytes(work, form)) if size else 0
    attention = replace(whole, splits=splits, partial=partial)
    return [*cache.before, *attend_launches(attention), *cache.after]


def _one_launch(work: Work, form: GroupedForm) -> bool:
    """Whether append and attention of one new token can be one launch: the present is the past's buffer."""
    if not (work.mirror.clusters and work.wants(1) and work.wants(2) and work.has(3)):
        return False
    shared = all(work.output(i).address == work.input(i + 2).address for i in (1, 2))
    few = form.positions == 1 and form.heads // form.kv_heads <= MOST_ROWS
    return shared and few and not form.sliding and not work.has(16)


def _grouped_attention(
    work: Work, form: GroupedForm, where: tuple[Rows, Rows, Rows], lengths: Lengths, rotary: Rotary
) -> Attention:
    output = work.output(0, (form.batch, form.positions, form.heads * form.width))
    return Attention(
        work.input(0),
        *(form.batch, form.positions, form.heads, form.kv_heads, form.width),
        *(*where, Rows.of(heads_of(output, form.heads))),
        lengths,
        rotary,
        mask=_bias(work, 10, work.input(0)),
        sink=work.optional(11),
        smooth=not work.has(11) and work.node.integer("smooth_softmax", -1) == 1,
        norm=work.optional(14),
        left=form.window - 1 if form.window else -1,
        right=0 if work.node.integer("causal", 1) else -1,
        scale=attention_scale(work.node, form.width),
        softcap=work.node.number("softcap", 0.0),
        epsilon=_epsilon(work, "q_norm_epsilon"),
    )


def _int32(work: Work, index: int) -> DeviceArray:
    value = work.input(index)
    if value.dtype != np.int32:
        raise NoKernelError(f"input {index} is {value.dtype} and not int32")
    return value


def _epsilon(work: Work, name: str) -> float:
    return work.node.number(name, work.node.number("qk_norm_epsilon", 1e-6))


def _grouped_parts(work: Work, form: GroupedForm) -> tuple[Rows, Rows, Rows]:
    """Query, key and value rows; packed ones follow each other in every token's row."""
    if not form.packed:
        heads = (form.heads, form.kv_heads, form.kv_heads)
        found = [Rows.of(heads_of(work.input(i), count)) for i, count in enumerate(heads)]
        return found[0], found[1], found[2]
    every = heads_of(work.input(0), form.heads + 2 * form.kv_heads)
    ends = (form.heads, form.heads + form.kv_heads)
    return Rows.of(every[:, : ends[0]]), Rows.of(every[:, ends[0] : ends[1]]), Rows.of(every[:, ends[1] :])


def _grouped_rotary(work: Work, form: GroupedForm) -> Rotary:
    if work.node.integer("do_rotary", 0) == 0:
        return Rotary()
    cos, sin = work.input(7), work.input(8)
    if not (cos.contiguous and sin.contiguous) or cos.dtype != work.input(0).dtype or cos.ndim != 2:
        raise NoKernelError("its cos and sin caches are strided or of another type")
    if 2 * cos.shape[1] > form.width:
        raise NoKernelError(f"its cos cache is {cos.shape[1]} wide, the head only {form.width}")
    positions = work.optional(9)
    if positions is not None and (
        positions.dtype != np.int64 or positions.size != form.batch * form.positions
    ):
        raise NoKernelError("its position_ids are not int64 [B, S]")
    return Rotary(cos, sin, positions, interleaved=work.node.integer("rotary_interleaved", 0) != 0)


def _bias(work: Work, index: int, query: DeviceArray) -> Mask:
    value = work.optional(index)
    if value is None:
        return Mask()
    if value.dtype == np.bool_:
        kind = 1
    elif value.dtype == query.dtype:
        kind = 2
    else:
        raise NoKernelError(f"its mask is {value.dtype}")
    while value.ndim < 4:
        value = value[None]
    return Mask(value, kind)


def _window_bytes(work: Work, form: GroupedForm) -> int:
    """Scratch before the partial results: joined keys and values of a sliding cache, or without present."""
    if not (form.sliding or sum(work.call.wanted) < 3):
        return 0
    keys = form.past + form.positions
    return 2 * align(form.batch * form.kv_heads * keys * form.width * work.input(0).itemsize)


def _scratch_rows(work: Work, form: GroupedForm | AttentionForm, keys: int, start: int) -> tuple[Rows, Rows]:
    """Two buffers [B, KV, keys, D] in scratch."""
    size = align(form.batch * form.kv_heads * keys * form.width * work.input(0).itemsize)
    head = keys * form.width
    strides = (form.kv_heads * head, head, form.width)
    return Rows(work.scratch(size, start), *strides), Rows(work.scratch(size, start + size), *strides)


def _grouped_cache(work: Work, form: GroupedForm, lengths: Lengths, new: tuple[Rows, Rows, Rotary]) -> _Cache:
    query = work.input(0)
    size = (query, form.batch, form.kv_heads, form.width)
    past = [Rows.of(work.input(i)) for i in (3, 4)] if work.has(3) else None
    joined = form.sliding or sum(work.call.wanted) < 3
    before: list[Launch] = []
    after: list[Launch] = []
    if joined:
        rows = form.past + form.positions
        keys, values = _scratch_rows(work, form, rows, 0)
        if past is not None:
            for old, into in zip(past, (keys, values), strict=True):
                before += Move(*size, old, into, form.past, lengths).launches("copy_held")
        if form.sliding and work.wants(1):
            for index, held in ((1, keys), (2, values)):
                out = work.output(index)
                clear = past is None or out.address != past[index - 1].address
                move = Move(*size, held, Rows.of(out), out.shape[2], lengths, clear=clear)
                after += move.launches("settle")
    else:
        outs = [work.output(index) for index in (1, 2)]
        rows = outs[0].shape[2]
        keys, values = (Rows.of(item) for item in outs)
        for index, into in enumerate((keys, values)):
            old = past[index] if past is not None else Rows(0, 0, 0, 0)
            if old.address != into.address:
                before += Move(*size, old, into, rows, lengths, clear=True).launches("copy_held")
    append = Append(
        *(query, form.batch, form.positions, form.kv_heads, form.width, new[0], new[1], keys, values),
        *(rows, lengths, new[2], work.optional(15), _epsilon(work, "k_norm_epsilon")),
    )
    return _Cache(keys, values, before + append.launches(), after)


def _attention(work: Work) -> list[Launch]:
    """The default domain's Attention (23, 24, 25)."""
    node = work.node
    form = default_form.attention_form(node, _shapes(work, 6))
    query = work.input(0)
    if work.wants(3) or form.width != form.value_width:
        raise NoKernelError("it hands out scores, or its values have a head size of their own")
    if any(work.input(i).dtype != query.dtype for i in (1, 2, 4, 5) if work.has(i)):
        raise NoKernelError("its tensors differ in type")
    output = work.output(0, form.output_shape)
    parts = [_split(form, work.input(0), form.heads)] + [
        _split(form, work.input(i), form.kv_heads) for i in (1, 2)
    ]
    mask = _bias(work, 3, query)
    lengths, prepare = _attention_lengths(work, form, mask)
    cache = _attention_cache(work, form, lengths, (Rows.of(parts[1]), Rows.of(parts[2])))
    splits = splits_of(form.past + form.keys) if form.queries == 1 else 1
    size = partial_bytes(form.batch * form.heads, splits, form.width)
    left, right = node.integer("left_window_size", -1), node.integer("right_window_size", -1)
    attention = Attention(
        query,
        *(form.batch, form.queries, form.heads, form.kv_heads, form.width),
        *(Rows.of(parts[0]), cache.keys, cache.values, Rows.of(_split(form, output, form.heads))),
        lengths,
        mask=mask,
        left=left,
        right=0 if node.integer("is_causal", 0) else right,
        scale=default_form.attention_scale(node, form.width),
        softcap=node.number("softcap", 0.0),
        splits=splits,
        partial=work.scratch(size, align(8 * form.batch)) if size else 0,
    )
    return [*prepare, *cache.before, *attend_launches(attention)]


def _split(form: AttentionForm, value: DeviceArray, heads: int) -> DeviceArray:
    return value if form.rank == 4 else heads_of(value, heads)


def _capacity(work: Work, form: AttentionForm) -> bool:
    """Whether past and present are one buffer of one extent, as wide as the mask."""
    if not (work.wants(1) and work.has(3) and work.has(4)):
        return False
    present, past = work.output(1), work.input(4)
    same = present.address == past.address and present.shape[2] == form.past
    return same and work.shape(3)[-1] == form.past and form.keys > 0


def _attention_lengths(work: Work, form: AttentionForm, mask: Mask) -> tuple[Lengths, list[Launch]]:
    """Where valid lengths come from, and the launch that reads them out of a mask."""
    if _capacity(work, form):
        room = work.scratch(8 * form.batch)
        lengths = Lengths(MASK_ROWS, room, None, form.queries, form.past, fresh=form.keys)
        return lengths, [_mask_launch(work, form, mask, room)]
    if work.has(6):
        rows = work.input(6)
        if rows.dtype != np.int64:
            raise NoKernelError("nonpad_kv_seqlen is not int64")
        return Lengths(VALID_ROWS, rows, None, form.queries, form.keys, fresh=form.queries), []
    total = form.past + form.keys
    return Lengths(FIXED, None, None, form.queries, total, offset=form.past), []


def _mask_launch(work: Work, form: AttentionForm, mask: Mask, room: int) -> Launch:
    if mask.value is None:
        raise NoKernelError("its mask is missing")
    limit = -65504.0 if mask.value.dtype == np.float16 else default_form.MASKED
    _, heads, rows, width = mask.value.shape
    argument = struct.pack("<8qd", heads, rows, width, *mask.strides, mask.kind, limit)
    text = attend_source(work.input(0), form.width)
    arguments = (argument, pointer(mask.value), pointer(room))
    return Launch(text, "valid_lengths", (form.batch, 1, 1), (256, 1, 1), arguments)


def _attention_cache(work: Work, form: AttentionForm, lengths: Lengths, new: tuple[Rows, Rows]) -> _Cache:
    query = work.input(0)
    size = (query, form.batch, form.kv_heads, form.width)
    past = [Rows.of(work.input(i)) for i in (4, 5)] if work.has(4) else None
    present = work.wants(1) or work.wants(2)
    if past is None and not present:
        return _Cache(*new, [], [])
    before: list[Launch] = []
    if present:
        outs = [work.output(index) for index in (1, 2)]
        rows = outs[0].shape[2]
        keys, values = (Rows.of(item) for item in outs)
    else:
        rows = form.past + form.keys
        start = align(8 * form.batch) + align(_partial(form))
        keys, values = _scratch_rows(work, form, rows, start)
    written = Lengths(lengths.kind, lengths.values, None, form.keys, lengths.keys, form.past, fresh=form.keys)
    for index, into in enumerate((keys, values)):
        if past is not None and past[index].address != into.address and form.past:
            before += Move(*size, past[index], into, form.past, written).launches("copy_held")
    append = Append(*size[:2], form.keys, form.kv_heads, form.width, *new, keys, values, rows, written)
    return _Cache(keys, values, before + append.launches(), [])


def _partial(form: AttentionForm) -> int:
    if form.queries != 1:
        return 0
    return partial_bytes(form.batch * form.heads, splits_of(form.past + form.keys), form.width)


def _rotary(work: Work) -> list[Launch]:
    """RotaryEmbedding of both domains: the inputs stand in another order."""
    contrib = work.node.domain == _CONTRIB
    x, out = work.input(0), work.output(0)
    cos, sin = (work.input(2), work.input(3)) if contrib else (work.input(1), work.input(2))
    positions = work.input(1) if contrib else work.optional(3)
    heads = work.node.integer("num_heads", 0)
    if x.ndim == 3:
        heads = heads or x.shape[2] // max(2 * cos.shape[-1], 1)
        x, out = heads_of(x, heads), heads_of(out, heads)
    batch, heads, rows, width = x.shape
    half = (work.node.integer("rotary_embedding_dim", 0) or width) // 2
    if cos.shape[-1] != half or width % 2 or not (cos.contiguous and sin.contiguous):
        raise NoKernelError("its cos and sin caches do not fit its head")
    if cos.dtype != x.dtype or (positions is not None and positions.dtype != np.int64):
        raise NoKernelError("its caches or positions have another type")
    kind = 0 if positions is None else 2 if contrib and positions.size == 1 else 1
    if kind == 1 and positions is not None and positions.size != batch * rows:
        raise NoKernelError("its positions repeat over the batch")
    strides = (*Rows.of(x).strides, *Rows.of(out).strides)
    gathered = cos.shape[-2] * half if kind == 0 and cos.ndim == 3 and cos.shape[0] > 1 else 0
    flags = (half, work.node.integer("interleaved", 0), cos.shape[-2], gathered, kind)
    argument = struct.pack("<15q", batch, heads, rows, width, *strides, *flags)
    tensors = (x, cos, sin, positions, out)
    text = attend_source(x, 1)
    grid = flat_grid(max(prod(x.shape) // 2, 1))
    return [Launch(text, "rotary", grid, (THREADS, 1, 1), (argument, *(pointer(item) for item in tensors)))]


BUILDERS: Mapping[tuple[str, str], Builder] = {
    (_CONTRIB, "GroupQueryAttention"): _grouped,
    ("", "Attention"): _attention,
    ("", "RotaryEmbedding"): _rotary,
    (_CONTRIB, "RotaryEmbedding"): _rotary,
}
"""Builders of this family."""

"""Host kernel: GroupQueryAttention, with its cache written in place where past and present are one buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType, from_numpy, numpy_dtype
from vramscope.ops.kernels.attend import Problem, RawScores, attend
from vramscope.ops.kernels.grouped_cache import Cache, open_cache, settle, store_new
from vramscope.ops.kernels.grouped_form import attention_scale, grouped_form, wrong
from vramscope.ops.kernels.grouped_inputs import Lengths, preparation, read_lengths, sink
from vramscope.ops.kernels.grouped_quick import QuickDecode, quick_decode
from vramscope.ops.kernels.planned import lay_out
from vramscope.ops.kernels.tiles import AttentionExtent, take_scratch
from vramscope.ops.spec import Lifetime, OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call, Tensor
    from vramscope.ops.kernels.grouped_form import GroupedForm
    from vramscope.ops.kernels.tiles import Scratch
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement


def _sizes(form: GroupedForm, cache_type: ElementType, outputs: int) -> tuple[tuple[str, int], ...]:
    """Regions of the node's scratch; ``outputs`` under 3: no present, so the new rows need a place."""
    itemsize = numpy_dtype(cache_type).itemsize
    extent = AttentionExtent(
        *(form.heads, form.kv_heads, form.positions, form.past + form.positions, form.width),
        widen=cache_type is not ElementType.FLOAT,
    )
    row = form.kv_heads * form.stored_width * itemsize
    fresh = form.positions * row if outputs < 3 or form.sliding else 0
    window = form.past * row if form.sliding else 0
    return (*extent.sizes(), ("new keys", fresh), ("new values", fresh), ("window", window))


def grouped_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Query, output and score tiles; widened keys or values; new rows and window where no present takes them.

    Keys are counted to the past's physical extent plus the current rows, whatever the valid length is.
    """
    shapes = [item.shape if item.present else None for item in map(query.input, range(5))]
    form = grouped_form(query.node, shapes)
    cache = query.input(3) if query.input(3).present else query.input(0)
    sizes = _sizes(form, cache.dtype, query.outputs)
    return lay_out("grouped attention tiles", dict(sizes), Lifetime.SESSION_PERSISTENT)


def group_query_attention(call: Call) -> None:
    """GroupQueryAttention: append the new keys and values, then attend; see operators 2.1.

    Each batch entry holds ``T = seqlens_k + 1`` positions after the step, of which the last ``Q`` (all of S,
    ``query_seqlens`` or T, whichever is least) are new: they go to cache rows [T − Q, T). Where the placed
    present is past's own buffer nothing else is written; otherwise past is copied and the rest zeroed.
    Output rows of padding are zeros.

    Raises:
        BindingError: a length, a position or an extent that the buffers do not hold.
        ModelGraphError: an attribute or a shape that the operator does not allow.
    """
    prepared = _prepared(call)
    if prepared.quick is not None and prepared.placed == call.places() and prepared.quick.run():
        return
    form = prepared.form
    lengths = read_lengths(call, form)
    work = _Work(call, form, lengths, open_cache(call, form, lengths), prepared.scratch)
    output = call.output(0, (form.batch, form.positions, form.heads * form.width))
    raw = _raw_target(work)
    with np.errstate(all="ignore"):
        for entry in range(form.batch):
            _attend_entry(work, entry, output, raw)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What the shapes decide; a replayed step has the same inputs and takes it over."""

    inputs: tuple[Tensor | None, ...]
    scratch_bytes: Array | None
    form: GroupedForm
    scratch: Scratch
    placed: tuple[int, ...]
    quick: QuickDecode | None


def _prepared(call: Call) -> _Prepared:
    memo, room = call.memo, call.scratch_bytes
    if isinstance(memo, _Prepared) and memo.inputs is call.inputs and memo.scratch_bytes is room:
        return memo
    form = grouped_form(call.node, [call.array(i).shape if call.has(i) else None for i in range(5)])
    dtype = from_numpy(call.array(3 if call.has(3) else 0).dtype)
    scratch = take_scratch(call, _sizes(form, dtype, sum(call.wanted)), np.dtype(np.float32))
    made = _Prepared(call.inputs, room, form, scratch, call.places(), quick_decode(call, form, scratch))
    call.memo = made
    return made


@dataclass(frozen=True, slots=True)
class _Work:
    """What every batch entry of one call shares."""

    call: Call
    form: GroupedForm
    lengths: Lengths
    cache: Cache
    scratch: Scratch


def _views(work: _Work, entry: int) -> tuple[Array, Array, Array]:
    """Queries [kv, group, S, D] and new keys and values [kv, S, D] of one entry, as views."""
    call, form = work.call, work.form
    split = (form.positions, -1, form.width)
    if form.packed:
        rows = call.array(0)[entry].reshape(split)
        ends = (form.heads, form.heads + form.kv_heads)
        queries, keys, values = rows[:, : ends[0]], rows[:, ends[0] : ends[1]], rows[:, ends[1] :]
    else:
        queries, keys, values = (call.array(i)[entry].reshape(split) for i in range(3))
    return grouped(queries, form.kv_heads), keys.transpose(1, 0, 2), values.transpose(1, 0, 2)


def grouped(rows: Array, kv_heads: int) -> Array:
    """[S, heads, D] as a view [kv, group, S, D]."""
    positions, heads, width = rows.shape
    return rows.reshape(positions, kv_heads, heads // kv_heads, width).transpose(1, 2, 0, 3)


def _attend_entry(work: _Work, entry: int, output: Array, raw: RawScores | None) -> None:
    form, lengths = work.form, work.lengths
    count, total = lengths.new[entry], lengths.total[entry]
    target = grouped(output[entry].reshape(form.positions, form.heads, form.width), form.kv_heads)
    if count < form.positions:
        target[:, :, count:] = 0
    queries, keys, values = (part[..., :count, :] for part in _views(work, entry))
    prepare_query, prepare_key = preparation(work.call, form, lengths, entry)
    segments, base = store_new(work.cache, work.scratch, entry, (keys, values, prepare_key))
    causal = work.call.node.integer("causal", 1) != 0
    problem = Problem(
        queries=queries,
        segments=segments,
        keys=total - base,
        output=target[:, :, :count],
        scale=attention_scale(work.call.node, form.width),
        stop=total,
        offset=total - count,
        base=base,
        left=form.window - 1 if form.window else None,
        right=0 if causal else None,
        softcap=work.call.node.number("softcap", 0.0),
        biases=_biases(work, entry),
        sink=sink(work.call, form),
        prepare=prepare_query,
        raw=_raw_entry(raw, entry, count, (base, total)),
    )
    attend(problem, work.scratch)
    settle(work.cache, work.scratch, entry, segments)


def _biases(work: _Work, entry: int) -> tuple[Array, ...]:
    bias = work.call.optional(10)
    if bias is None:
        return ()
    need = max(work.lengths.total)
    if bias.ndim != 4 or bias.shape[3] < need:
        raise wrong(work.call.node, f"attention_bias is {bias.shape} and must reach {need} keys in axis 3")
    return (grouped_bias(bias, entry, work.form),)


def grouped_bias(bias: Array, entry: int, form: GroupedForm) -> Array:
    """[B or 1, H or 1, S or 1, keys] of one batch entry as [kv, group, S, keys]."""
    part = bias[entry if bias.shape[0] > 1 else 0]
    whole = np.broadcast_to(part, (form.heads, form.positions, bias.shape[3]))
    return whole.reshape(form.kv_heads, form.heads // form.kv_heads, *whole.shape[1:])


def _raw_target(work: _Work) -> RawScores | None:
    """Output 3 as [B, kv, group, S, keys]: qk_output 1 is before softmax, 2 the probabilities."""
    mode, form = work.call.node.integer("qk_output", 0), work.form
    if mode == 0 or not work.call.wants(3):
        return None
    keys = work.lengths.extent
    flat = work.call.output(3, (form.batch, form.heads, form.positions, keys))
    flat[...] = 0
    split = flat.reshape(form.batch, form.kv_heads, -1, form.positions, keys)
    return RawScores(split, 2 if mode == 1 else 3)


def _raw_entry(raw: RawScores | None, entry: int, count: int, keys: tuple[int, int]) -> RawScores | None:
    if raw is None:
        return None
    return RawScores(raw.target[entry, :, :, :count, keys[0] : keys[1]], raw.stage)


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "com.microsoft",
        "GroupQueryAttention",
        group_query_attention,
        grouped_workspace,
        aliases=((1, 3), (2, 4)),
        host_inputs=(6,),
    ),
)

"""Host kernel: the default domain's Attention (23, 24, 25)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.attend import Problem, RawScores, Segment, attend
from vramscope.ops.kernels.attention_form import attention_form, attention_scale, open_cache, wrong
from vramscope.ops.kernels.planned import lay_out
from vramscope.ops.kernels.storage import Stored
from vramscope.ops.kernels.tiles import AttentionExtent, take_scratch
from vramscope.ops.spec import Lifetime, OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.attention_form import AttentionCache, AttentionForm
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement


def _extent(node: Node, form: AttentionForm, dtype: ElementType) -> AttentionExtent:
    compute = _compute(node, dtype)
    return AttentionExtent(
        heads=form.heads,
        kv_heads=form.kv_heads,
        queries=form.queries,
        keys=form.past + form.keys,
        width=max(form.width, form.value_width),
        itemsize=8 if compute is ElementType.DOUBLE else 4,
        widen=dtype is not compute,
    )


def _compute(node: Node, dtype: ElementType) -> ElementType:
    """Arithmetic is in float32 at least; double inputs or a double softmax_precision make it double."""
    wanted = node.integer("softmax_precision", 0)
    return ElementType.DOUBLE if ElementType.DOUBLE in (dtype, wanted) else ElementType.FLOAT


def attention_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Query, output and score tiles, and widened keys or values; held by the session for a single row."""
    shapes = [item.shape if item.present else None for item in map(query.input, range(6))]
    form = attention_form(query.node, shapes)
    single = form.batch == 1 and form.queries == 1
    lifetime = Lifetime.SESSION_PERSISTENT if single else Lifetime.STEP_SCOPED
    sizes = _extent(query.node, form, query.input(0).dtype).sizes()
    return lay_out("attention tiles", dict(sizes), lifetime)


def attention(call: Call) -> None:
    """Attention: softmax(scale·Q·Kᵀ, softcap, mask, causal, window)·V; see operators 3.1.

    A cache is appended in place where the caller's buffers allow it (see
    :func:`~vramscope.ops.kernels.attention_form.open_cache`). Rows that see no key become zeros.

    Raises:
        BindingError: buffers, lengths or a mask that do not fit the step.
        ModelGraphError: an attribute or a shape that the operator does not allow.
    """
    shapes = [call.array(i).shape if call.has(i) else None for i in range(6)]
    form = attention_form(call.node, shapes)
    keys, values = form.split(call.array(1), form.kv_heads), form.split(call.array(2), form.kv_heads)
    dtype = call.array(0).dtype
    kind = ElementType.DOUBLE if dtype == np.float64 else _narrow(dtype)
    compute = np.dtype(np.float64 if _compute(call.node, kind) is ElementType.DOUBLE else np.float32)
    scratch = take_scratch(call, _extent(call.node, form, kind).sizes(), compute)
    cache = open_cache(call, form, keys, values)
    queries = form.split(call.array(0), form.heads)
    output = form.split(call.output(0, form.output_shape), form.heads)
    raw = _raw_target(call, form, cache)
    mask = _mask(call, form, cache.total, padded=raw is not None)
    with np.errstate(all="ignore"):
        for entry in range(form.batch):
            step = _Step(form, cache, _grouped(queries[entry], form), _grouped(output[entry], form), entry)
            attend(_problem(call.node, step, mask, raw), scratch)


@dataclass(frozen=True, slots=True)
class _Step:
    """One batch entry: its queries and output as [kv, group, S, D]."""

    form: AttentionForm
    cache: AttentionCache
    queries: Array
    output: Array
    entry: int


def _narrow(dtype: np.dtype[np.generic]) -> ElementType:
    return ElementType.FLOAT if dtype == np.float32 else ElementType.FLOAT16


def _problem(node: Node, step: _Step, mask: Array | None, raw: Array | None) -> Problem:
    form, cache, entry = step.form, step.cache, step.entry
    valid = sum(cache.rows[entry])
    rows = cache.rows[entry] if raw is None or len(cache.keys) > 1 else (cache.total,)
    triples = zip(cache.keys, cache.values, rows, strict=True)
    left, right = node.integer("left_window_size", -1), node.integer("right_window_size", -1)
    if node.integer("is_causal", 0):
        right = 0
    return Problem(
        queries=step.queries,
        segments=tuple(Segment(Stored(key[entry]), Stored(value[entry]), n) for key, value, n in triples),
        keys=sum(rows),
        output=step.output,
        scale=attention_scale(node, form.width),
        stop=valid if mask is None else min(valid, mask.shape[3]),
        offset=cache.offset[entry],
        left=left if left >= 0 else None,
        right=right if right >= 0 else None,
        softcap=node.number("softcap", 0.0),
        biases=() if mask is None else (_grouped(mask[entry if mask.shape[0] > 1 else 0], form),),
        raw=_raw_scores(node, form, raw, entry),
    )


def _raw_scores(node: Node, form: AttentionForm, raw: Array | None, entry: int) -> RawScores | None:
    if raw is None:
        return None
    return RawScores(_grouped(raw[entry], form), node.integer("qk_matmul_output_mode", 0))


def _grouped(tensor: Array, form: AttentionForm) -> Array:
    """[heads, …] as [kv, group, …], without a copy."""
    return tensor.reshape(form.kv_heads, form.heads // form.kv_heads, *tensor.shape[1:])


def _mask(call: Call, form: AttentionForm, total: int, *, padded: bool) -> Array | None:
    """attn_mask as [B or 1, heads, S, keys]; ``padded``: a narrower one is filled up with hidden keys."""
    mask = call.optional(3)
    if mask is None:
        return None
    rows = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if padded and rows.shape[3] < total:
        hidden = False if rows.dtype == np.bool_ else -np.inf
        room = np.full((*rows.shape[:3], total), hidden, rows.dtype)
        room[..., : rows.shape[3]] = rows
        rows = room
    whole = (rows.shape[0], form.heads, form.queries, rows.shape[3])
    if any(
        have not in (1, need) for have, need in zip(rows.shape[:3], (form.batch, *whole[1:3]), strict=True)
    ):
        raise wrong(call.node, f"attn_mask {mask.shape} does not broadcast to {whole}")
    return np.broadcast_to(rows, whole)


def _raw_target(call: Call, form: AttentionForm, cache: AttentionCache) -> Array | None:
    """Output 3 [B, heads, S, T], filled by the stage that ``qk_matmul_output_mode`` names."""
    if not call.wants(3):
        return None
    return call.output(3, (form.batch, form.heads, form.queries, cache.total))


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "Attention", attention, attention_workspace, aliases=((1, 4), (2, 5))),
)

"""Host kernels: com.microsoft's MultiHeadAttention and Attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import UnsupportedOperatorError
from vramscope.graph.dtypes import ElementType, numpy_dtype
from vramscope.ops.kernels.multihead_core import HeadForm, HeadStep, held_rows, run_heads, wrong
from vramscope.ops.kernels.planned import lay_out
from vramscope.ops.kernels.projection import (
    contrib_attention,
    contrib_attention_workspace,
)
from vramscope.ops.kernels.soft_masks import additive_bias, soft_mask
from vramscope.ops.kernels.tiles import take_scratch
from vramscope.ops.spec import Lifetime, OpSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement


def head_form(node: Node, shapes: Sequence[tuple[int, ...] | None]) -> HeadForm:
    """Extents from the shapes of inputs 0 to 7; packed forms are [B, S, N, 3, D] and [B, L, N, 2, D]."""
    heads, query, key, value = node.integer("num_heads", 0), shapes[0], shapes[1], shapes[2]
    past = shapes[6][2] if shapes[6] is not None else 0
    if query is None or heads <= 0:
        raise wrong(node, f"query {query} with {heads} heads")
    if len(query) == 5:
        return HeadForm(query[0], heads, query[1], query[1], past, query[4], query[4])
    if len(query) != 3 or key is None or query[2] % heads:
        raise wrong(node, f"query is {query} and key {key}: [B, S, {heads} heads · D] and a key are needed")
    width = query[2] // heads
    if len(key) == 5:
        return HeadForm(query[0], heads, query[1], key[1], past, width, width)
    if value is None or len(value) != len(key):
        raise wrong(node, f"value is {value} beside a key of {key}")
    if len(key) == 4:
        return HeadForm(query[0], heads, query[1], key[2], past, width, value[3])
    if value[2] % heads:
        raise wrong(node, f"the value's width {value[2]} is not a multiple of {heads} heads")
    return HeadForm(query[0], heads, query[1], key[1], past, width, value[2] // heads)


def _sizes(form: HeadForm, dtype: ElementType, *, biased: bool, outputs: int) -> tuple[tuple[str, int], ...]:
    itemsize = numpy_dtype(dtype).itemsize
    return form.sizes(widen=dtype is not ElementType.FLOAT, fresh=biased and outputs < 3, itemsize=itemsize)


def multi_head_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Query, output and score tiles, widened keys or values; biased new rows where no present takes them."""
    shapes = [item.shape if item.present else None for item in map(query.input, range(8))]
    form = head_form(query.node, shapes)
    sizes = _sizes(form, query.input(0).dtype, biased=query.input(3).present, outputs=query.outputs)
    return lay_out("multi-head attention tiles", dict(sizes), Lifetime.STEP_SCOPED)


def multi_head_attention(call: Call) -> None:
    """MultiHeadAttention, separate and packed forms; see operators 2.6. Masks are additive and finite.

    Raises:
        BindingError: a shared buffer that is too short.
        ModelGraphError: shapes that do not fit.
        UnsupportedOperatorError: beam search's cache_indirection.
    """
    node = call.node
    if call.has(9):
        raise UnsupportedOperatorError(
            f"cache_indirection of {node.qualified}",
            "beam search is not run by this engine",
            "Export the model for greedy search or sampling",
            node.name,
        )
    form = head_form(node, [call.array(i).shape if call.has(i) else None for i in range(8)])
    dtype = ElementType.FLOAT if call.array(0).dtype == np.float32 else call.output_types[0]
    sizes = _sizes(form, dtype, biased=call.has(3), outputs=sum(call.wanted))
    scratch = take_scratch(call, sizes, np.dtype(np.float32))
    held = held_rows(call, 8, form.past, 0 if _is_cache(call) else form.keys)
    total = held + form.keys
    queries, keys, values = _tensors(call, form)
    output = call.output(0, (form.batch, form.queries, form.heads * form.value_width))
    raw = call.output(3, (form.batch, form.heads, form.queries, total)) if call.wants(3) else None
    step = HeadStep(
        form=form,
        queries=queries,
        keys=keys,
        values=values,
        bias=_bias(call, form),
        past=(call.array(6), call.array(7)) if call.has(6) else None,
        present=_present(call, form, total),
        held=held,
        masks=(*soft_mask(call, 4, form, held), *additive_bias(call, 5, form, held)),
        output=heads_of(output, form.heads),
        raw=raw,
    )
    with np.errstate(all="ignore"):
        run_heads(call, step, scratch)


def _is_cache(call: Call) -> bool:
    return call.has(1) and call.array(1).ndim == 4


def heads_of(tensor: Array, heads: int) -> Array:
    """[B, S, N·D] as [B, N, S, D], without a copy."""
    batch, positions, width = tensor.shape
    return tensor.reshape(batch, positions, heads, width // heads).transpose(0, 2, 1, 3)


def _tensors(call: Call, form: HeadForm) -> tuple[Array, Array, Array]:
    """Queries, keys and values as [B, N, positions, width] views of whatever form the inputs have."""
    query = call.array(0)
    if query.ndim == 5:
        parts = query.transpose(3, 0, 2, 1, 4)
        return parts[0], parts[1], parts[2]
    key = call.array(1)
    if key.ndim == 5:
        pair = key.transpose(3, 0, 2, 1, 4)
        return heads_of(query, form.heads), pair[0], pair[1]
    if key.ndim == 4:
        return heads_of(query, form.heads), key, call.array(2)
    return tuple(heads_of(item, form.heads) for item in (query, key, call.array(2)))  # type: ignore[return-value]  # three of three


def _bias(call: Call, form: HeadForm) -> tuple[Array, Array, Array] | None:
    """The projection bias as [N, 1, width] for queries, keys and values; a key cache already contains it."""
    bias = call.optional(3)
    if bias is None:
        return None
    hidden = form.heads * form.width
    parts = (bias[:hidden], bias[hidden : 2 * hidden], bias[2 * hidden :])
    query, key, value = (part.reshape(form.heads, 1, -1) for part in parts)
    if _is_cache(call):
        return query, np.zeros_like(key), np.zeros_like(value)
    return query, key, value


def _present(call: Call, form: HeadForm, total: int) -> tuple[Array, Array] | None:
    if not (call.wants(1) or call.wants(2)):
        return None
    rows = form.past if call.has(8) else total
    lead = (form.batch, form.heads, rows)
    return call.output(1, (*lead, form.width)), call.output(2, (*lead, form.value_width))


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "com.microsoft",
        "MultiHeadAttention",
        multi_head_attention,
        multi_head_workspace,
        aliases=((1, 6), (2, 7)),
        host_inputs=(8,),
    ),
    OpSpec(
        "com.microsoft",
        "Attention",
        contrib_attention,
        contrib_attention_workspace,
        aliases=((1, 4),),
        host_inputs=(6,),
    ),
)

"""Host kernel: IndexShare (operators 1.3): attention over selected positions of a cache, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import BindingError, ModelGraphError
from vramscope.ops.formulas_attention import index_share as index_share_workspace
from vramscope.ops.kernels.planned import Values, query_of, region_of
from vramscope.ops.kernels.storage import same_buffer
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call

_ATTRIBUTES = frozenset(("num_heads", "kv_num_heads", "scale"))
PADDING = -1
"""Behind the selected positions of a row."""


@dataclass(frozen=True, slots=True)
class IndexForm:
    """Extents of one call.

    Attributes:
        node: for messages.
        batch: entries.
        heads: query heads.
        kv_heads: key and value heads; each serves heads / kv_heads query heads.
        queries: query rows of a head.
        width: of a head.
        past: rows of the past cache, 0 without one.
        new: rows that this step adds.
        scale: of the scores.
        capacity: present has past's extent, and the bias says which rows of it are valid.
    """

    node: Node
    batch: int
    heads: int
    kv_heads: int
    queries: int
    width: int
    past: int
    new: int
    scale: float
    capacity: bool

    @property
    def rows(self) -> int:
        """Rows of the cache that the indices count."""
        return self.past if self.capacity else self.past + self.new


def index_share(call: Call) -> None:
    """Output [B,N,Sq,H] = softmax(scale·Q·K[i]ᵀ + bias[i])·V[i] over the selected positions i of each row.

    K and V are past and current behind each other; where present is bound with past's extent, the current
    rows go in place behind the last valid one. A row whose best score is −∞ becomes zeros.

    Raises:
        ModelGraphError: an attribute, a shape or a number of outputs that the operator does not allow.
        BindingError: an index that is no position of the cache, or rows that do not fit it.
    """
    form = _form(call)
    bias = _bias(call, form)
    valid = _valid(form, bias)
    keys, values = (_cache(call, form, slot, valid) for slot in (0, 1))
    chosen = _indices(call.array(5), form, valid)
    shape = (form.batch, form.heads, form.queries, chosen.shape[3])
    scores = region_of(call, index_share_workspace(query_of(call)), "scores", shape)
    output = call.output(0, (form.batch, form.heads, form.queries, form.width))
    for entry in range(form.batch):
        for head in range(form.heads):
            row = chosen[entry, head if chosen.shape[1] > 1 else 0]
            kv = head // (form.heads // form.kv_heads)
            _attend(
                form,
                (call.array(0)[entry, head], keys[entry, kv], values[entry, kv]),
                row,
                None if bias is None else bias[entry, head],
                scores[entry, head],
                output[entry, head],
            )


def _attend(
    form: IndexForm,
    tensors: tuple[Array, Array, Array],
    chosen: Array,
    bias: Array | None,
    scores: Values,
    output: Array,
) -> None:
    """One head: queries [Sq,H] over the rows [Sq,Ksel] of keys and values [rows,H]."""
    root = np.float32(sqrt(form.scale))
    query, key, value = tensors
    place = np.maximum(chosen, 0)
    with np.errstate(all="ignore"):
        wide = np.asarray(query, np.float32) * root
        np.einsum("qd,qkd->qk", wide, np.asarray(key[place], np.float32) * root, out=scores)
        if bias is not None:
            np.add(scores, np.take_along_axis(np.asarray(bias, np.float32), place, axis=1), out=scores)
        scores[chosen == PADDING] = -np.inf
        highest = scores.max(axis=1, keepdims=True)
        np.exp(scores - np.where(np.isneginf(highest), np.float32(0), highest), out=scores)
        total = scores.sum(axis=1, keepdims=True)
        np.divide(scores, np.where(total == 0, np.float32(1), total), out=scores)
        output[...] = np.einsum("qk,qkd->qd", scores, np.asarray(value[place], np.float32))


def _form(call: Call) -> IndexForm:
    node, query, key = call.node, call.array(0), call.array(1)
    unknown = sorted(set(node.attributes) - _ATTRIBUTES)
    if unknown:
        raise _wrong(node, f"attributes {unknown} are not its own")
    heads = node.integer("num_heads", 0)
    kv_heads = node.integer("kv_num_heads", heads)
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise _wrong(node, f"kv_num_heads {kv_heads} does not divide num_heads {heads}")
    if len(call.wanted) == 2:
        raise _wrong(node, "it has one output or three, never two")
    if call.has(3) != call.has(4):
        raise _wrong(node, "past_key and past_value come together or not at all")
    if query.ndim != 4 or key.ndim != 4 or query.shape[1] != heads or key.shape[1] != kv_heads:
        raise _wrong(node, f"query {query.shape} and key {key.shape} are not [batch, heads, rows, width]")
    width = query.shape[3]
    scale = node.number("scale", 1.0 / sqrt(max(width, 1)))
    if not isfinite(scale) or scale <= 0:
        raise _wrong(node, f"scale {scale} is not finite and above 0")
    past = call.array(3).shape[2] if call.has(3) else 0
    placed = call.placed[1] if len(call.placed) > 1 else None
    capacity = isinstance(placed, np.ndarray) and placed.ndim == 4 and placed.shape[2] == past and past > 0
    capacity = capacity and key.shape[2] > 0
    if capacity and not call.has(6):
        raise _wrong(node, "a present as long as past needs attention_bias, which says what is valid in it")
    return IndexForm(
        node, query.shape[0], heads, kv_heads, query.shape[2], width, past, key.shape[2], scale, capacity
    )


def _bias(call: Call, form: IndexForm) -> Array | None:
    """attention_bias over [B, N, Sq, rows of the cache], without a copy."""
    bias = call.optional(6)
    if bias is None:
        return None
    whole = (form.batch, form.heads, form.queries, form.rows)
    if bias.ndim > 4 or any(
        have not in (1, need) for have, need in zip(reversed(bias.shape), reversed(whole), strict=False)
    ):
        raise _wrong(form.node, f"attention_bias {bias.shape} does not broadcast to {whole}")
    return np.broadcast_to(bias, whole)


def _valid(form: IndexForm, bias: Array | None) -> tuple[int, ...]:
    """Valid rows of each entry: in a fixed capacity 1 + the last column that any bias row leaves finite.

    Raises:
        BindingError: fewer rows are valid than this step adds.
    """
    if not form.capacity or bias is None:
        return (form.rows,) * form.batch
    seen = np.logical_or.reduce(np.isfinite(np.asarray(bias, np.float32)), axis=(1, 2))
    found = tuple(int(form.rows - np.argmax(row[::-1])) if row.any() else 0 for row in seen)
    for entry, length in enumerate(found):
        if length < form.new:
            raise _misfit(
                form.node, f"batch {entry}: the bias leaves {length} columns open and {form.new} rows are new"
            )
    return found


def _cache(call: Call, form: IndexForm, slot: int, valid: tuple[int, ...]) -> Array:
    """Keys (0) or values (1), [B,Nkv,rows,H]: past and the new rows, in present or in scratch."""
    past, new = call.optional(3 + slot), call.array(1 + slot)
    shape = (form.batch, form.kv_heads, form.rows, form.width)
    if call.wants(1 + slot):
        present = call.output(1 + slot, shape, new.dtype)
    else:
        name = ("present keys", "present values")[slot]
        present = region_of(call, index_share_workspace(query_of(call)), name, shape, new.dtype)
    if past is not None and not same_buffer(past, present, form.node):
        present[:, :, : form.past] = past
    for entry, length in enumerate(valid):
        present[entry, :, length - form.new : length] = new[entry]
    return present


def _indices(given: Array, form: IndexForm, valid: tuple[int, ...]) -> Array:
    """selected_indices as int64 [B, 1 or N, Sq, Ksel], checked.

    Raises:
        BindingError: the first row that is not strictly increasing positions, then padding.
    """
    chosen = np.asarray(given, np.int64)
    heads = chosen.shape[1] if chosen.ndim == 4 else 0
    if heads not in (1, form.heads) or chosen.shape[::2] != (form.batch, form.queries) or not chosen.size:
        raise _wrong(form.node, f"selected_indices {chosen.shape} do not fit the queries")
    real = chosen != PADDING
    for entry, length in enumerate(valid):
        rows, used = chosen[entry], real[entry]
        later = np.diff(rows, axis=-1) <= 0
        tests = (
            ("is no position", (used & ((rows < 0) | (rows >= length)))),
            ("stands behind padding", np.pad(used[..., 1:] & ~used[..., :-1], ((0, 0), (0, 0), (1, 0)))),
            ("does not increase", np.pad(later & used[..., 1:], ((0, 0), (0, 0), (1, 0)))),
            ("selects nothing", ~used.any(axis=-1, keepdims=True)),
        )
        for why, wrong in tests:
            if wrong.any():
                raise _bad_index(form, entry, why, wrong, rows, length)
    return chosen


def _bad_index(form: IndexForm, entry: int, why: str, wrong: Array, rows: Array, length: int) -> BindingError:
    head, query, column = (int(place) for place in np.argwhere(wrong)[0])
    return _misfit(
        form.node,
        f"selected index {int(rows[head, query, column])} at batch {entry}, head {head}, query {query}, "
        f"column {column} {why}; {length} rows are valid",
    )


def _misfit(node: Node, why: str) -> BindingError:
    return BindingError(f"the inputs of {node.qualified}", why, "Select valid positions in order", node.name)


def _wrong(node: Node, why: str) -> ModelGraphError:
    return ModelGraphError(node.qualified, why, "Export the model again with a supported form", node.name)


SPECS: tuple[OpSpec, ...] = (
    OpSpec("pkg.nxrt", "IndexShare", index_share, index_share_workspace, aliases=((1, 3), (2, 4))),
)

"""What a default-domain Attention node asks for: its extents, and where its cache lies after the step."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import BindingError, ModelGraphError
from vramscope.ops.kernels.storage import same_buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call

MASKED = -1e30
"""A float mask value at or under this hides its key when the valid length is read out of a mask."""


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """Extents of one Attention.

    Attributes:
        batch: B.
        heads: query heads.
        kv_heads: key/value heads; divides ``heads``.
        queries: query positions.
        keys: positions of inputs 1 and 2.
        width: head size of queries and keys.
        value_width: head size of values.
        past: positions of the past (its extent), 0 without one.
        rank: 3 for [B, S, heads·D], 4 for [B, heads, S, D].
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    width: int
    value_width: int
    past: int
    rank: int

    def split(self, tensor: Array, heads: int) -> Array:
        """An input as [B, heads, S, D], without a copy."""
        if self.rank == 4:
            return tensor
        batch, positions, whole = tensor.shape
        return tensor.reshape(batch, positions, heads, whole // max(heads, 1)).transpose(0, 2, 1, 3)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of output 0, of the rank of the inputs."""
        if self.rank == 4:
            return (self.batch, self.heads, self.queries, self.value_width)
        return (self.batch, self.queries, self.heads * self.value_width)


def attention_form(node: Node, shapes: Sequence[tuple[int, ...] | None]) -> AttentionForm:
    """Extents from the head attributes and the shapes of inputs 0 to 5 (None: absent).

    Raises:
        ModelGraphError: ranks, heads or extents that do not fit together.
    """
    query, key, value = shapes[0], shapes[1], shapes[2]
    if query is None or key is None or value is None or not len(query) == len(key) == len(value):
        raise wrong(node, f"query {query}, key {key} and value {value} must have one rank, 3 or 4")
    if (shapes[4] is None) != (shapes[5] is None):
        raise wrong(node, "past_key and past_value must be given both or neither")
    past = shapes[4][2] if shapes[4] is not None else 0
    if len(query) == 4:
        form = AttentionForm(query[0], query[1], key[1], query[2], key[2], query[3], value[3], past, 4)
    elif len(query) == 3:
        form = _flat(node, query, key, value, past)
    else:
        raise wrong(node, f"query has rank {len(query)}, it must be 3 or 4")
    _check(node, form, shapes)
    return form


def _flat(
    node: Node, query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], past: int
) -> AttentionForm:
    heads, kv_heads = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    if heads <= 0 or kv_heads <= 0:
        raise wrong(node, "inputs of rank 3 need q_num_heads and kv_num_heads")
    if query[2] % heads or key[2] % kv_heads or value[2] % kv_heads:
        raise wrong(node, f"{heads} and {kv_heads} heads do not divide {query[2]}, {key[2]} and {value[2]}")
    widths = (query[2] // heads, value[2] // kv_heads)
    return AttentionForm(query[0], heads, kv_heads, query[1], key[1], *widths, past, 3)


def _check(node: Node, form: AttentionForm, shapes: Sequence[tuple[int, ...] | None]) -> None:
    if form.kv_heads <= 0 or form.heads % form.kv_heads:
        raise wrong(node, f"{form.heads} query heads are not a multiple of {form.kv_heads} key heads")
    for name, shape, width in (
        ("past_key", shapes[4], form.width),
        ("past_value", shapes[5], form.value_width),
    ):
        if shape is not None and shape != (form.batch, form.kv_heads, form.past, width):
            raise wrong(node, f"{name} is {shape}; [{form.batch}, {form.kv_heads}, past, {width}] is needed")
    if not node.number("scale", 1.0) > 0:
        raise wrong(node, f"scale {node.number('scale', 1.0)} must be positive")


def wrong(node: Node, why: str) -> ModelGraphError:
    """A node that the operator's definition does not allow."""
    return ModelGraphError(node.qualified, why, "Export the model again with a supported form", node.name)


def attention_scale(node: Node, width: int) -> float:
    """The ``scale`` attribute, by default 1/√D."""
    return node.number("scale", 1.0 / sqrt(max(width, 1)))


def valid_lengths(mask: Array, batch: int) -> list[int]:
    """Per batch entry: 1 + the last key that any of its query rows may see in the mask.

    A bool mask shows a key where it is True, a float mask where it is above −1e30 and above the lowest
    finite number of its type (−65504 in float16), which exporters write for "hidden".
    """
    rows = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if rows.dtype == np.bool_:
        seen = np.any(rows, axis=(1, 2))
    else:
        limit = max(MASKED, -65504.0) if rows.dtype == np.float16 else MASKED
        seen = np.max(rows, axis=(1, 2)) > limit
    columns = seen.shape[1]
    lengths = [columns - int(np.argmax(row[::-1])) if row.any() else 0 for row in seen]
    return lengths if len(lengths) == batch else lengths * batch


@dataclass(frozen=True, slots=True)
class AttentionCache:
    """Where keys and values lie once the new rows are stored.

    Attributes:
        keys: tensors [B, KV, rows or more, D], one after the other in position.
        values: as ``keys``.
        rows: valid rows of each tensor, per batch entry.
        offset: absolute position of query row 0, per batch entry.
        total: T, the key extent that masks and scores have.
    """

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    rows: tuple[tuple[int, ...], ...]
    offset: tuple[int, ...]
    total: int


def open_cache(call: Call, form: AttentionForm, keys: Array, values: Array) -> AttentionCache:
    """Store the new rows where the caller's buffers say, and tell where everything lies.

    * no past: the inputs are the cache; with ``nonpad_kv_seqlen`` only their valid prefix is read;
    * capacity form (placed present is past's own buffer of one extent, as wide as the mask): in place;
    * append form (past is a prefix of the buffer that placed present is): in place behind it;
    * else present is past followed by the new rows, or past and new rows are read where they are.

    Raises:
        BindingError: the mask leaves no room for the new rows.
    """
    present = _present(call, form)
    if form.past or call.has(4):
        if present is not None:
            return _with_present(call, form, (keys, values), present)
        past = (call.array(4), call.array(5))
        rows = ((form.past, form.keys),) * form.batch
        offsets = (form.past,) * form.batch
        return AttentionCache((past[0], keys), (past[1], values), rows, offsets, form.past + form.keys)
    if present is not None:
        np.copyto(present[0], keys)
        np.copyto(present[1], values)
    offset, valid = (0,) * form.batch, (form.keys,) * form.batch
    nonpad = call.optional(6)
    if nonpad is not None:
        valid = tuple(_clamped(call.node, int(item), form.keys) for item in nonpad.reshape(-1).tolist())
        offset = tuple(item - form.queries for item in valid)
    return AttentionCache((keys,), (values,), tuple((item,) for item in valid), offset, form.keys)


def _clamped(node: Node, length: int, keys: int) -> int:
    if not 0 <= length <= keys:
        raise BindingError(
            f"nonpad_kv_seqlen of {node.qualified}",
            f"{length} rows are said to be valid and the cache has {keys}",
            "Bind the number of rows that are valid after the write",
            node.name,
        )
    return length


def _present(call: Call, form: AttentionForm) -> tuple[Array, Array] | None:
    if not (call.wants(1) or call.wants(2)):
        return None
    rows = form.past if _capacity(call, form) else form.past + form.keys
    lead = (form.batch, form.kv_heads, rows)
    return call.output(1, (*lead, form.width)), call.output(2, (*lead, form.value_width))


def _capacity(call: Call, form: AttentionForm) -> bool:
    """Whether past and the placed present are one buffer of one extent, as wide as the mask."""
    placed, mask = call.placed[1], call.optional(3)
    if not isinstance(placed, np.ndarray) or mask is None or not call.has(4):
        return False
    if placed.shape[2] != form.past or mask.shape[-1] != form.past or form.keys == 0:
        return False
    return same_buffer(call.array(4), placed, call.node)


def _with_present(
    call: Call, form: AttentionForm, new: tuple[Array, Array], present: tuple[Array, Array]
) -> AttentionCache:
    if _capacity(call, form):
        lengths = tuple(valid_lengths(call.array(3), form.batch))
        starts = tuple(length - form.keys for length in lengths)
    else:
        starts = (form.past,) * form.batch
        lengths = (form.past + form.keys,) * form.batch
        for index in (0, 1):
            if not same_buffer(call.array(4 + index), present[index], call.node):
                np.copyto(present[index][:, :, : form.past], call.array(4 + index))
    for entry, start in enumerate(starts):
        _append(call.node, form, [item[entry] for item in new], [item[entry] for item in present], start)
    rows = tuple((length,) for length in lengths)
    return AttentionCache((present[0],), (present[1],), rows, starts, present[0].shape[2])


def _append(node: Node, form: AttentionForm, new: list[Array], present: list[Array], start: int) -> None:
    if start < 0:
        raise BindingError(
            f"attn_mask of {node.qualified}",
            f"it shows {start + form.keys} keys, fewer than the {form.keys} that are being appended",
            "Let the mask show every key up to the last new one",
            node.name,
        )
    for source, target in zip(new, present, strict=True):
        target[:, start : start + form.keys] = source

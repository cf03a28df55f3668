"""The key/value cache of GroupQueryAttention: opening it, storing the new rows, sliding its window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import ElementType, from_numpy, numpy_dtype
from vramscope.ops.kernels.attend import Segment
from vramscope.ops.kernels.grouped_form import kept_rows
from vramscope.ops.kernels.grouped_inputs import cache_scale, overflow
from vramscope.ops.kernels.storage import Stored, same_buffer, write_rows

if TYPE_CHECKING:
    from typing import TypeAlias

    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.attend import Prepare
    from vramscope.ops.kernels.grouped_form import GroupedForm
    from vramscope.ops.kernels.grouped_inputs import Lengths
    from vramscope.ops.kernels.tiles import Scratch

    New: TypeAlias = "tuple[Array, Array, Prepare | None]"


@dataclass(frozen=True, slots=True)
class Cache:
    """Past and present of one call; index 0 is the key, 1 the value.

    Attributes:
        node: for messages.
        form: extents.
        lengths: of every entry.
        dtype: the cache's element type.
        past: [B, KV, P, stored width], absent: None.
        present: [B, KV, P', stored width]; None where no one wants it.
        scales: dequantisation scales, None for floats.
        shared: present is past's own buffer.
    """

    node: Node
    form: GroupedForm
    lengths: Lengths
    dtype: ElementType
    past: tuple[Array, Array] | None
    present: tuple[Array, Array] | None
    scales: tuple[Array | None, Array | None]
    shared: tuple[bool, bool]

    def stored(self, index: int, data: Array) -> Stored:
        """``data`` as this cache stores keys (0) or values (1)."""
        return Stored(data, self.form.bits, self.scales[index])


def open_cache(call: Call, form: GroupedForm, lengths: Lengths) -> Cache:
    """Take past and present and copy what must be copied: nothing, where they are one buffer.

    Raises:
        BindingError: the step does not fit the buffers.
    """
    past = (call.array(3), call.array(4)) if call.has(3) else None
    for total, new in zip(lengths.total, lengths.new, strict=True):
        held = kept_rows(total - new, form.past, form.window) if form.sliding else total - new
        if held > form.past:
            raise overflow(call.node, total - new, form.past)
    dtype = from_numpy((past[0] if past is not None else call.array(0)).dtype)
    if form.bits:
        scales: tuple[Array | None, Array | None] = (cache_scale(call, form, 12), cache_scale(call, form, 13))
    else:
        scales = (None, None)
    present, shared = _present(call, form, lengths, past)
    return Cache(call.node, form, lengths, dtype, past, present, scales, shared)


def _present(
    call: Call, form: GroupedForm, lengths: Lengths, past: tuple[Array, Array] | None
) -> tuple[tuple[Array, Array] | None, tuple[bool, bool]]:
    if not (call.wants(1) or call.wants(2)):
        return None, (False, False)
    rows = form.past if form.sliding else max(form.past, lengths.extent)
    shape = (form.batch, form.kv_heads, rows, form.stored_width)
    dtype = past[0].dtype if past is not None else None
    present = (call.output(1, shape, dtype), call.output(2, shape, dtype))
    shared = (False, False)
    if past is not None:
        shared = (
            same_buffer(past[0], present[0], call.node),
            same_buffer(past[1], present[1], call.node),
        )
    if not form.sliding:
        for index in (0, 1):
            if not shared[index]:
                _copy_past(past[index] if past is not None else None, present[index], lengths)
    return present, shared


def _copy_past(past: Array | None, present: Array, lengths: Lengths) -> None:
    """Past's valid rows into present; rows after the step's are zeroed, as onnxruntime's CPU kernel does."""
    for entry, (total, new) in enumerate(zip(lengths.total, lengths.new, strict=True)):
        if past is not None:
            present[entry, :, : total - new] = past[entry, :, : total - new]
        present[entry, :, total:] = 0


def store_new(cache: Cache, scratch: Scratch, entry: int, new: New) -> tuple[tuple[Segment, ...], int]:
    """Prepare and store the new rows; what to attend to, and the absolute position of its first key."""
    total, count = cache.lengths.total[entry], cache.lengths.new[entry]
    held = total - count
    if cache.present is not None and not cache.form.sliding:
        keys, values = (cache.stored(i, cache.present[i][entry]) for i in (0, 1))
        _store(keys, values, held, new, scratch)
        return (Segment(keys, values, total),), 0
    fresh = _fresh(cache, scratch)
    _store(*fresh, 0, new, scratch)
    if cache.form.sliding:
        held = kept_rows(held, cache.form.past, cache.form.window)
    segments = [Segment(*fresh, count)]
    if cache.past is not None and held:
        old = [cache.stored(i, cache.past[i][entry]) for i in (0, 1)]
        segments.insert(0, Segment(old[0], old[1], held))
    return tuple(segments), total - count - held


def _fresh(cache: Cache, scratch: Scratch) -> tuple[Stored, Stored]:
    """Room for one entry's new rows, in the cache's own type, in planned scratch."""
    form = cache.form
    shape = (form.kv_heads, form.positions, form.stored_width)
    kind = numpy_dtype(cache.dtype)
    empty = np.empty(0, np.uint8)
    keys, values = (
        cache.stored(i, scratch.bytes.get(name, empty).view(kind).reshape(shape))
        for i, name in enumerate(("new keys", "new values"))
    )
    return keys, values


def _store(keys: Stored, values: Stored, row: int, new: New, scratch: Scratch) -> None:
    raw_keys, raw_values, prepare = new
    _store_rows(keys, row, raw_keys, prepare, scratch)
    _store_rows(values, row, raw_values, None, scratch)


def _store_rows(stored: Stored, row: int, raw: Array, prepare: Prepare | None, scratch: Scratch) -> None:
    heads, count, width = raw.shape
    if prepare is None and stored.bits == 0:
        np.copyto(stored.data[:, row : row + count], raw, casting="unsafe")
        return
    direct = stored.bits == 0 and stored.data.dtype == scratch.queries.dtype
    step = max(1, scratch.rows(width) // heads)
    for start in range(0, count, step):
        part = raw[:, start : start + step]
        first = row + start
        rows = stored.data[:, first : first + part.shape[1]]
        tile = rows if direct else scratch.queries[: part.size].reshape(part.shape)
        np.copyto(tile, part, casting="unsafe")
        if prepare is not None:
            prepare(tile, 0, start, scratch.outputs)
        if not direct:
            write_rows(stored, first, tile)


def settle(cache: Cache, scratch: Scratch, entry: int, segments: tuple[Segment, ...]) -> None:
    """Bring a sliding cache up to date after attention: the newest rows in order from row 0."""
    if not cache.form.sliding or cache.present is None:
        return
    form = cache.form
    kept = kept_rows(cache.lengths.total[entry], form.past, form.window)
    for index in (0, 1):
        parts = [(item.keys if index == 0 else item.values).data[:, : item.rows] for item in segments]
        target = cache.present[index][entry]
        _slide(parts, target, kept, scratch)
        if not cache.shared[index]:
            target[:, kept:] = 0


def _slide(parts: list[Array], target: Array, kept: int, scratch: Scratch) -> None:
    """The last ``kept`` rows of ``parts``, through scratch: the oldest part may be ``target`` itself."""
    skip = sum(part.shape[1] for part in parts) - kept
    heads, _, width = target.shape
    room = scratch.bytes["window"].view(target.dtype)[: heads * kept * width].reshape(heads, kept, width)
    row = 0
    for part in parts:
        left = part[:, min(skip, part.shape[1]) :]
        skip = max(0, skip - part.shape[1])
        room[:, row : row + left.shape[1]] = left
        row += left.shape[1]
    target[:, :kept] = room

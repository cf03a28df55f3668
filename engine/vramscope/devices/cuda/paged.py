"""CUDA builder of PagedAttention: append into a pool of blocks, and attend through the block table."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.attend_decode import cluster_splits, decode_launch
from vramscope.devices.cuda.attend_form import (
    MOST_ROWS,
    PAGED_TOKENS,
    Attention,
    Lengths,
    Pages,
    Rotary,
    Rows,
    address,
    attend_launches,
    attend_source,
)
from vramscope.devices.cuda.launch import Launch
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.cuda_workspace import paged_splits, partial_bytes
from vramscope.ops.kernels.grouped_form import attention_scale
from vramscope.ops.kernels.paged_form import SHAPED_INPUTS, paged_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.work import Builder, Work
    from vramscope.ops.kernels.paged_form import PagedForm

PAGED_ATTENTION = ("com.microsoft", "PagedAttention")


def _paged(work: Work) -> list[Launch]:
    """PagedAttention; starts, lengths and blocks are read on the card, bounds in host memory not at all."""
    shapes = [work.shape(index) if work.has(index) else None for index in range(SHAPED_INPUTS)]
    form = paged_form(work.node, shapes)
    _check(work, form)
    starts, past, table = (_int32(work, index) for index in (5, 6, 7))
    pages = Pages(table, form.table, form.block_size, form.blocks, form.batch)
    lengths = Lengths(PAGED_TOKENS, past, starts, form.tokens, form.capacity)
    query, key, value = _parts(work, form)
    rotary, output = _rotary(work, form), work.output(0, (form.tokens, form.heads * form.width))
    if form.tokens == 0:
        return []
    splits = paged_splits(form)
    size = partial_bytes(form.tokens * form.heads, splits, form.width) if splits else 0
    attention = Attention(
        query.array,
        *(form.batch, form.tokens, form.heads, form.kv_heads, form.width),
        *(query.rows, _pool(work, form, 3), _pool(work, form, 4), _Part(output, form.width).rows),
        lengths,
        rotary,
        sink=work.optional(11),
        norm=work.optional(12),
        left=form.window - 1 if form.window else -1,
        right=0 if work.node.integer("is_causal", 1) else -1,
        scale=attention_scale(work.node, form.width),
        softcap=work.node.number("softcap", 0.0),
        epsilon=work.node.number("qk_norm_epsilon", 1e-6),
        splits=max(splits, 1),
        partial=work.scratch(size) if size else 0,
        pages=pages,
    )
    append = _Append(work, form, key, value, output, lengths, rotary, pages).launch()
    cluster = cluster_splits(form.capacity) if splits and _clusters(work, form) else 0
    if cluster:
        return [append, decode_launch(replace(attention, splits=cluster), None)]
    return [append, *attend_launches(attention)]


def _clusters(work: Work, form: PagedForm) -> bool:
    """Whether blocks of a cluster may share a token's keys and join their results themselves."""
    return work.mirror.clusters and form.heads // form.kv_heads <= MOST_ROWS


def _check(work: Work, form: PagedForm) -> None:
    """Raises NoKernelError for what the host kernel alone has."""
    query = work.input(0)
    if form.latent or form.rotary_offset:
        raise NoKernelError("its cache is latent, or its rotation begins inside the head")
    if any(work.input(index).dtype != query.dtype for index in (1, 2, 3, 4) if work.has(index)):
        raise NoKernelError("its cache is quantised, or of another type than its query")
    for index in (1, 2):
        if work.wants(index) and work.output(index).address != work.input(index + 2).address:
            raise NoKernelError("its caches are not written in place")


def _int32(work: Work, index: int) -> DeviceArray:
    value = work.input(index)
    if value.dtype != np.int32 or not value.contiguous:
        raise NoKernelError(f"input {index} is {value.dtype} or strided, and not plain int32")
    return value


@dataclass(frozen=True, slots=True)
class _Part:
    """Heads that follow each other in every token's row of a tensor, from column ``first`` on."""

    array: DeviceArray
    width: int
    first: int = 0

    @property
    def rows(self) -> Rows:
        """Tokens stand for entries and for positions alike."""
        token, inner = self.array.steps
        if inner != 1:
            raise NoKernelError("elements of a token do not lie side by side")
        start = self.array.address + self.first * self.array.itemsize
        return Rows(start, token, self.width, token)


def _parts(work: Work, form: PagedForm) -> tuple[_Part, _Part, _Part]:
    """Query, key and value rows."""
    if form.packed:
        ends = (0, form.heads * form.width, (form.heads + form.kv_heads) * form.width)
        whole = work.input(0)
        return _Part(whole, form.width), _Part(whole, form.width, ends[1]), _Part(whole, form.width, ends[2])
    parts = [_Part(work.input(index), form.width) for index in range(3)]
    return parts[0], parts[1], parts[2]


def _pool(work: Work, form: PagedForm, index: int) -> Rows:
    """A cache as rows of positions: all entries share it."""
    cache = work.input(index)
    if not cache.contiguous:
        raise NoKernelError(f"input {index} is strided")
    return Rows(cache.address, 0, form.width, form.kv_heads * form.width)


def _rotary(work: Work, form: PagedForm) -> Rotary:
    if work.node.integer("do_rotary", 0) == 0:
        return Rotary()
    cos, sin = work.input(8), work.input(9)
    plain = cos.contiguous and sin.contiguous and cos.dtype == work.input(0).dtype
    if not plain or cos.ndim != 2 or 2 * cos.shape[1] > form.width:
        raise NoKernelError("its cos and sin caches are strided, wider than the head or of another type")
    return Rotary(cos, sin, interleaved=work.node.integer("rotary_interleaved", 0) != 0)


@dataclass(frozen=True, slots=True)
class _Append:
    """New rows into the pool: keys normed and rotated."""

    work: Work
    form: PagedForm
    key: _Part
    value: _Part
    output: DeviceArray
    lengths: Lengths
    rotary: Rotary
    pages: Pages

    def launch(self) -> Launch:
        """A warp a token and head."""
        work, form, key, value = self.work, self.form, self.key.rows, self.value.rows
        slots = _int32(work, 10) if work.has(10) else None
        keys, values = (work.input(index) for index in (3, 4))
        pointers = (key.address, value.address, keys.address, values.address, self.output.address)
        more = (address(work.optional(13)), address(slots))
        row = form.kv_heads * form.width
        numbers = (key.position, key.head, value.position, value.head, row, form.width, form.rows)
        tail = (self.output.steps[0], form.heads * form.width)
        epsilon = struct.pack("<d", work.node.number("qk_norm_epsilon", 1e-6))
        head = struct.pack("<7Q9q", *pointers, *more, *numbers, *tail)
        argument = head + self.lengths.pack() + self.rotary.pack() + epsilon + self.pages.pack()
        text = attend_source(work.input(0), form.width, paged=True)
        return Launch(text, "append_paged", (form.tokens, form.kv_heads, 1), (32, 1, 1), (argument,))


BUILDERS: Mapping[tuple[str, str], Builder] = {PAGED_ATTENTION: _paged}

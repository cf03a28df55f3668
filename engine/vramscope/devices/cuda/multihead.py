"""CUDA builder of com.microsoft's MultiHeadAttention: equal head counts, soft masks, a cache that grows."""

from __future__ import annotations

import struct
from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.array import at_address
from vramscope.devices.cuda.attend_form import (
    FIXED,
    Attention,
    Lengths,
    Mask,
    Rows,
    attend_launches,
    heads_of,
)
from vramscope.devices.cuda.launch import Launch, pointer, source
from vramscope.devices.cuda.layout import flat_grid
from vramscope.devices.cuda.strided import THREADS, copy_launches, elementwise, type_name
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.cuda_workspace import mask_extents, multi_head_workspace, splits_of
from vramscope.ops.kernels.multihead import head_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.work import Builder, Work
    from vramscope.ops.kernels.multihead_core import HeadForm

ENDS, SPANS, NEW_KEYS, ALL_KEYS = 1, 2, 3, 4
"""Forms of a key mask, by their number in the kernel."""
LEAST = {"float": -3.4028235e38, "f16": -65504.0, "bf16": -3.3895314e38}
"""The lowest finite number of each type: a hidden key is never −∞."""


def _multi_head(work: Work) -> list[Launch]:
    """Bias, cache and mask first, each where there is one; then attention as of any operator."""
    node = work.node
    form = head_form(node, [work.shape(index) if work.has(index) else None for index in range(8)])
    _check(work, form)
    held = work.host_integers(8)[0] if work.has(8) else form.past
    if work.has(8) and held + form.keys > form.past:
        raise NoKernelError("its buffer is too short, which the host reports")
    total = held + form.keys
    room = work.regions(multi_head_workspace(work.query))
    queries, keys, values = _tensors(work, form)
    biases = _biases(work, form)
    before: list[Launch] = []
    if biases is not None:
        placed = _at(work, room["queries"], queries.shape)
        before += elementwise("add", "x0 + x1", [queries, biases[0]], placed)
        queries = placed
    found, rows = _cache(work, form, (keys, values), biases, (held, room))
    mask, masking = _mask(work, form, (held, total), room)
    output = heads_of(work.output(0, (form.batch, form.queries, form.heads * form.width)), form.heads)
    attention = Attention(
        queries,
        *(form.batch, form.queries, form.heads, form.heads, form.width),
        *(Rows.of(queries), *rows, Rows.of(output)),
        Lengths(FIXED, None, None, form.queries, total, offset=held),
        mask=mask,
        right=0 if node.integer("unidirectional", 0) else -1,
        scale=node.number("scale", 0.0) or 1.0 / sqrt(max(form.width, 1)),
        splits=splits_of(total) if form.queries == 1 else 1,
        partial=room.get("partial", 0),
    )
    return [*before, *found, *masking, *attend_launches(attention)]


def _check(work: Work, form: HeadForm) -> None:
    if work.has(9) or work.wants(3) or form.width != form.value_width:
        raise NoKernelError("beam search, handed out scores, or values with a head size of their own")
    if work.wants(1) != work.wants(2) or form.past + form.keys == 0:
        raise NoKernelError("it has no keys, or hands out one half of its cache")
    query = work.input(0)
    if any(work.has(index) and work.input(index).dtype != query.dtype for index in (1, 2, 3, 5, 6, 7)):
        raise NoKernelError("its tensors differ in type")
    if type_name(query.dtype) not in LEAST:
        raise NoKernelError(f"its kernel attends in float32, float16 and bfloat16, not {query.dtype}")
    if work.has(4) and work.input(4).dtype != np.int32:
        raise NoKernelError(f"its key mask is {work.input(4).dtype}")


def _at(work: Work, address: int, shape: tuple[int, ...]) -> DeviceArray:
    """Planned scratch as a tensor of the query's type."""
    query = work.input(0)
    flat = at_address(query.port, address, prod(shape) * query.itemsize)
    return flat.view(query.dtype).reshape(*shape)


def _tensors(work: Work, form: HeadForm) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
    """Queries, keys and values [B, N, positions, D] as views of whatever form the inputs have."""
    query = work.input(0)
    if query.ndim == 5:
        parts = query.transpose((3, 0, 2, 1, 4))
        return parts[0], parts[1], parts[2]
    key = work.input(1)
    if key.ndim == 5:
        pair = key.transpose((3, 0, 2, 1, 4))
        return heads_of(query, form.heads), pair[0], pair[1]
    if key.ndim == 4:
        return heads_of(query, form.heads), key, work.input(2)
    return heads_of(query, form.heads), heads_of(key, form.heads), heads_of(work.input(2), form.heads)


def _biases(work: Work, form: HeadForm) -> tuple[DeviceArray, DeviceArray | None, DeviceArray | None] | None:
    """The projection's bias as [1, N, 1, D] each; a key cache already contains its part."""
    bias = work.optional(3)
    if bias is None:
        return None
    hidden = form.heads * form.width
    parts = [
        bias[start : start + hidden].reshape(1, form.heads, 1, form.width)
        for start in (0, hidden, 2 * hidden)
    ]
    cached = work.has(1) and work.input(1).ndim == 4
    return (parts[0], None, None) if cached else (parts[0], parts[1], parts[2])


def _cache(
    work: Work,
    form: HeadForm,
    new: tuple[DeviceArray, DeviceArray],
    biases: tuple[DeviceArray, DeviceArray | None, DeviceArray | None] | None,
    where: tuple[int, dict[str, int]],
) -> tuple[list[Launch], tuple[Rows, Rows]]:
    """Past and new rows in the present, in scratch, or the new ones where they are."""
    held, room = where
    present = work.wants(1)
    if not present and "keys" not in room:
        return [], (Rows.of(new[0]), Rows.of(new[1]))
    found: list[Launch] = []
    targets = []
    for index, name in enumerate(("keys", "values")):
        shape = (form.batch, form.heads, form.past + form.keys, form.width)
        target = work.output(1 + index) if present else _at(work, room[name], shape)
        if work.has(6) and held:
            found += copy_launches(work.input(6 + index)[:, :, :held], target[:, :, :held])
        into = target[:, :, held : held + form.keys]
        bias = biases[1 + index] if biases is not None else None
        if bias is None:
            found += copy_launches(new[index], into)
        else:
            found += elementwise("add", "x0 + x1", [new[index], bias], into)
        targets.append(Rows.of(target))
    return found, (targets[0], targets[1])


def _mask(
    work: Work, form: HeadForm, extent: tuple[int, int], room: dict[str, int]
) -> tuple[Mask, list[Launch]]:
    """One additive mask of the key mask and the score bias, and what makes it."""
    held, total = extent
    bias = work.optional(5)
    if bias is not None and (bias.ndim != 4 or bias.shape[3] < total):
        raise NoKernelError(f"its score bias {bias.shape} does not broadcast")
    seen = work.optional(4)
    if seen is None:
        return (Mask() if bias is None else Mask(bias[..., :total], 2)), []
    entries, heads, rows = mask_extents(work.query, form)
    kind, steps, start = _mask_form(seen, form, held, total)
    out = _at(work, room["mask"], (entries, heads, rows, total))
    bias_steps = Mask(bias, 2).strides[:3] if bias is not None else (0, 0, 0)
    least = LEAST[type_name(out.dtype)]
    geometry = (heads, rows, total, held, entries, kind, *steps, *bias_steps)
    filtered = work.node.number("mask_filter_value", -10000.0)
    argument = struct.pack("<11q2d", *geometry, max(filtered, least), least)
    arguments = (argument, pointer(seen.address + 4 * start), pointer(bias), pointer(out))
    text = source("multihead", (("T", type_name(out.dtype)),))
    launch = Launch(text, "soft_mask", flat_grid(out.size), (THREADS, 1, 1), arguments)
    return Mask(out, 2), [launch]


def _mask_form(mask: DeviceArray, form: HeadForm, held: int, total: int) -> tuple[int, tuple[int, int], int]:
    """The kernel's number of the mask's form, its strides along entries and rows, where it starts."""
    if not mask.contiguous:
        raise NoKernelError("its key mask is strided")
    if mask.ndim == 1 and mask.size in (form.batch, 2 * form.batch, 3 * form.batch + 2):
        return (SPANS if mask.size == 2 * form.batch else ENDS), (0, 0), 0
    if mask.ndim == 2 and mask.shape == (form.batch, form.keys) and form.keys != total:
        return NEW_KEYS, (form.keys, 0), 0
    if mask.ndim in (2, 3) and mask.shape[0] == form.batch and mask.shape[-1] == total:
        return ALL_KEYS, (mask.steps[0], mask.steps[1] if mask.ndim == 3 else 0), 0
    if mask.ndim == 4 and mask.shape[0] == form.batch and mask.shape[1] == 1 and mask.shape[3] >= total:
        return ALL_KEYS, (mask.steps[0], mask.steps[2]), held * mask.steps[2]
    raise NoKernelError(f"its key mask is {mask.shape}")


BUILDERS: Mapping[tuple[str, str], Builder] = {("com.microsoft", "MultiHeadAttention"): _multi_head}
"""Builders of this family."""

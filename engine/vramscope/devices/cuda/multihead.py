"""CUDA builders of com.microsoft's MultiHeadAttention and Attention: soft masks, a cache that grows."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
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
from vramscope.devices.cuda.product_form import Bias, Product, Room, product_launch
from vramscope.devices.cuda.strided import THREADS, copy_launches, elementwise, type_name
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.cuda_workspace import (
    library_room,
    mask_extents,
    multi_head_workspace,
    projected_workspace,
    splits_of,
)
from vramscope.ops.kernels.multihead import head_form
from vramscope.ops.kernels.projection import projected_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.library_form import AnyLaunch
    from vramscope.devices.cuda.work import Builder, Work
    from vramscope.ops.kernels.multihead_core import HeadForm
    from vramscope.ops.kernels.projection import ProjectedForm

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
    cache = _Cache(
        held,
        (work.input(6), work.input(7)) if work.has(6) else None,
        (work.output(1), work.output(2)) if work.wants(1) else None,
        biases[1:] if biases is not None else (None, None),
    )
    found, rows = _stored(work, form, (keys, values), cache, room)
    mask, masking = _mask(work, 4, form, (held, total), room)
    return [*before, *found, *masking, *_attended(work, form, queries, rows, (held, total), mask, room)]


def _attended(
    work: Work,
    form: HeadForm,
    queries: DeviceArray,
    rows: tuple[Rows, Rows],
    extent: tuple[int, int],
    mask: Mask,
    room: dict[str, int],
) -> list[Launch]:
    """Attention over rows that are in place; ``extent``: rows of the past, and with the new ones."""
    node, (held, total) = work.node, extent
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
    return attend_launches(attention)


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


@dataclass(frozen=True, slots=True)
class _Cache:
    """Valid rows of the past; keys and values of past and present, [B, N, rows, D]; biases of new ones."""

    held: int
    past: tuple[DeviceArray, DeviceArray] | None
    present: tuple[DeviceArray, DeviceArray] | None
    biases: tuple[DeviceArray | None, DeviceArray | None] = (None, None)


def _stored(
    work: Work,
    form: HeadForm,
    new: tuple[DeviceArray, DeviceArray],
    cache: _Cache,
    room: dict[str, int],
) -> tuple[list[Launch], tuple[Rows, Rows]]:
    """Past and new rows in the present, in scratch, or the new ones where they are."""
    held = cache.held
    if cache.present is None and "keys" not in room:
        return [], (Rows.of(new[0]), Rows.of(new[1]))
    found: list[Launch] = []
    targets = []
    for index, name in enumerate(("keys", "values")):
        shape = (form.batch, form.heads, form.past + form.keys, form.width)
        target = cache.present[index] if cache.present is not None else _at(work, room[name], shape)
        if cache.past is not None and held:
            found += copy_launches(cache.past[index][:, :, :held], target[:, :, :held])
        into = target[:, :, held : held + form.keys]
        bias = cache.biases[index]
        if bias is None:
            found += copy_launches(new[index], into)
        else:
            found += elementwise("add", "x0 + x1", [new[index], bias], into)
        targets.append(Rows.of(target))
    return found, (targets[0], targets[1])


def _mask(
    work: Work, index: int, form: HeadForm, extent: tuple[int, int], room: dict[str, int]
) -> tuple[Mask, list[Launch]]:
    """One additive mask of the key mask (input ``index``) and the score bias, and what makes it."""
    held, total = extent
    bias = work.optional(5)
    if bias is not None and (bias.ndim != 4 or bias.shape[3] < total):
        raise NoKernelError(f"its score bias {bias.shape} does not broadcast")
    seen = work.optional(index)
    if seen is None:
        return (Mask() if bias is None else Mask(bias[..., :total], 2)), []
    entries, heads, rows = mask_extents(form, seen.shape, bias.shape if bias is not None else None)
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


def _projected(work: Work) -> list[AnyLaunch]:
    """One product makes queries, keys and values; then as for separate ones, with a past in one tensor."""
    node, past = work.node, work.optional(4)
    form = projected_form(node, work.shape(0), work.shape(1), past.shape if past is not None else None)
    heads = form.heads
    _check_projected(work, heads)
    held = work.host_integers(6)[0] if work.has(6) else heads.past
    if work.has(6) and held + heads.keys > heads.past:
        raise NoKernelError("its buffer is too short, which the host reports")
    total = held + heads.keys
    room = work.regions(projected_workspace(work.query))
    product = _projection(work, form, room)
    whole = _at(work, room["projection"], (heads.batch, heads.queries, form.width))
    ends = (0, form.columns[0], 2 * form.columns[0], form.width)
    parts = [heads_of(whole[..., start:end], heads.heads) for start, end in pairwise(ends)]
    present = work.output(1) if work.wants(1) else None
    cache = _Cache(
        held,
        (past[0], past[1]) if past is not None else None,
        (present[0], present[1]) if present is not None else None,
    )
    stored, rows = _stored(work, heads, (parts[1], parts[2]), cache, room)
    mask, masking = _mask(work, 3, heads, (held, total), room)
    return [product, *stored, *masking, *_attended(work, heads, parts[0], rows, (held, total), mask, room)]


def _check_projected(work: Work, form: HeadForm) -> None:
    if work.node.integer("do_rotary", 0) or form.width != form.value_width:
        raise NoKernelError("it rotates, or its values have a head size of their own")
    source = work.input(0)
    if any(work.has(index) and work.input(index).dtype != source.dtype for index in (1, 2, 4, 5)):
        raise NoKernelError("its tensors differ in type")
    if type_name(source.dtype) not in LEAST:
        raise NoKernelError(f"its kernel attends in float32, float16 and bfloat16, not {source.dtype}")
    if work.has(3) and work.input(3).dtype != np.int32:
        raise NoKernelError(f"its key mask is {work.input(3).dtype}")
    if not source.contiguous or not work.input(1).contiguous or source.size == 0:
        raise NoKernelError("its input or its weight is strided or empty")


def _projection(work: Work, form: ProjectedForm, room: dict[str, int]) -> AnyLaunch:
    """Input times weight, and the bias, into scratch."""
    source, weight, bias = work.input(0), work.input(1), work.optional(2)
    product = Product(form.rows, form.width, form.depth, (form.depth, 1), (form.width, 1), form.width)
    size = library_room(form.rows, form.width)
    return product_launch(
        type_name(source.dtype),
        product,
        (source.address, weight.address, room["projection"]),
        bias=None if bias is None else Bias(bias, (0, 1)),
        room=Room(room["product"], size) if size and work.mirror.library else None,
    )


BUILDERS: Mapping[tuple[str, str], Builder] = {
    ("com.microsoft", "MultiHeadAttention"): _multi_head,
    ("com.microsoft", "Attention"): _projected,
}
"""Builders of this family."""

"""CUDA builder of IndexShare: attention over selected positions of a cache, growing or filled in place."""

from __future__ import annotations

import struct
from math import isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.attend_form import Rows
from vramscope.devices.cuda.launch import Launch, Source, numbers, pointer, source
from vramscope.devices.cuda.layout import flat_grid
from vramscope.devices.cuda.rows import MOST_SHARED
from vramscope.devices.cuda.strided import THREADS, copy_launches, type_name
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.cuda_workspace import index_share_workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.work import Builder, Work


def _index_share(work: Work) -> list[Launch]:
    query, key, value, index = (work.input(place) for place in (0, 1, 2, 5))
    _check(work)
    past = [work.input(3), work.input(4)] if work.has(3) else []
    held, fresh = (past[0].shape[2] if past else 0), key.shape[2]
    text = source("selected", (("T", type_name(query.dtype)), ("I", type_name(index.dtype))))
    bias = work.optional(6)
    present = [work.output(1), work.output(2)] if work.wants(1) else []
    capacity = bool(present) and bool(past) and present[0].shape[2] == held and fresh > 0
    before: list[Launch] = []
    valid, rows = 0, held + fresh
    if capacity:
        if bias is None:
            raise NoKernelError("nothing says what is valid in its cache, which the host reports")
        rows, valid = held, work.regions(index_share_workspace(work.query))["valid"]
        before += _filled(text, bias, (past, [key, value], present), valid)
    elif present:
        for place, new in enumerate((key, value)):
            if past:
                before += copy_launches(past[place], present[place][:, :, :held])
            before += copy_launches(new, present[place][:, :, held:])
    whole = present or past or [key, value]
    first = rows if present else held
    where = (Rows.of(whole[0]), Rows.of(whole[1]), Rows.of(key), Rows.of(value))
    return [*before, *_attended(work, text, where, (first, rows, valid))]


def _check(work: Work) -> None:
    query, index, scale = work.input(0), work.input(5), work.node.number("scale", 1.0)
    every = [work.input(place) for place in (1, 2, 3, 4, 6) if work.has(place)]
    if type_name(query.dtype) not in ("float", "f16", "bf16") or any(x.dtype != query.dtype for x in every):
        raise NoKernelError("its tensors differ in type")
    if work.wants(1) != work.wants(2) or not isfinite(scale) or scale <= 0:
        raise NoKernelError("it hands out one half of its cache, or its scale is no scale")
    if index.dtype not in (np.int64, np.int32) or not index.contiguous or index.size == 0:
        raise NoKernelError(f"its indices are {index.dtype}, strided or none")
    if any(work.wants(place) and not work.output(place).contiguous for place in (1, 2)):
        raise NoKernelError("its cache is strided")
    if 4 * (query.shape[3] + index.shape[3]) > MOST_SHARED - 1024:
        raise NoKernelError(f"it selects {index.shape[3]:,} positions a row")


def _steps(bias: DeviceArray | None) -> tuple[int, ...]:
    """Strides of a bias along batch, head, row and key; 0 where it repeats."""
    if bias is None:
        return (0, 0, 0, 0)
    own = [0 if extent == 1 else step for extent, step in zip(bias.shape, bias.steps, strict=True)]
    return (*(0,) * (4 - bias.ndim), *own)


def _filled(
    text: Source, bias: DeviceArray, tensors: tuple[list[DeviceArray], ...], valid: int
) -> list[Launch]:
    """Past rows where they are not in place, valid lengths out of the bias, the new rows before their end."""
    past, new, present = tensors
    batch, heads, rows, width = present[0].shape
    found: list[Launch] = []
    for old, into in zip(past, present, strict=True):
        if old.address != into.address:
            found += copy_launches(old, into)
    shape = (*(1,) * (4 - bias.ndim), *bias.shape)
    argument = numbers((shape[1], shape[2], rows, *_steps(bias)))
    opening = (argument, pointer(bias), pointer(valid))
    found.append(Launch(text, "open_rows", (batch, 1, 1), (256, 1, 1), opening))
    for fresh, into in zip(new, present, strict=True):
        geometry = numbers((batch, heads, fresh.shape[2], width, rows, *Rows.of(fresh).strides))
        arguments = (geometry, pointer(fresh), pointer(valid), pointer(into))
        found.append(Launch(text, "place_rows", flat_grid(fresh.size), (THREADS, 1, 1), arguments))
    return found


def _attended(
    work: Work, text: Source, where: tuple[Rows, Rows, Rows, Rows], extent: tuple[int, int, int]
) -> list[Launch]:
    query, index, bias = work.input(0), work.input(5), work.optional(6)
    out = work.output(0, query.shape)
    batch, heads, queries, width = query.shape
    if out.size == 0:
        return []
    first, rows, valid = extent
    kv_heads = work.node.integer("kv_num_heads", heads)
    rows_of = (Rows.of(query), *where)
    bias_address = 0 if bias is None else bias.address
    pointers = (*(item.address for item in rows_of), bias_address, index.address, valid, out.address)
    sizes = (heads, heads // kv_heads, queries, width, index.shape[3], index.shape[1], first, rows)
    strides = [step for item in rows_of for step in item.strides]
    strides += [*_steps(bias), *Rows.of(out).strides]
    scale = work.node.number("scale", 1.0 / sqrt(max(width, 1)))
    argument = numbers((*pointers, *sizes, *strides)) + struct.pack("<d", scale)
    shared = 4 * (width + index.shape[3])
    return [Launch(text, "selected", (queries, heads, batch), (128, 1, 1), (argument,), shared)]


BUILDERS: Mapping[tuple[str, str], Builder] = {("pkg.nxrt", "IndexShare"): _index_share}
"""Builders of this family."""

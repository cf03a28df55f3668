"""CUDA builders of operators that read or write where an index says, repeat, pad, or pick the largest."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.launch import Launch, numbers, pointer, source
from vramscope.devices.cuda.layout import flat_grid, unit_of
from vramscope.devices.cuda.rows import row_threads
from vramscope.devices.cuda.strided import THREADS, copy_launches, elementwise, type_name
from vramscope.devices.cuda.work import NoKernelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.work import Builder, Work

MOST_RANK = 8


def _launch(function: str, count: int, arguments: Sequence[bytes]) -> list[Launch]:
    if count == 0:
        return []
    return [Launch(source("indexing"), function, flat_grid(count), (THREADS, 1, 1), tuple(arguments))]


def _padded(values: Sequence[int]) -> tuple[int, ...]:
    return (*values, *(0,) * (MOST_RANK - len(values)))


def _unit(value: DeviceArray) -> str:
    size, name = unit_of(value.itemsize)
    if size > 8:
        raise NoKernelError(f"no kernel moves {value.dtype}")
    return name


def _kind_of(index: DeviceArray) -> str:
    if index.dtype not in (np.int64, np.int32):
        raise NoKernelError(f"its indices are {index.dtype}")
    return "i64" if index.dtype == np.int64 else "i32"


def _contiguous(*tensors: DeviceArray) -> None:
    if not all(item.contiguous and item.ndim <= MOST_RANK for item in tensors):
        raise NoKernelError("a tensor is strided, or has more than 8 axes")


def _plain_scatter(work: Work) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
    if work.node.text("reduction", "none") != "none":
        raise NoKernelError("it reduces what meets in one element")
    data, index, update, out = work.input(0), work.input(1), work.input(2), work.output(0)
    _contiguous(index, update, out)
    return data, index, update, out


def _scatter_nd(work: Work) -> list[Launch]:
    """The data where it is not the output's own buffer, then the slices."""
    data, index, update, out = _plain_scatter(work)
    if index.dtype != np.int64:
        raise NoKernelError(f"its indices are {index.dtype}")
    depth = index.shape[-1]
    tuples, inner = prod(index.shape[:-1]), prod(out.shape[depth:])
    geometry = (tuples, inner, depth, *_padded(out.shape[:depth]), *_padded(out.steps[:depth]))
    arguments = (numbers(geometry), pointer(update), pointer(index), pointer(out))
    return [*copy_launches(data, out), *_launch(f"scatter_nd_{_unit(out)}", tuples * inner, arguments)]


def _elements(work: Work, index: DeviceArray, data: DeviceArray) -> bytes:
    axis = work.node.integer("axis", 0) % max(data.ndim, 1)
    head = (data.ndim, axis, data.shape[axis], index.size)
    return numbers((*head, *_padded(index.shape), *_padded(data.steps)))


def _scatter_elements(work: Work) -> list[Launch]:
    data, index, update, out = _plain_scatter(work)
    arguments = (_elements(work, index, out), pointer(update), pointer(index), pointer(out))
    function = f"scatter_elements_{_unit(out)}_{_kind_of(index)}"
    return [*copy_launches(data, out), *_launch(function, index.size, arguments)]


def _gather_elements(work: Work) -> list[Launch]:
    data, index, out = work.input(0), work.input(1), work.output(0)
    _contiguous(index, out)
    arguments = (_elements(work, index, data), pointer(data), pointer(index), pointer(out))
    return _launch(f"gather_elements_{_unit(out)}_{_kind_of(index)}", out.size, arguments)


def _trilu(work: Work) -> list[Launch]:
    x, out = work.input(0), work.output(0)
    _contiguous(x, out)
    k = work.host_integers(1)[0] if work.has(1) else 0
    geometry = (out.size, *x.shape[-2:], k, work.node.integer("upper", 1))
    return _launch(f"triangle_{_unit(x)}", out.size, (numbers(geometry), pointer(x), pointer(out)))


def _one_hot(work: Work) -> list[Launch]:
    index, values, out = work.input(0), work.input(2), work.output(0)
    _contiguous(index, values, out)
    axis = work.node.integer("axis", -1) % out.ndim
    geometry = (out.size, out.shape[axis], prod(out.shape[axis + 1 :]))
    arguments = (numbers(geometry), pointer(index), pointer(values), pointer(out))
    return _launch(f"one_hot_{_unit(out)}_{_kind_of(index)}", out.size, arguments)


def _tile(work: Work) -> list[Launch]:
    """The input repeated as a broadcast along axes of its own."""
    x, out = work.input(0), work.output(0)
    repeats = work.host_integers(1)
    pairs = tuple(n for pair in zip(repeats, x.shape, strict=True) for n in pair)
    spread = x.reshape(*(n for extent in x.shape for n in (1, extent))) if x.ndim else x
    return copy_launches(spread.broadcast(pairs), out.reshape(*pairs)) if x.ndim else copy_launches(x, out)


def _pad(work: Work) -> list[Launch]:
    """The constant everywhere, then the input where it belongs."""
    x, out = work.input(0), work.output(0)
    if work.node.text("mode", "constant") != "constant" or not work.has(1):
        raise NoKernelError("its mode is not constant, or its pads are attributes")
    pads = work.host_integers(1)
    axes = work.host_integers(3) if work.has(3) else tuple(range(x.ndim))
    if min(pads, default=0) < 0:
        raise NoKernelError("a negative pad crops")
    inside = [slice(None)] * x.ndim
    for place, axis in enumerate(axes):
        inside[axis] = slice(pads[place], pads[place] + x.shape[axis])
    value = [work.input(2).reshape(())] if work.has(2) else []
    filling = elementwise("fill", "x0" if value else "0", value, out)
    return [*filling, *copy_launches(x, out[tuple(inside)])]


def _blocks_to_pixels(work: Work) -> list[Launch]:
    """DepthToSpace: a transposed copy."""
    x, out, size = work.input(0), work.output(0), work.node.integer("blocksize", 1)
    batch, depth, height, width = out.shape[0], out.shape[1], *x.shape[2:]
    if work.node.text("mode", "DCR") == "DCR":
        parts = x.reshape(batch, size, size, depth, height, width).transpose((0, 3, 4, 1, 5, 2))
    else:
        parts = x.reshape(batch, depth, size, size, height, width).transpose((0, 1, 4, 2, 5, 3))
    return copy_launches(parts, out.reshape(*parts.shape))


def _pixels_to_blocks(work: Work) -> list[Launch]:
    """SpaceToDepth: a transposed copy."""
    x, out, size = work.input(0), work.output(0), work.node.integer("blocksize", 1)
    batch, channels, height, width = x.shape
    parts = x.reshape(batch, channels, height // size, size, width // size, size)
    order = (0, 3, 5, 1, 2, 4) if work.node.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = parts.transpose(order)
    return copy_launches(moved, out.reshape(*moved.shape))


def _best(
    work: Work,
    axis: int,
    count: int,
    outputs: tuple[DeviceArray | None, DeviceArray | None],
    flags: tuple[int, int],
) -> list[Launch]:
    """The ``count`` highest of each line: values and places; ``flags``: lowest instead, last among equals."""
    x = work.input(0)
    _contiguous(x, *(item for item in outputs if item is not None))
    kind = type_name(x.dtype)
    if kind not in ("float", "f16", "bf16"):
        raise NoKernelError(f"its kernel compares float32, float16 and bfloat16, not {x.dtype}")
    if x.size == 0 or count == 0:
        return []
    axis %= x.ndim
    width, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    arguments = (numbers((width, inner, count, *flags)), pointer(x), *(pointer(item) for item in outputs))
    grid, threads = (x.size // width, 1, 1), (row_threads(width), 1, 1)
    return [Launch(source("indexing"), f"best_{kind}", grid, threads, arguments)]


def _extreme_place(work: Work) -> list[Launch]:
    """ArgMax and ArgMin."""
    node = work.node
    flags = (int(node.operator == "ArgMin"), node.integer("select_last_index", 0))
    return _best(work, node.integer("axis", 0), 1, (None, work.output(0)), flags)


def _top(work: Work) -> list[Launch]:
    """TopK, in order."""
    axis, least = work.node.integer("axis", -1), int(work.node.integer("largest", 1) == 0)
    if not work.has(1):
        raise NoKernelError("its k is an attribute")
    outputs = tuple(work.output(index) if work.wants(index) else None for index in (0, 1))
    return _best(work, axis, work.host_integers(1)[0], (outputs[0], outputs[1]), (least, 0))


BUILDERS: Mapping[tuple[str, str], Builder] = {
    ("", "ScatterND"): _scatter_nd,
    ("", "ScatterElements"): _scatter_elements,
    ("", "Scatter"): _scatter_elements,
    ("", "GatherElements"): _gather_elements,
    ("", "Trilu"): _trilu,
    ("", "OneHot"): _one_hot,
    ("", "Tile"): _tile,
    ("", "Pad"): _pad,
    ("", "DepthToSpace"): _blocks_to_pixels,
    ("", "SpaceToDepth"): _pixels_to_blocks,
    ("", "ArgMax"): _extreme_place,
    ("", "ArgMin"): _extreme_place,
    ("", "TopK"): _top,
}
"""Builders of this family."""

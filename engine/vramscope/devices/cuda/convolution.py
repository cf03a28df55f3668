"""CUDA builder of Conv: one or two spatial axes, any groups, strides, dilations and padding; no scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.devices.cuda.launch import Launch, blocks, numbers, pointer, source
from vramscope.devices.cuda.layout import flat_grid
from vramscope.devices.cuda.strided import THREADS, type_name
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.kernels.convolution import conv_windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.work import Builder, Work

SIDE = 64
"""Filters and pixels of one block's tile."""
FEW_FILTERS = 8
"""Filters of a group up to which a thread makes an output by itself."""
MOST_GRID = 65535


def _convolution(work: Work) -> list[Launch]:
    x, weight, bias, out = work.input(0), work.input(1), work.optional(2), work.output(0)
    form = conv_windows(work.node, x.shape, weight.shape)
    kind = type_name(x.dtype)
    every = [x, weight, out, *([bias] if bias is not None else [])]
    if len(form.extent) > 2 or kind not in ("float", "f16", "bf16"):
        raise NoKernelError(
            f"its kernel convolves one or two axes of floats, not {len(form.extent)} of {kind}"
        )
    if not all(item.contiguous for item in every) or any(item.dtype != x.dtype for item in every):
        raise NoKernelError("a tensor is strided or of another type")
    if out.size == 0:
        return []
    line = (1,) * (2 - len(form.extent))
    zero = (0,) * len(line)
    group, filters = work.node.integer("group", 1), weight.shape[0]
    outputs = (*line, *form.output)
    geometry = numbers(
        (
            *(x.shape[0], x.shape[1], *line, *form.extent, filters, *outputs, group, *line, *form.kernel),
            *(*line, *form.strides, *line, *form.dilations, *zero, *form.before),
        )
    )
    arguments = (geometry, pointer(x), pointer(weight), pointer(bias), pointer(out))
    text = source("convolution", (("T", kind),))
    images = x.shape[0] * group
    if filters // group <= FEW_FILTERS or images > MOST_GRID:
        return [Launch(text, "convolve_few", flat_grid(out.size), (THREADS, 1, 1), arguments)]
    grid = (blocks(outputs[0] * outputs[1], SIDE), blocks(filters // group, SIDE), images)
    return [Launch(text, "convolve", grid, (256, 1, 1), arguments)]


BUILDERS: Mapping[tuple[str, str], Builder] = {("", "Conv"): _convolution}
"""Builders of this family."""

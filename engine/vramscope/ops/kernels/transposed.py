"""Host kernel of ConvTranspose: one product a group, its columns added at every place of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.kernels.windows import Windows, channels
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement


@dataclass(frozen=True, slots=True)
class _Form:
    """``spread``: the windows whose places receive the input; ``output``: extents after cropping."""

    spread: Windows
    output: tuple[int, ...]
    full: tuple[int, ...]
    before: tuple[int, ...]
    filters: int
    group: int


def _form(node: Node, source: tuple[int, ...], weight: tuple[int, ...]) -> _Form:
    rank = len(source) - 2
    group = node.integer("group", 1)
    if rank < 1 or len(weight) != len(source) or weight[0] != source[1] or source[1] % group:
        raise ModelGraphError(
            f"inputs of {node.qualified}",
            f"X {list(source)} and W {list(weight)} do not fit with {group} groups",
            "",
            node.name,
        )
    extent, kernel = source[2:], node.integers("kernel_shape", weight[2:])
    strides = node.integers("strides", (1,) * rank)
    dilations = node.integers("dilations", (1,) * rank)
    extra = node.integers("output_padding", (0,) * rank)
    reach = tuple((extent[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(rank))
    before, output = _crop(node, extent, strides, tuple(r + e for r, e in zip(reach, extra, strict=True)))
    full = tuple(max(reach[i], before[i] + output[i]) for i in range(rank))
    spread = Windows(full, kernel, strides, dilations, (0,) * rank, (0,) * rank, extent)
    return _Form(spread, output, full, before, weight[1] * group, group)


def _crop(
    node: Node, extent: tuple[int, ...], strides: tuple[int, ...], reach: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is cut off before the output on each axis, and the output's extents."""
    rank = len(extent)
    automatic = node.text("auto_pad", "NOTSET")
    wanted = node.integers("output_shape")[-rank:]
    if not wanted and automatic in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(extent[i] * strides[i] for i in range(rank))
    if wanted:
        totals = [max(0, reach[i] - wanted[i]) for i in range(rank)]
        upper = automatic == "SAME_UPPER"
        return tuple(total // 2 if upper else total - total // 2 for total in totals), wanted
    pads = node.integers("pads", (0,) * (2 * rank)) if automatic == "NOTSET" else (0,) * (2 * rank)
    return pads[:rank], tuple(reach[i] - pads[i] - pads[rank + i] for i in range(rank))


def conv_transpose_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Columns of one group's image, the uncropped output of one image; half types also widened operands."""
    source, weight = query.input(0), query.input(1)
    form = _form(query.node, source.shape, weight.shape)
    half = source.dtype in (ElementType.FLOAT16, ElementType.BFLOAT16)
    itemsize = 8 if source.dtype is ElementType.DOUBLE else 4
    sizes = {
        "columns": itemsize * prod(weight.shape[1:]) * prod(form.spread.output),
        "full": itemsize * form.filters * prod(form.full),
        "image": itemsize * prod(source.shape[1:]) if half else 0,
        "weight": itemsize * prod(weight.shape) if half else 0,
    }
    return lay_out("host-conv-transpose", sizes)


def conv_transpose(call: Call) -> None:
    """Y [N, M, output] of X [N, C, spatial], W [C, M / group, kernel] and B [M]; any number of axes."""
    source, weight, bias = call.array(0), call.array(1), call.optional(2)
    form = _form(call.node, source.shape, weight.shape)
    out = call.output(0, (source.shape[0], form.filters, *form.output))
    requirement = conv_transpose_workspace(query_of(call))
    dtype = np.dtype(np.float64 if source.dtype == np.float64 else np.float32)
    full = region_of(call, requirement, "full", (form.filters, *form.full), dtype)
    columns = region_of(call, requirement, "columns", (*weight.shape[1:], prod(form.spread.output)), dtype)
    factors = _converted(weight, call, requirement, "weight", dtype)
    crop = tuple(slice(b, b + o) for b, o in zip(form.before, form.output, strict=True))
    for image, target in zip(source, out, strict=True):
        full[...] = 0
        _scatter(form, _converted(image, call, requirement, "image", dtype), factors, columns, full)
        if bias is not None:
            shape = (-1, *(1,) * len(form.output))
            np.add(full, bias.reshape(shape), out=full, dtype=dtype, casting="unsafe")
        np.copyto(target, full[channels(*crop)], casting="unsafe")


def _converted(
    array: Array, call: Call, requirement: WorkspaceRequirement, name: str, dtype: np.dtype[np.generic]
) -> Values:
    if array.dtype == dtype:
        return array
    wide = region_of(call, requirement, name, array.shape, dtype)
    np.copyto(wide, array, casting="unsafe")
    return wide


def _scatter(form: _Form, image: Values, factors: Values, columns: Values, full: Values) -> None:
    per, depth = form.filters // form.group, image.shape[0] // form.group
    flat = columns.reshape(-1, columns.shape[-1])
    for number in range(form.group):
        own = slice(number * depth, (number + 1) * depth)
        np.matmul(factors[own].reshape(depth, -1).T, image[own].reshape(depth, -1), out=flat)
        target = full[number * per : (number + 1) * per]
        placed = columns.reshape(*columns.shape[:-1], *form.spread.output)
        for place, part in form.spread.offsets():
            view = target[channels(*part)]
            np.add(view, placed[channels(*place)], out=view)


SPECS: tuple[OpSpec, ...] = (OpSpec("", "ConvTranspose", conv_transpose, workspace=conv_transpose_workspace),)

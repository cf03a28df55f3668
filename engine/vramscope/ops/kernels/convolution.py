"""Host kernels: Conv and ConvTranspose as matrix products over tiles of unfolded windows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels import pooling, transposed
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.kernels.windows import Windows, channels, fill_padded, windows
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

TILE_ELEMENTS = 1 << 20
"""Elements of unfolded windows in work at once, unless one row of windows has more."""


def conv_windows(node: Node, source: tuple[int, ...], weight: tuple[int, ...]) -> Windows:
    """The windows of a convolution of ``source`` [N, C, spatial] with ``weight`` [M, C / group, kernel].

    Raises:
        ModelGraphError: ranks or channels do not fit.
    """
    group = node.integer("group", 1)
    if len(source) < 3 or len(weight) != len(source) or weight[1] * group != source[1] or weight[0] % group:
        raise ModelGraphError(
            f"inputs of {node.qualified}",
            f"X {list(source)} and W {list(weight)} do not fit with {group} groups",
            "",
            node.name,
        )
    return windows(node, source[2:], node.integers("kernel_shape", weight[2:]))


def is_depthwise(node: Node, source: tuple[int, ...], weight: tuple[int, ...]) -> bool:
    """Whether each channel is convolved with one kernel of its own."""
    return node.integer("group", 1) == source[1] == weight[0] and source[1] > 1


def tile_rows(form: Windows, depth: int) -> int:
    """Windows along the first spatial axis in one tile; ``depth``: elements of one window."""
    row = depth * prod(form.output[1:])
    return max(1, min(form.output[0], TILE_ELEMENTS // max(row, 1)))


def conv_sizes(
    node: Node, source: tuple[int, ...], weight: tuple[int, ...], itemsize: int, *, convert: bool
) -> dict[str, int]:
    """Bytes of a convolution's scratch; ``convert``: operands change to the arithmetic's type first."""
    form = conv_windows(node, source, weight)
    row = prod(weight[1:]) * prod(form.output[1:])
    unfolded = min(row * form.output[0], max(row, TILE_ELEMENTS))
    depthwise = is_depthwise(node, source, weight)
    direct = form.plain and not convert and not depthwise
    return {
        "padded": 0 if direct else itemsize * source[1] * prod(form.padded),
        "unfolded": 0 if direct or depthwise else itemsize * unfolded,
        "product": itemsize * source[1] * prod(form.output) if depthwise else 0,
        "weight": itemsize * prod(weight) if convert else 0,
        "result": itemsize * weight[0] * prod(form.output) if convert else 0,
    }


def conv_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """One padded image and one tile of its windows; half types also a widened weight and an f32 result."""
    source, weight = query.input(0), query.input(1)
    half = source.dtype in (ElementType.FLOAT16, ElementType.BFLOAT16)
    itemsize = 8 if source.dtype is ElementType.DOUBLE else 4
    return lay_out("host-conv", conv_sizes(query.node, source.shape, weight.shape, itemsize, convert=half))


def conv(call: Call) -> None:
    """Y [N, M, output] of X [N, C, spatial], W [M, C / group, kernel] and B [M]; any number of axes."""
    source, weight = call.array(0), call.array(1)
    form = conv_windows(call.node, source.shape, weight.shape)
    out = call.output(0, (source.shape[0], weight.shape[0], *form.output))
    requirement = conv_workspace(query_of(call))
    dtype = np.dtype(np.float64 if source.dtype == np.float64 else np.float32)

    def region(name: str, shape: tuple[int, ...]) -> Values:
        return region_of(call, requirement, name, shape, dtype)

    bias = call.optional(2)

    def finish(result: Values, target: Array) -> None:
        if bias is not None:
            np.add(
                result,
                bias.reshape(-1, *(1,) * len(form.extent)),
                out=result,
                dtype=dtype,
                casting="unsafe",
            )
        if result is not target:
            np.copyto(target, result, casting="unsafe")

    convolve(call.node, form, (source, weight, out), region, finish, convert=source.dtype != dtype)


def convolve(
    node: Node,
    form: Windows,
    arrays: tuple[Array, Array, Array],
    region: Callable[[str, tuple[int, ...]], Values],
    finish: Callable[[Values, Array], None],
    *,
    convert: bool,
    fill: Callable[[Array, Values], None] | None = None,
    shift: Callable[[Values], None] | None = None,
) -> None:
    """The convolution of every image of ``arrays`` (X, W, Y); ``finish`` gets each image's [M, output].

    ``fill`` writes an image into the padded region (by default with zeros around it); ``shift`` changes the
    converted weight in place.
    """
    source, weight, out = arrays
    if convert:
        wide = region("weight", weight.shape)
        np.copyto(wide, weight, casting="unsafe")
        if shift is not None:
            shift(wide)
        weight = wide
    depthwise = is_depthwise(node, source.shape, weight.shape)
    for image, target in zip(source, out, strict=True):
        result: Values = region("result", target.shape) if convert else target
        if form.plain and not convert and not depthwise:
            _pointwise(node, image, weight, result)
        else:
            padded = region("padded", (source.shape[1], *form.padded))
            if fill is None:
                fill_padded(image, form, 0, padded)
            else:
                fill(image, padded)
            if depthwise:
                _depthwise(form, padded, weight, result, region("product", result.shape))
            else:
                _unfolded(node, form, (padded, weight, result), region)
        finish(result, target)


def _pointwise(node: Node, image: Array, weight: Array, result: Values) -> None:
    """A 1 × 1 convolution: one product a group, on the image's own bytes."""
    group = node.integer("group", 1)
    columns = image.reshape(group, image.shape[0] // group, -1)
    np.matmul(
        weight.reshape(group, -1, columns.shape[1]), columns, out=result.reshape(group, -1, columns.shape[2])
    )


def _depthwise(form: Windows, padded: Values, weight: Array, result: Values, spare: Values) -> None:
    """Channel by channel: one multiplication and addition a place in the kernel, over whole images."""
    result[...] = 0
    for place, part in form.offsets():
        factor = weight[channels(0, *place)].reshape(-1, *(1,) * len(form.extent))
        np.multiply(padded[channels(*part)], factor, out=spare)
        np.add(result, spare, out=result)


def _unfolded(
    node: Node,
    form: Windows,
    arrays: tuple[Values, Array, Values],
    region: Callable[[str, tuple[int, ...]], Values],
) -> None:
    """Windows of some output rows as columns [C / group · kernel, windows], then one product a tile."""
    padded, weight, result = arrays
    group = node.integer("group", 1)
    depth, filters = padded.shape[0] // group, weight.shape[0] // group
    rows = tile_rows(form, prod(weight.shape[1:]))
    for number in range(group):
        own = padded[number * depth : (number + 1) * depth]
        factors = weight[number * filters : (number + 1) * filters].reshape(filters, -1)
        for first in range(0, form.output[0], rows):
            last = min(first + rows, form.output[0])
            columns = region("unfolded", (depth, *form.kernel, last - first, *form.output[1:]))
            for place, part in form.offsets():
                begin = part[0].start + first * form.strides[0]
                stop = begin + (last - first - 1) * form.strides[0] + 1
                lines = (slice(begin, stop, form.strides[0]), *part[1:])
                np.copyto(columns[channels(*place)], own[channels(*lines)])
            target = result[number * filters : (number + 1) * filters].reshape(filters, form.output[0], -1)
            flat = columns.reshape(factors.shape[1], -1)
            np.matmul(factors, flat, out=target[:, first:last].reshape(filters, -1))


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "Conv", conv, workspace=conv_workspace),
    *transposed.SPECS,
    *pooling.SPECS,
)

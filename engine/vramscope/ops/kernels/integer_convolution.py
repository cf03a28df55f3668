"""Host kernels: ConvInteger and QLinearConv, exact in f64 on the float convolution's path."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.graph.dtypes import from_numpy
from vramscope.ops.kernels.convolution import conv_sizes, conv_windows, convolve
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.kernels.quantize import integer_range
from vramscope.ops.kernels.windows import fill_padded
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement


Finish: TypeAlias = "Callable[[Values, Array], None]"


def integer_conv_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """The float convolution's scratch with everything in f64."""
    source, weight = query.input(0), query.input(3 if query.node.operator == "QLinearConv" else 1)
    return lay_out("host-integer-conv", conv_sizes(query.node, source.shape, weight.shape, 8, convert=True))


def conv_integer(call: Call) -> None:
    """Y int32 = conv(X − x0, W − w0); w0 one number or one a filter."""
    dtype = np.dtype(np.int32)

    def finish(result: Values, target: Array) -> None:
        np.copyto(target, result, casting="unsafe")

    _run(call, (0, 1, 2, 3), dtype, finish)


def qlinear_conv(call: Call) -> None:
    """Y = saturate(round((conv(X − x0, W − w0) + B) · sx · sw / sy) + y0); sw one number or one a filter."""
    weight_scale = call.array(4).astype(np.float32).reshape(-1)
    factor = call.array(1).astype(np.float32).reshape(-1)[0] * weight_scale / call.array(6).reshape(-1)[0]
    zero, bias = call.array(7), call.optional(8)
    low, high = integer_range(from_numpy(zero.dtype))
    offset = float(zero.reshape(-1)[0])

    def finish(result: Values, target: Array) -> None:
        columns = (-1, *(1,) * (result.ndim - 1))
        if bias is not None:
            np.add(result, bias.reshape(columns), out=result)
        np.multiply(result, factor.reshape(columns), out=result)
        np.rint(result, out=result)
        np.add(result, offset, out=result)
        np.clip(result, low, high, out=result)
        np.copyto(target, result, casting="unsafe")

    _run(call, (0, 3, 2, 5), zero.dtype, finish)


def _run(call: Call, roles: tuple[int, int, int, int], dtype: np.dtype[np.generic], finish: Finish) -> None:
    source, weight = call.array(roles[0]), call.array(roles[1])
    source_zero, weight_zero = call.optional(roles[2]), call.optional(roles[3])
    form = conv_windows(call.node, source.shape, weight.shape)
    out = call.output(0, (source.shape[0], weight.shape[0], *form.output), dtype)
    requirement = integer_conv_workspace(query_of(call))

    def region(name: str, shape: tuple[int, ...]) -> Values:
        return region_of(call, requirement, name, shape, np.float64)

    def fill(image: Array, padded: Values) -> None:
        zero = 0 if source_zero is None else int(source_zero.reshape(-1)[0])
        fill_padded(image, form, zero, padded)
        np.subtract(padded, zero, out=padded)

    def shift(wide: Values) -> None:
        if weight_zero is not None:
            np.subtract(wide, weight_zero.reshape(-1, *(1,) * (wide.ndim - 1)), out=wide)

    convolve(call.node, form, (source, weight, out), region, finish, convert=True, fill=fill, shift=shift)


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "ConvInteger", conv_integer, workspace=integer_conv_workspace),
    OpSpec("", "QLinearConv", qlinear_conv, workspace=integer_conv_workspace),
)

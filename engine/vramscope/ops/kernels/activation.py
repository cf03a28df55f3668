"""Host kernels: activation functions, the Gelu family, Softmax, LogSoftmax and Hardmax."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels import special
from vramscope.ops.kernels.common import (
    NARROW,
    axis_of,
    blocks_of_rows,
    broadcast,
    copy_into,
    elementwise,
    transform,
    widen,
)
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.common import Values
    from vramscope.ops.spec import Kernel


def plain(function: Callable[[Values], Values]) -> Kernel:
    """A kernel for a function of one value without attributes."""

    def kernel(call: Call) -> None:
        elementwise(call, function)

    return kernel


def parametric(function: Callable[..., Values], **defaults: float) -> Kernel:
    """A kernel for a function of one value whose float attributes are its further arguments, in order."""

    def kernel(call: Call) -> None:
        values = [call.node.number(name, default) for name, default in defaults.items()]
        elementwise(call, lambda x: function(x, *values))

    return kernel


def relu(call: Call) -> None:
    """Relu: exact in every type, so nothing is widened."""
    source = call.array(0)
    np.maximum(source, source.dtype.type(0), out=call.output(0, source.shape))


def prelu(call: Call) -> None:
    """PRelu: the slope broadcasts to the input (before opset 7: one a channel)."""
    source, slope = call.array(0), widen(call.array(1))
    out = call.output(0, source.shape)
    if call.node.opset < 7 and 1 < slope.size == source.shape[1]:
        slope = slope.reshape((-1,) + (1,) * (source.ndim - 2))
    wide = widen(source)
    copy_into(out, np.where(wide < 0, np.multiply(wide, slope), wide))


def gelu(call: Call) -> None:
    """Gelu: exact, or by tanh where ``approximate`` says so."""
    approximate = call.node.text("approximate", "none") == "tanh"
    elementwise(call, special.gelu_tanh if approximate else special.gelu)


def fast_gelu(call: Call) -> None:
    """FastGelu: the tanh form of X + bias."""
    _biased(call, special.gelu_tanh)


def bias_gelu(call: Call) -> None:
    """BiasGelu: the exact form of A + B."""
    _biased(call, special.gelu)


def _biased(call: Call, function: Callable[[Values], Values]) -> None:
    source, bias = call.array(0), call.optional(1)
    out = call.output(0, source.shape)
    if bias is None:
        transform(function, source, out)
        return
    copy_into(out, function(np.add(widen(source), widen(bias))))


def swiglu(call: Call) -> None:
    """SwiGLU: swish(A)·B."""
    gate, linear = call.array(0), call.array(1)
    out = call.output(0, broadcast(gate, linear))
    value = special.swish(widen(gate), call.node.number("alpha", 1.0))
    np.multiply(value, widen(linear), out=out, casting="same_kind")


def _elu(x: Values, alpha: float) -> Values:
    out = np.expm1(np.minimum(x, 0))
    np.multiply(out, alpha, out=out)
    return np.where(x > 0, x, out)


def _selu(x: Values, alpha: float, gamma: float) -> Values:
    return np.multiply(_elu(x, alpha), gamma)


def _celu(x: Values, alpha: float) -> Values:
    out = np.expm1(np.minimum(x, 0) / alpha)
    return np.where(x > 0, x, out * alpha)


def _leaky(x: Values, alpha: float) -> Values:
    return np.where(x < 0, x * alpha, x)


def _threshold(x: Values, alpha: float) -> Values:
    return np.where(x > alpha, x, 0)


def _hard_sigmoid(x: Values, alpha: float, beta: float) -> Values:
    out = np.multiply(x, alpha)
    np.add(out, beta, out=out)
    return np.clip(out, 0, 1, out=out)


def _hard_swish(x: Values) -> Values:
    return np.multiply(x, _hard_sigmoid(x, 1 / 6, 0.5))


def _mish(x: Values) -> Values:
    return np.multiply(x, np.tanh(special.softplus(x)))


def _softsign(x: Values) -> Values:
    return np.asarray(np.divide(x, 1 + np.absolute(x)))


def softmax_rows(x: Values, out: Array) -> None:
    """Softmax over the last axis of wide ``x`` into ``out`` (any float type, may be ``x``).

    A row of −infinity alone is NaN (operators 3.8).
    """
    target = out if out.dtype == x.dtype else np.empty(x.shape, x.dtype)
    np.subtract(x, np.maximum.reduce(x, axis=-1, keepdims=True), out=target)
    np.exp(target, out=target)
    np.divide(target, np.add.reduce(target, axis=-1, keepdims=True), out=out, casting="same_kind")


def log_softmax_rows(x: Values, out: Array) -> None:
    """Logarithm of softmax over the last axis of wide ``x`` into ``out``."""
    shifted = x - np.maximum.reduce(x, axis=-1, keepdims=True)
    total = np.log(np.add.reduce(np.exp(shifted), axis=-1, keepdims=True))
    np.subtract(shifted, total, out=out, casting="same_kind")


def hardmax_rows(x: Values, out: Array) -> None:
    """1 at the first maximum of the last axis, 0 elsewhere."""
    first = np.expand_dims(np.argmax(x, axis=-1), -1)
    out[...] = 0
    np.put_along_axis(out, first, 1, axis=-1)


def row_kernel(function: Callable[[Values, Array], None]) -> Kernel:
    """A kernel for a function of rows: along ``axis`` from opset 13 on, of the 2-D flattening before."""

    def kernel(call: Call) -> None:
        source = call.array(0)
        out = call.output(0, source.shape)
        if source.size == 0:
            return
        if call.node.opset >= 13:
            axis = axis_of(call, call.node.integer("axis", -1), source.ndim)
            _along(function, source, out, axis)
        else:
            axis = call.node.integer("axis", 1)
            axis = axis_of(call, axis, source.ndim if axis < 0 else source.ndim + 1)
            _flattened(function, source, out, axis)

    return kernel


def _along(function: Callable[[Values, Array], None], source: Array, out: Array, axis: int) -> None:
    if axis != source.ndim - 1:
        source, out = np.moveaxis(source, axis, -1), np.moveaxis(out, axis, -1)
    narrow = source.dtype in NARROW
    if not (narrow and source.flags.c_contiguous and out.flags.c_contiguous):
        function(widen(source), out)
        return
    width = source.shape[-1]
    rows, targets = source.reshape(-1, width), out.reshape(-1, width)
    for block in blocks_of_rows(rows.shape[0], width):
        function(widen(rows[block]), targets[block])


def _flattened(function: Callable[[Values, Array], None], source: Array, out: Array, axis: int) -> None:
    shape = (prod(source.shape[:axis]), prod(source.shape[axis:]))
    result = np.empty(shape, out.dtype)
    function(widen(source.reshape(shape)), result)
    copy_into(out, result.reshape(source.shape))


def _rows(domain: str, *kernels: tuple[str, Kernel]) -> tuple[OpSpec, ...]:
    return tuple(OpSpec(domain, name, kernel, in_place=((0, 0),)) for name, kernel in kernels)


_DEFAULT = _rows(
    "",
    ("Relu", relu),
    ("Sigmoid", plain(special.sigmoid)),
    ("Tanh", plain(np.tanh)),
    ("Softplus", plain(special.softplus)),
    ("Softsign", plain(_softsign)),
    ("Mish", plain(_mish)),
    ("HardSwish", plain(_hard_swish)),
    ("HardSigmoid", parametric(_hard_sigmoid, alpha=0.2, beta=0.5)),
    ("Elu", parametric(_elu, alpha=1.0)),
    ("Selu", parametric(_selu, alpha=1.6732632423543772, gamma=1.0507009873554805)),
    ("Celu", parametric(_celu, alpha=1.0)),
    ("LeakyRelu", parametric(_leaky, alpha=0.01)),
    ("ThresholdedRelu", parametric(_threshold, alpha=1.0)),
    ("Swish", parametric(special.swish, alpha=1.0)),
    ("PRelu", prelu),
    ("Gelu", gelu),
    ("Softmax", row_kernel(softmax_rows)),
    ("LogSoftmax", row_kernel(log_softmax_rows)),
    ("Hardmax", row_kernel(hardmax_rows)),
)

_MICROSOFT = _rows(
    "com.microsoft",
    ("Gelu", gelu),
    ("FastGelu", fast_gelu),
    ("QuickGelu", parametric(special.swish, alpha=1.702)),
    ("BiasGelu", bias_gelu),
)

SPECS: tuple[OpSpec, ...] = (
    *_DEFAULT,
    *_MICROSOFT,
    OpSpec("", "SwiGLU", swiglu, in_place=((0, 0), (0, 1))),
)

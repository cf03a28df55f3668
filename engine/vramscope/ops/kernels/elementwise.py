"""Host kernels: arithmetic with broadcasting, unary mathematics, clipping and the variadic operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels.common import (
    F32,
    NARROW,
    Values,
    broadcast,
    copy_into,
    elementwise,
    is_float,
    widen,
)
from vramscope.ops.kernels.special import erf
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel


def operands(call: Call) -> tuple[Array, Array]:
    """The two inputs; before opset 7 the second is aligned by the ``axis`` attribute."""
    left, right = call.array(0), call.array(1)
    if call.node.opset < 7 and call.node.domain == "" and call.node.integer("broadcast", 0):
        axis = call.node.integer("axis", left.ndim - right.ndim)
        axis += left.ndim if axis < 0 else 0
        right = right.reshape(right.shape + (1,) * (left.ndim - axis - right.ndim))
    return left, right


def binary(function: np.ufunc) -> Kernel:
    """A kernel for one ufunc of two inputs of one type, broadcast, rounded once."""

    def kernel(call: Call) -> None:
        left, right = operands(call)
        out = call.output(0, broadcast(left, right))
        if left.dtype in NARROW:
            function(left, right, out=out, dtype=F32, casting="same_kind")
        else:
            function(left, right, out=out)

    return kernel


def unary(function: np.ufunc) -> Kernel:
    """A kernel for one ufunc of one input, computed in the wide type, rounded once."""

    def kernel(call: Call) -> None:
        source = call.array(0)
        out = call.output(0, source.shape)
        if source.dtype in NARROW:
            function(source, out=out, dtype=F32, casting="same_kind")
        else:
            function(source, out=out)

    return kernel


def divide(call: Call) -> None:
    """Div: true division of floats, division towards zero of integers."""
    left, right = operands(call)
    out = call.output(0, broadcast(left, right))
    if left.dtype in NARROW:
        np.divide(left, right, out=out, dtype=F32, casting="same_kind")
    elif left.dtype.kind in "fc":
        np.divide(left, right, out=out)
    elif left.dtype.kind == "u":
        np.floor_divide(left, right, out=out)
    else:
        copy_into(out, _truncated_quotient(left, right))


def _truncated_quotient(left: Values, right: Values) -> Values:
    quotient = np.floor_divide(left, right)
    inexact = (np.remainder(left, right) != 0) & ((left < 0) != (right < 0))
    return np.asarray(np.add(quotient, inexact, dtype=quotient.dtype, casting="unsafe"))


def modulo(call: Call) -> None:
    """Mod: the sign of the divisor, or of the dividend with ``fmod`` = 1."""
    left, right = operands(call)
    out = call.output(0, broadcast(left, right))
    function = np.fmod if call.node.integer("fmod", 0) else np.remainder
    if left.dtype in NARROW:
        function(left, right, out=out, dtype=F32, casting="same_kind")
    else:
        function(left, right, out=out)


def power(call: Call) -> None:
    """Pow: the result has the base's type, whatever the exponent's."""
    base, exponent = operands(call)
    out = call.output(0, broadcast(base, exponent))
    if exponent.size == 1 and is_float(base) and float(exponent.reshape(-1)[0]) == 2.0:
        kind = F32 if base.dtype in NARROW else base.dtype
        np.square(base, out=out, dtype=kind, casting="same_kind")
        return
    copy_into(out, _power(widen(base), widen(exponent)))


def _power(base: Values, exponent: Values) -> Values:
    if base.dtype.kind == "f":
        return np.asarray(np.power(base, exponent, dtype=base.dtype, casting="unsafe"))
    if exponent.dtype.kind == "f" or bool(np.any(exponent < 0)):
        return np.asarray(np.power(base.astype(np.float64), exponent.astype(np.float64)))
    return np.asarray(np.power(base, exponent))


def clip(call: Call) -> None:
    """Clip: bounds are inputs from opset 11 on, attributes before; the upper bound wins."""
    source = call.array(0)
    out = call.output(0, source.shape)
    lower, upper = _bound(call, 1, "min", source), _bound(call, 2, "max", source)
    if lower is None and upper is None:
        copy_into(out, source)
        return
    if lower is not None:
        np.maximum(source, lower, out=out)
        source = out
    if upper is not None:
        np.minimum(source, upper, out=out)


def _bound(call: Call, index: int, attribute: str, like: Array) -> Array | None:
    if call.has(index):
        return call.array(index)
    if attribute in call.node.attributes:
        return np.asarray(call.node.number(attribute, 0.0)).astype(like.dtype)
    return None


def variadic(function: np.ufunc, *, average: bool = False) -> Kernel:
    """A kernel that folds any number of inputs with one ufunc, rounding narrow floats once."""

    def kernel(call: Call) -> None:
        arrays = [call.array(index) for index in range(len(call.inputs))]
        shape = (
            np.broadcast_shapes(*(array.shape for array in arrays)) if len(arrays) > 1 else arrays[0].shape
        )
        out = call.output(0, shape)
        narrow = arrays[0].dtype in NARROW and (len(arrays) > 2 or average)
        total = np.empty(shape, F32) if narrow else out
        _fold(function, arrays, total)
        if average:
            np.divide(total, len(arrays), out=total, casting="unsafe")
        if narrow:
            copy_into(out, total)

    return kernel


def _fold(function: np.ufunc, arrays: list[Array], total: Array) -> None:
    if len(arrays) == 1:
        copy_into(total, arrays[0])
        return
    kind = F32 if arrays[0].dtype in NARROW else None
    function(arrays[0], arrays[1], out=total, dtype=kind, casting="same_kind")
    for array in arrays[2:]:
        function(total, array, out=total, dtype=kind, casting="same_kind")


def erf_kernel(call: Call) -> None:
    """Erf, accurate to one ulp of f32 (f64 inputs: of f64)."""
    elementwise(call, erf)


def shrink(call: Call) -> None:
    """Shrink: x + bias below -lambd, x - bias above lambd, 0 between."""
    bias, limit = call.node.number("bias", 0.0), call.node.number("lambd", 0.5)

    def shrunk(x: Values) -> Values:
        return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0))

    elementwise(call, shrunk)


def integer_unary(function: np.ufunc) -> Kernel:
    """A kernel for a ufunc that leaves integers exact (Neg, Abs, Sign and the rounding family)."""

    def kernel(call: Call) -> None:
        source = call.array(0)
        function(source, out=call.output(0, source.shape), casting="same_kind")

    return kernel


def _rows(in_place: tuple[tuple[int, int], ...], *kernels: tuple[str, Kernel]) -> tuple[OpSpec, ...]:
    return tuple(OpSpec("", name, kernel, in_place=in_place) for name, kernel in kernels)


_BINARY = _rows(
    ((0, 0), (0, 1)),
    ("Add", binary(np.add)),
    ("Sub", binary(np.subtract)),
    ("Mul", binary(np.multiply)),
    ("Div", divide),
    ("Mod", modulo),
    ("Pow", power),
    ("Max", variadic(np.maximum)),
    ("Min", variadic(np.minimum)),
    ("Sum", variadic(np.add)),
    ("Mean", variadic(np.add, average=True)),
)

_UNARY = _rows(
    ((0, 0),),
    ("Abs", integer_unary(np.absolute)),
    ("Neg", integer_unary(np.negative)),
    ("Sign", integer_unary(np.sign)),
    ("Ceil", integer_unary(np.ceil)),
    ("Floor", integer_unary(np.floor)),
    ("Round", integer_unary(np.rint)),
    ("Reciprocal", unary(np.reciprocal)),
    ("Sqrt", unary(np.sqrt)),
    ("Exp", unary(np.exp)),
    ("Log", unary(np.log)),
    ("Sin", unary(np.sin)),
    ("Cos", unary(np.cos)),
    ("Tan", unary(np.tan)),
    ("Asin", unary(np.arcsin)),
    ("Acos", unary(np.arccos)),
    ("Atan", unary(np.arctan)),
    ("Sinh", unary(np.sinh)),
    ("Cosh", unary(np.cosh)),
    ("Asinh", unary(np.arcsinh)),
    ("Acosh", unary(np.arccosh)),
    ("Atanh", unary(np.arctanh)),
    ("Erf", erf_kernel),
    ("Clip", clip),
    ("Shrink", shrink),
)

SPECS: tuple[OpSpec, ...] = (*_BINARY, *_UNARY)

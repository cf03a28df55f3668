"""Host kernels: comparison, logic, bits, and the tests for NaN and infinity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.kernels.common import broadcast, copy_into, invalid
from vramscope.ops.kernels.elementwise import operands
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel


def binary(function: np.ufunc) -> Kernel:
    """A kernel for one ufunc of two inputs that has an exact loop for every element type."""

    def kernel(call: Call) -> None:
        left, right = operands(call)
        function(left, right, out=call.output(0, broadcast(left, right)), casting="unsafe")

    return kernel


def unary(function: np.ufunc) -> Kernel:
    """A kernel for one ufunc of one input that has an exact loop for every element type."""

    def kernel(call: Call) -> None:
        source = call.array(0)
        function(source, out=call.output(0, source.shape))

    return kernel


def bit_shift(call: Call) -> None:
    """BitShift: unsigned integers, ``direction`` LEFT or RIGHT."""
    left, right = call.array(0), call.array(1)
    direction = call.node.text("direction", "")
    if direction not in {"LEFT", "RIGHT"}:
        raise invalid(call, "attribute direction", f"it is {direction!r}", "Use LEFT or RIGHT")
    function = np.left_shift if direction == "LEFT" else np.right_shift
    function(left, right, out=call.output(0, broadcast(left, right)))


def is_infinite(call: Call) -> None:
    """IsInf, of the signs that the attributes ask for."""
    source = call.array(0)
    out = call.output(0, source.shape)
    positive = call.node.integer("detect_positive", 1)
    negative = call.node.integer("detect_negative", 1)
    np.isinf(source, out=out)
    if not positive:
        np.logical_and(out, np.signbit(source), out=out)
    if not negative:
        np.logical_and(out, np.logical_not(np.signbit(source)), out=out)


def where(call: Call) -> None:
    """Where: either branch may be overwritten in place, so the other one is copied around it."""
    condition, true, false = call.array(0), call.array(1), call.array(2)
    out = call.output(0, np.broadcast(condition, true, false).shape)
    if np.may_share_memory(out, true):
        copy_into(out, true)
        np.copyto(out, false, where=np.logical_not(condition))
    else:
        copy_into(out, false)
        np.copyto(out, true, where=condition)


def _rows(in_place: tuple[tuple[int, int], ...], *kernels: tuple[str, Kernel]) -> tuple[OpSpec, ...]:
    return tuple(OpSpec("", name, kernel, in_place=in_place) for name, kernel in kernels)


_COMPARE = _rows(
    (),
    ("Equal", binary(np.equal)),
    ("Greater", binary(np.greater)),
    ("GreaterOrEqual", binary(np.greater_equal)),
    ("Less", binary(np.less)),
    ("LessOrEqual", binary(np.less_equal)),
    ("IsNaN", unary(np.isnan)),
    ("IsInf", is_infinite),
)

_LOGIC = _rows(
    ((0, 0), (0, 1)),
    ("And", binary(np.logical_and)),
    ("Or", binary(np.logical_or)),
    ("Xor", binary(np.logical_xor)),
    ("BitwiseAnd", binary(np.bitwise_and)),
    ("BitwiseOr", binary(np.bitwise_or)),
    ("BitwiseXor", binary(np.bitwise_xor)),
    ("BitShift", bit_shift),
)

_UNARY = _rows(
    ((0, 0),),
    ("Not", unary(np.logical_not)),
    ("BitwiseNot", unary(np.invert)),
)

SPECS: tuple[OpSpec, ...] = (
    *_COMPARE,
    *_LOGIC,
    *_UNARY,
    OpSpec("", "Where", where, in_place=((0, 1), (0, 2))),
)

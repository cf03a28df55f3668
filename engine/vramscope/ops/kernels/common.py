"""What the host kernels share: the compute-type rule, broadcasting, axes and block-wise evaluation.

The rule for narrow floats (f16, bf16, f8): widen to f32, do all the arithmetic there, round once when the
output is written. NumPy's overlap rules make ``out=`` safe when an output is one of the inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

from vramscope.errors import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call

Values: TypeAlias = np.ndarray[Any, np.dtype[Any]]

F32 = np.dtype(np.float32)

NARROW: frozenset[np.dtype[Any]] = frozenset(
    np.dtype(kind)
    for kind in (
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
)
"""Float types that are computed in f32."""

BLOCK = 1 << 15
"""Elements a block-wise kernel widens at a time: 128 KiB of f32, so its temporaries stay in the cache."""


def widen(array: Array) -> Values:
    """``array`` in its compute type: narrow floats as f32, every other type as it is."""
    return array.astype(F32) if array.dtype in NARROW else array


def compute_type(array: Array) -> np.dtype[Any]:
    """The type an operator computes in for ``array``'s element type."""
    return F32 if array.dtype in NARROW else array.dtype


def is_float(array: Array) -> bool:
    """Whether the element type is a floating-point type, narrow ones included."""
    return array.dtype.kind == "f" or array.dtype in NARROW


def copy_into(target: Array, value: Array | np.generic | float) -> None:
    """Write ``value`` into ``target``, rounding once; nothing moves when both are the same memory."""
    np.copyto(target, value, casting="unsafe")


def broadcast(left: Array, right: Array) -> tuple[int, ...]:
    """The NumPy-style broadcast shape of two arrays."""
    return left.shape if left.shape == right.shape else np.broadcast(left, right).shape


def axis_of(call: Call, axis: int, rank: int) -> int:
    """``axis`` counted from the front.

    Raises:
        VramscopeError: the axis is outside ``[-rank, rank)``.
    """
    if -rank <= axis < rank:
        return axis + rank if axis < 0 else axis
    raise VramscopeError(
        f"axis {axis} of {call.node.qualified}",
        f"the tensor has rank {rank}",
        f"Use an axis from {-rank} to {rank - 1}",
        call.node.name,
    )


def integers_of(call: Call, index: int, attribute: str) -> tuple[int, ...] | None:
    """Integers that newer opsets give as input ``index`` and older ones as an attribute; None: neither."""
    if call.has(index):
        return tuple(call.array(index).reshape(-1).tolist())
    if attribute in call.node.attributes:
        return call.node.integers(attribute)
    return None


def invalid(call: Call, what: str, why: str, remedy: str = "") -> VramscopeError:
    """The error of a kernel whose inputs break the operator's contract."""
    return VramscopeError(f"{what} of {call.node.qualified}", why, remedy, call.node.name)


def transform(function: Callable[[Values], Values], source: Array, target: Array) -> None:
    """Apply an elementwise ``function`` of wide values, in blocks when both arrays are contiguous.

    ``function`` gets at least one axis and returns a fresh array, so ``target`` may be ``source``.
    """
    if source.ndim == 0:
        source, target = source.reshape(1), target.reshape(1)
    if source.size <= BLOCK or not (source.flags.c_contiguous and target.flags.c_contiguous):
        copy_into(target, function(widen(source)))
        return
    flat, out = source.reshape(-1), target.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        copy_into(out[start : start + BLOCK], function(widen(flat[start : start + BLOCK])))


def elementwise(call: Call, function: Callable[[Values], Values]) -> None:
    """Output 0 = ``function`` of input 0, element by element."""
    source = call.array(0)
    transform(function, source, call.output(0, source.shape))


def blocks_of_rows(rows: int, width: int) -> list[slice]:
    """Slices over ``rows`` rows of ``width`` elements, each about one block of elements."""
    step = max(1, BLOCK // max(width, 1))
    return [slice(start, start + step) for start in range(0, rows, step)]

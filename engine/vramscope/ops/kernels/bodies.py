"""What Loop and Scan share: running the body, keeping its states, stacking its rows.

Contract with the runner: what ``call.run_body`` returns stays valid until the next run of the step's bodies.
States and rows are therefore copied out after every run; a state lives in the array that the plan placed for
it, where it fits, and needs no further memory then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import numpy_dtype
from vramscope.ops.call import Packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call, RunBody, Tensor


def runner_of(call: Call) -> RunBody:
    """What runs the node's bodies.

    Raises:
        ModelGraphError: there is none: the node was run outside of a program.
    """
    if call.run_body is None:
        raise ModelGraphError(
            call.node.qualified, "its body cannot be run by itself", "Run it within its model", call.node.name
        )
    return call.run_body


def homes_of(call: Call, count: int) -> list[Array | None]:
    """The placed arrays of the first ``count`` outputs: where the states may live."""
    return [item if isinstance(item, np.ndarray) else None for item in call.placed[:count]]


def carry(results: Sequence[Tensor], homes: list[Array | None]) -> list[Tensor]:
    """Copies of a body's results that outlive its next run, each in its home where it fits.

    A body may hand a state on unchanged or swap two of them, so results that lie in a home are copied first.
    """
    apart = [_apart(value, homes, index) for index, value in enumerate(results)]
    return [_settle(value, homes, index) for index, value in enumerate(apart)]


def _apart(value: Tensor, homes: list[Array | None], index: int) -> Tensor:
    if not isinstance(value, np.ndarray) or value is homes[index]:
        return value
    if any(home is not None and np.may_share_memory(value, home) for home in homes):
        return value.copy()
    return value


def _settle(value: Tensor, homes: list[Array | None], index: int) -> Tensor:
    if isinstance(value, Packed):
        return Packed(value.data.copy(), value.dtype, value.shape)
    if isinstance(value, list):
        return [_settle(item, [None], 0) for item in value]
    home = homes[index]
    if home is None or home.shape != value.shape or home.dtype != value.dtype:
        homes[index] = home = np.empty_like(value)
    if home is not value:
        np.copyto(home, value)
    return home


def as_array(call: Call, value: Tensor) -> Array:
    """A scanned value as an array.

    Raises:
        ModelGraphError: it is a sequence, which cannot be stacked.
    """
    if isinstance(value, Packed):
        return value.unpack()
    if isinstance(value, list):
        raise ModelGraphError(
            f"scan output of {call.node.qualified}",
            "the body yields a sequence, which cannot be stacked",
            "Carry the sequence as a state",
            call.node.name,
        )
    return value


def empty_scan(call: Call, index: int, axis: int = 0) -> None:
    """Output ``index`` of no iterations: as placed or inferred, 0 along ``axis`` and where unknown."""
    if not call.wants(index):
        return
    call.output(index, _empty_shape(call, index, axis), numpy_dtype(call.output_types[index]))


def _empty_shape(call: Call, index: int, axis: int) -> tuple[int, ...]:
    placed = call.placed[index]
    inferred = call.inferred[index] if index < len(call.inferred) else None
    known = placed.shape if isinstance(placed, np.ndarray) else inferred
    if known is None or not known:
        return (0,)
    where = axis % len(known)
    return tuple(0 if place == where else extent or 0 for place, extent in enumerate(known))

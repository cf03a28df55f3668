"""Host kernels: If and Loop, and the rows of all control flow. The runner runs the bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.ops.kernels.bodies import as_array, carry, empty_scan, homes_of, runner_of
from vramscope.ops.kernels.scan import scan
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call, Tensor


def if_(call: Call) -> None:
    """If: run the branch that the condition names, and only that one; see operators 3.9.

    Raises:
        ModelGraphError: the condition is not a single element.
    """
    name = "then_branch" if _truth(call, call.array(0)) else "else_branch"
    for index, value in enumerate(runner_of(call)(name, [])):
        call.put(index, value)


def _truth(call: Call, condition: Array) -> bool:
    if condition.size != 1:
        raise ModelGraphError(
            f"condition of {call.node.qualified}",
            f"it has {condition.size} elements and must have one",
            "Reduce it to one boolean",
            call.node.name,
        )
    return bool(condition.reshape(-1)[0])


def loop(call: Call) -> None:
    """Loop: run the body while ``iteration < M`` and the condition holds; see operators 3.9.

    An absent M or condition does not stop. Outputs: the final states, then the scans, stacked on a new axis
    0. With no iteration the states are the initial ones and a scan has length 0, its other extents those of
    the placed or inferred shape, 0 where unknown.

    Raises:
        ModelGraphError: a condition that is not a single element, or a sequence as a scan.
    """
    run = runner_of(call)
    limit = int(call.array(0).reshape(-1)[0]) if call.has(0) else None
    going = _truth(call, call.array(1)) if call.has(1) else True
    states: list[Tensor] = [item for item in call.inputs[2:] if item is not None]
    count = len(states)
    homes = homes_of(call, count)
    scans: list[list[Array]] = [[] for _ in range(len(call.placed) - count)]
    iteration = 0
    while going and (limit is None or iteration < limit):
        given: list[Tensor] = [np.array(iteration, np.int64), np.array(going), *states]
        condition, *results = run("body", given)
        going = _truth(call, as_array(call, condition))
        for rows, value in zip(scans, results[count:], strict=True):
            rows.append(as_array(call, value).copy())
        states = carry(results[:count], homes)
        iteration += 1
    for index, state in enumerate(states):
        call.put(index, state)
    for offset, rows in enumerate(scans):
        _stack(call, count + offset, rows)


def _stack(call: Call, index: int, rows: list[Array]) -> None:
    if not rows:
        empty_scan(call, index)
    elif call.wants(index):
        np.stack(rows, out=call.output(index, (len(rows), *rows[0].shape), rows[0].dtype))


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "If", if_, host_inputs=(0,), control_flow=True),
    OpSpec("", "Loop", loop, host_inputs=(0, 1), data_dependent=True, control_flow=True),
    OpSpec("", "Scan", scan, control_flow=True),
)

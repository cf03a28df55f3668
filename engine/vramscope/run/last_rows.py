"""Cuts a prefill's head down to what is read of it: the last row of every sequence.

Between the last norm and the logits stand row-wise operators and one product with the vocabulary. Where
nobody else reads what they make, they are launched for each sequence's last row alone; the rows before it
stay unwritten. Of a prompt that is taken in several passes only the last one has such a row: there the head
is launched by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.model import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.ops.call import Call, Tensor
    from vramscope.plan.index import PlanningIndex
    from vramscope.run.launch import Launch

_PRODUCTS = ("MatMul", "MatMulNBits")
_ROW_WISE = ("Cast", "Mul", "Div", "Tanh", "Add", "Sub")
"""Operators of one row at a time, with constants that are the same for every row."""


@dataclass(frozen=True, slots=True)
class WantedRows:
    """What is read of a pass.

    Attributes:
        output: of which only some rows are read; empty: every row of every output is.
        extent: rows of the pass: sequences and positions, or tokens where sequences follow each other.
        rows: the one of each sequence, among all; empty: a head that is launched by itself says so.
    """

    output: str = ""
    extent: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()


ALL_ROWS = WantedRows()


def cut_to_last_rows(
    index: PlanningIndex, launches: tuple[Launch, ...], wanted: WantedRows
) -> tuple[tuple[Launch, ...], tuple[Launch, ...]]:
    """The launches of a prefill, those behind the last norm once a sequence; and a head that is left out.

    That one is left out where it is the end of all launches: later ones might overwrite what it reads.
    """
    tail = _tail(index, launches, wanted.output)
    if not tail or any(not _cuttable(launches[position], wanted.extent) for position in tail):
        return launches, ()
    if not wanted.rows:
        start = len(launches) - len(tail)
        return (launches[:start], launches[start:]) if min(tail) == start else (launches, ())
    found: list[Launch] = []
    for position, launch in enumerate(launches):
        found += head_of_rows((launch,), wanted.rows) if position in tail else (launch,)
    return tuple(found), ()


def head_of_rows(head: tuple[Launch, ...], rows: Sequence[int]) -> tuple[Launch, ...]:
    """The head's launches, each for one row of every sequence."""
    return tuple(replace(launch, call=_one_row(launch.call, row)) for launch in head for row in rows)


def _tail(index: PlanningIndex, launches: tuple[Launch, ...], logits: str) -> set[int]:
    """The product that makes the logits, and row-wise launches behind it; empty where the end is another."""
    program = index.program
    makers = {value: n for n, launch in enumerate(launches) for value in launch.step.outputs}
    value = next((item for item in program.outputs if program.values[item].name == logits), ABSENT)
    found: set[int] = set()
    while value in makers:
        position = makers[value]
        step = launches[position].step
        inner = bool(found) and (value in program.outputs or _readers(launches, value) != 1)
        if inner or step.node.domain not in ("", "com.microsoft") or len(step.outputs) != 1:
            break
        found.add(position)
        if step.node.operator in _PRODUCTS:
            return found
        if step.node.operator not in _ROW_WISE:
            break
        value = step.inputs[0]
    return set()


def _readers(launches: tuple[Launch, ...], value: int) -> int:
    return sum(launch.step.inputs.count(value) for launch in launches)


def _cuttable(launch: Launch, extent: tuple[int, ...]) -> bool:
    """Whether its first input and its output are [*extent, width] in place, the others one row's."""
    call = launch.call
    if launch.late_inputs or not launch.resolved or not call.inputs:
        return False
    x, y = _shape(call.inputs[0]), _shape(call.placed[0])
    if x[:-1] != extent or y[:-1] != extent:
        return False
    if launch.step.node.operator in _PRODUCTS:
        return launch.step.node.operator != "MatMul" or len(_shape(call.inputs[1])) == 2
    return all(len(_shape(item)) <= 1 for item in call.inputs[1:] if item is not None)


def _shape(value: Tensor | None) -> tuple[int, ...]:
    return () if value is None or isinstance(value, list) else value.shape


def _one_row(call: Call, row: int) -> Call:
    """The call on one row of all."""
    extent = _shape(call.inputs[0])[:-1]
    place = tuple(slice(int(at), int(at) + 1) for at in np.unravel_index(row, extent))

    def part(value: Tensor | None) -> Tensor | None:
        return value[place]  # type: ignore[index, call-overload] # an array

    return replace(
        call, inputs=(part(call.inputs[0]), *call.inputs[1:]), placed=[part(call.placed[0])], memo=None
    )

"""Graph inputs and outputs that live in buffers of their own for a whole session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.plan.sizes import measured
from vramscope.plan.types import STATE_ROWS, UNKNOWN, BindingRow, Bounded, Figure, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Model
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.types import PhasePlan, Scenario

STATE_BYTES_PER_SEQUENCE = STATE_ROWS * 8
"""Decode state on the device, per sequence: last token, valid length, the newest tokens; int64 each."""


def io_values(model: Model) -> tuple[int, ...]:
    """Graph inputs and outputs that have a buffer of their own: no KV, no sequences."""
    pairs = model.contract.kv if model.contract else ()
    names = {name for pair in pairs for name in (pair.input, pair.output)}
    program = model.program
    values = (program.values[item] for item in dict.fromkeys((*program.inputs, *program.outputs)))
    return tuple(item.id for item in values if item.name not in names and not item.is_sequence)


def binding_rows(
    index: PlanningIndex, model: Model, values: Sequence[int], phases: Sequence[PhasePlan], scenario: Scenario
) -> tuple[BindingRow, ...]:
    """A row for each of ``values`` at its largest over the phases, and one for a decoder's own state."""
    rows = [_row(index, value, phases) for value in values]
    if model.contract is not None:
        state = Figure.exact(scenario.batch * STATE_BYTES_PER_SEQUENCE)
        rows.append(BindingRow("decode state", "state", (STATE_ROWS, scenario.batch), state))
    return tuple(rows)


def _row(index: PlanningIndex, value: int, phases: Sequence[PhasePlan]) -> BindingRow:
    item = index.program.values[value]
    direction = "input" if value in index.program.inputs else "output"
    best: tuple[int, tuple[int, ...], bool] = (-1, (), False)
    for phase in phases:
        shape = phase.shapes[value]
        if isinstance(shape, Refused):
            return BindingRow(item.name, direction, (), UNKNOWN)
        size = measured(index, value, shape.shape)
        if size > best[0]:
            best = (size, shape.shape, isinstance(shape, Bounded))
    return BindingRow(item.name, direction, best[1], Figure.of(best[0], bounded=best[2]))


def output_maker(index: PlanningIndex, rows: Sequence[BindingRow]) -> str:
    """The node that gives the largest graph output, for blame; empty when an input is larger."""
    values = {index.program.values[value].name: value for value in index.program.outputs}
    largest = max(rows, key=lambda row: row.figure.known, default=None)
    step = index.makers.get(values.get(largest.name, -1), -1) if largest else -1
    return index.program.steps[step].node.name if step >= 0 else ""

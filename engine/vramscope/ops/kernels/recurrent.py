"""Host kernels: LSTM, GRU and RNN; one product for the whole input, one small product a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.ops.kernels.planned import query_of, region_of
from vramscope.ops.kernels.recurrent_form import activations, recurrent_form, recurrent_workspace
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.kernels.recurrent_form import RecurrentForm


@dataclass(frozen=True, slots=True)
class _Direction:
    """One direction's parameters in the arithmetic's type, and the scratch of a step.

    ``recurrence`` is [H, gates·H]; ``biases`` Wb and Rb [2, gates·H] or None; ``clip`` 0 means none.
    """

    form: RecurrentForm
    recurrence: Values
    biases: Values | None
    peepholes: Values | None
    functions: tuple[Callable[[Values], None], ...]
    clip: float
    coupled: bool
    linear_before_reset: bool
    gates: Values
    spare: Values

    def gate(self, index: int) -> Values:
        """One gate's [B, H] of the step's buffer."""
        hidden = self.form.hidden
        return self.gates[:, index * hidden : (index + 1) * hidden]

    def activate(self, values: Values, which: int) -> None:
        """Clip, then apply the activation function ``which`` in place."""
        if self.clip > 0:
            np.clip(values, -self.clip, self.clip, out=values)
        self.functions[which](values)


def recurrent(call: Call) -> None:
    """Y [T, D, B, H] (layout 1: [B, T, D, H]), Y_h and, of an LSTM, Y_c [D, B, H] (layout 1: [B, D, H]).

    Sequences shorter than T keep their last state and read 0 in Y past their end. f32 arithmetic for half
    types, one rounding at each output.
    """
    form = recurrent_form(query_of(call))
    outputs = _outputs(call, form)
    sequence = _region(call, form, "sequence", (form.steps, form.batch, form.inputs))
    source = call.array(0)
    batch_first = call.node.integer("layout", 0) == 1
    np.copyto(sequence, source.swapaxes(0, 1) if batch_first else source, casting="unsafe")
    functions = activations(call.node, form.directions)
    for number in range(form.directions):
        backward = call.node.text("direction", "forward") == "reverse" or number == 1
        direction = _direction(call, form, number, functions[number])
        projected = _project(call, form, number, sequence, direction.biases)
        _walk(call, direction, number, projected, outputs, backward=backward)


def _outputs(call: Call, form: RecurrentForm) -> list[Values | None]:
    """The wanted outputs, seen as [T, D, B, H], [D, B, H], [D, B, H] whatever the layout."""
    steps, directions, batch, hidden = form.steps, form.directions, form.batch, form.hidden
    dtype = call.array(0).dtype
    found: list[Values | None] = []
    for index in range(len(call.placed)):
        if not call.wants(index):
            found.append(None)
        elif call.node.integer("layout", 0) == 0:
            shape = (steps, directions, batch, hidden) if index == 0 else (directions, batch, hidden)
            found.append(call.output(index, shape, dtype))
        elif index == 0:
            found.append(call.output(0, (batch, steps, directions, hidden), dtype).transpose(1, 2, 0, 3))
        else:
            found.append(call.output(index, (batch, directions, hidden), dtype).swapaxes(0, 1))
    return found


def _region(call: Call, form: RecurrentForm, name: str, shape: tuple[int, ...]) -> Values:
    dtype = np.float64 if form.itemsize == 8 else np.float32
    return region_of(call, recurrent_workspace(query_of(call)), name, shape, dtype)


def _parameter(call: Call, form: RecurrentForm, index: int, name: str, number: int) -> Values:
    """One direction's W or R: the weight's own bytes, or widened."""
    stored: Values = call.array(index)[number]
    if not form.half:
        return stored
    wide = _region(call, form, name, stored.shape)
    np.copyto(wide, stored, casting="unsafe")
    return wide


def _optional(
    call: Call, form: RecurrentForm, index: int, number: int, shape: tuple[int, int]
) -> Values | None:
    if not call.has(index):
        return None
    stored = call.array(index)
    if stored.shape != (form.directions, shape[0] * shape[1]):
        raise ModelGraphError(
            f"input {index} of {call.node.qualified}",
            f"its shape is {list(stored.shape)}, not {[form.directions, shape[0] * shape[1]]}",
            "",
            call.node.name,
        )
    wide = _region(call, form, "bias" if index == 3 else "peepholes", shape)
    np.copyto(wide, stored[number].reshape(shape), casting="unsafe")
    return wide


def _direction(
    call: Call, form: RecurrentForm, number: int, functions: tuple[Callable[[Values], None], ...]
) -> _Direction:
    return _Direction(
        form=form,
        recurrence=_parameter(call, form, 2, "recurrence", number).T,
        biases=_optional(call, form, 3, number, (2, form.width)),
        peepholes=_optional(call, form, 7, number, (3, form.hidden)),
        functions=functions,
        clip=call.node.number("clip", 0.0),
        coupled=call.node.integer("input_forget", 0) == 1,
        linear_before_reset=call.node.integer("linear_before_reset", 0) == 1,
        gates=_region(call, form, "step", (form.batch, form.width)),
        spare=_region(call, form, "spare", (form.batch, form.hidden)),
    )


def _project(call: Call, form: RecurrentForm, number: int, sequence: Values, biases: Values | None) -> Values:
    """``X · Wᵀ`` and the biases that need no state, for all steps at once: [T, B, gates·H]."""
    projected = _region(call, form, "projected", (form.steps, form.batch, form.width))
    weight = _parameter(call, form, 1, "weight", number)
    flat = projected.reshape(-1, form.width)
    np.matmul(sequence.reshape(-1, form.inputs), weight.T, out=flat)
    if biases is None:
        return projected
    np.add(flat, biases[0], out=flat)
    inner = (
        2 * form.hidden if form.operator == "GRU" and call.node.integer("linear_before_reset", 0) else None
    )
    np.add(flat[:, :inner], biases[1, :inner], out=flat[:, :inner])
    return projected


def _start(call: Call, form: RecurrentForm, index: int, number: int, name: str) -> Values:
    """The initial state [B, H]: given, or zero."""
    state = _region(call, form, name, (form.batch, form.hidden))
    given = call.optional(index)
    if given is None:
        state[...] = 0
        return state
    batch_first = call.node.integer("layout", 0) == 1
    np.copyto(state, given[:, number] if batch_first else given[number], casting="unsafe")
    return state


def _walk(
    call: Call,
    direction: _Direction,
    number: int,
    projected: Values,
    outputs: list[Values | None],
    *,
    backward: bool,
) -> None:
    form = direction.form
    lstm = form.operator == "LSTM"
    state = _start(call, form, 5, number, "state")
    cell = _start(call, form, 6, number, "cell") if lstm else direction.spare
    fresh = _region(call, form, "next", state.shape)
    fresh_cell = _region(call, form, "next_cell", state.shape) if lstm else fresh
    lengths = call.optional(4)
    step = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}[form.operator]
    for time in reversed(range(form.steps)) if backward else range(form.steps):
        step(direction, projected[time], state, cell, fresh, fresh_cell)
        active = True if lengths is None else np.greater(lengths, time)[:, np.newaxis]
        np.copyto(state, fresh, where=active)
        if lstm:
            np.copyto(cell, fresh_cell, where=active)
        if outputs[0] is not None:
            outputs[0][time, number] = 0
            np.copyto(outputs[0][time, number], fresh, casting="unsafe", where=active)
    for index, final in ((1, state), (2, cell)):
        target = outputs[index] if index < len(outputs) else None
        if target is not None:
            np.copyto(target[number], final, casting="unsafe")


def _rnn_step(
    direction: _Direction, given: Values, state: Values, _cell: Values, fresh: Values, _next: Values
) -> None:
    np.matmul(state, direction.recurrence, out=fresh)
    np.add(fresh, given, out=fresh)
    direction.activate(fresh, 0)


def _gru_step(
    direction: _Direction, given: Values, state: Values, _cell: Values, fresh: Values, _next: Values
) -> None:
    hidden = direction.form.hidden
    gates, reset, spare = direction.gates, direction.gate(1), direction.spare
    if direction.linear_before_reset:
        np.matmul(state, direction.recurrence, out=gates)
        np.copyto(fresh, direction.gate(2))
        if direction.biases is not None:
            np.add(fresh, direction.biases[1, 2 * hidden :], out=fresh)
    else:
        np.matmul(state, direction.recurrence[:, : 2 * hidden], out=gates[:, : 2 * hidden])
    np.add(gates[:, : 2 * hidden], given[:, : 2 * hidden], out=gates[:, : 2 * hidden])
    direction.activate(gates[:, : 2 * hidden], 0)
    if direction.linear_before_reset:
        np.multiply(fresh, reset, out=fresh)
    else:
        np.multiply(reset, state, out=spare)
        np.matmul(spare, direction.recurrence[:, 2 * hidden :], out=fresh)
    np.add(fresh, given[:, 2 * hidden :], out=fresh)
    direction.activate(fresh, 1)
    np.subtract(state, fresh, out=spare)
    np.multiply(spare, direction.gate(0), out=spare)
    np.add(fresh, spare, out=fresh)


def _lstm_step(
    direction: _Direction, given: Values, state: Values, cell: Values, fresh: Values, fresh_cell: Values
) -> None:
    np.matmul(state, direction.recurrence, out=direction.gates)
    np.add(direction.gates, given, out=direction.gates)
    entry, output, forget, candidate = (direction.gate(index) for index in range(4))
    _peep(direction, entry, 0, cell)
    direction.activate(entry, 0)
    if direction.coupled:
        np.subtract(1, entry, out=forget)
    else:
        _peep(direction, forget, 2, cell)
        direction.activate(forget, 0)
    direction.activate(candidate, 1)
    np.multiply(forget, cell, out=fresh_cell)
    np.multiply(entry, candidate, out=fresh)
    np.add(fresh_cell, fresh, out=fresh_cell)
    _peep(direction, output, 1, fresh_cell)
    direction.activate(output, 0)
    np.copyto(fresh, fresh_cell)
    direction.functions[2](fresh)
    np.multiply(fresh, output, out=fresh)


def _peep(direction: _Direction, gate: Values, index: int, cell: Values) -> None:
    if direction.peepholes is not None:
        np.multiply(cell, direction.peepholes[index], out=direction.spare)
        np.add(gate, direction.spare, out=gate)


SPECS: tuple[OpSpec, ...] = tuple(
    OpSpec("", name, recurrent, workspace=recurrent_workspace) for name in ("LSTM", "GRU", "RNN")
)

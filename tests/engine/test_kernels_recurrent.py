"""LSTM, GRU and RNN against onnxruntime and the reference evaluator, and their planned bytes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from one_node import Array, Given, assert_close, onnxruntime_row, row, run_row

from vramscope.errors import ModelGraphError, VramscopeError
from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import Node
from vramscope.ops.call import Call
from vramscope.ops.kernels.recurrent import SPECS
from vramscope.ops.kernels.recurrent_form import GATES
from vramscope.ops.reference import run_reference

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 6


def inputs_of(
    operator: str, directions: int, used: tuple[int, ...], *, batch_first: bool = False, half: bool = False
) -> list[Given]:
    random = np.random.default_rng(GATES[operator] * 10 + directions)
    width = GATES[operator] * HIDDEN
    state = (directions, BATCH, HIDDEN)
    shapes = {
        0: (STEPS, BATCH, INPUTS),
        1: (directions, width, INPUTS),
        2: (directions, width, HIDDEN),
        3: (directions, 2 * width),
        5: state,
        6: state,
        7: (directions, 3 * HIDDEN),
    }
    made: list[Given] = []
    for index in range(8 if operator == "LSTM" else 6):
        if index == 4:
            made.append(np.array([5, 2, 4], np.int32) if 4 in used else None)
            continue
        values: Array = random.standard_normal(shapes[index]).astype(np.float16 if half else np.float32)
        if batch_first and index in (0, 5, 6):
            values = np.ascontiguousarray(values.swapaxes(0, 1))
        made.append(values if index in (0, 1, 2, *used) else None)
    return made


def outputs_of(operator: str, kind: ElementType = ElementType.FLOAT) -> tuple[ElementType, ...]:
    return (kind,) * (3 if operator == "LSTM" else 2)


USED: list[tuple[int, ...]] = [(), (3,), (3, 5), (3, 4, 5), (3, 4, 5, 6), (3, 5, 6, 7)]


@pytest.mark.parametrize("operator", list(GATES))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("used", USED, ids=str)
def test_against_onnxruntime(operator: str, direction: str, used: tuple[int, ...]) -> None:
    directions = 2 if direction == "bidirectional" else 1
    given = inputs_of(operator, directions, used)
    attributes = {"direction": direction, "hidden_size": HIDDEN}
    spec, types = row(SPECS, operator), outputs_of(operator)
    theirs = onnxruntime_row(spec, given, attributes, types)
    for got, want in zip(run_row(spec, given, attributes, types), theirs, strict=True):
        assert_close(got, want)


EXTRAS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {"clip": 0.7}),
    ("LSTM", {"input_forget": 1}),
    (
        "LSTM",
        {
            "activations": ["HardSigmoid", "Softsign", "Relu"],
            "activation_alpha": [0.3],
            "activation_beta": [0.4],
        },
    ),
    ("GRU", {"clip": 0.5}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"activations": ["Sigmoid", "LeakyRelu"], "activation_alpha": [0.2]}),
    ("RNN", {"clip": 0.5}),
    ("RNN", {"activations": ["ScaledTanh"], "activation_alpha": [0.9], "activation_beta": [1.3]}),
    ("RNN", {"activations": ["Elu"], "activation_alpha": [0.9]}),
    ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.1]}),
    ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
    ("RNN", {"activations": ["Softplus"]}),
]


@pytest.mark.parametrize(("operator", "extra"), EXTRAS, ids=str)
def test_attributes_against_onnxruntime(operator: str, extra: dict[str, Any]) -> None:
    given = inputs_of(operator, 1, (3, 5, 6))
    attributes = {"hidden_size": HIDDEN, **extra}
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    spec, types = row(SPECS, operator), outputs_of(operator)
    theirs = onnxruntime_row(spec, given, attributes, types)
    for got, want in zip(run_row(spec, given, plain, types), theirs, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("operator", list(GATES))
def test_batch_first_is_the_same_transposed(operator: str) -> None:
    spec, types = row(SPECS, operator), outputs_of(operator)
    plain = run_row(spec, inputs_of(operator, 2, (3, 5)), {"direction": "bidirectional"}, types)
    given = inputs_of(operator, 2, (3, 5), batch_first=True)
    swapped = run_row(spec, given, {"direction": "bidirectional", "layout": 1}, types)
    np.testing.assert_array_equal(swapped[0], plain[0].transpose(2, 0, 1, 3))
    for got, want in zip(swapped[1:], plain[1:], strict=True):
        np.testing.assert_array_equal(got, want.swapaxes(0, 1))


@pytest.mark.parametrize("operator", list(GATES))
def test_half_types_compute_in_f32(operator: str) -> None:
    spec = row(SPECS, operator)
    given = inputs_of(operator, 1, (3, 5), half=True)
    halves = run_row(spec, given, {}, outputs_of(operator, ElementType.FLOAT16))
    wide: list[Given] = [
        value.astype(np.float32) if isinstance(value, np.ndarray) else None for value in given
    ]
    for got, want in zip(halves, run_row(spec, wide, {}, outputs_of(operator)), strict=True):
        np.testing.assert_array_equal(got, want.astype(np.float16))


@pytest.mark.parametrize("operator", list(GATES))
def test_against_the_reference_evaluator(operator: str) -> None:
    spec, types = row(SPECS, operator), outputs_of(operator)
    given = inputs_of(operator, 1, (3, 5, 6))
    node = Node("the node", operator, "", 22, {"hidden_size": HIDDEN})
    call = Call(node, tuple(given), [None] * len(types), (True,) * len(types), types)
    run_reference(call)
    for got, want in zip(run_row(spec, given, {}, types), call.placed, strict=True):
        assert isinstance(want, np.ndarray)
        assert_close(got, want)


def test_extents_that_do_not_fit_are_refused() -> None:
    given = inputs_of("LSTM", 1, ())
    given[1] = np.zeros((1, 4 * HIDDEN, INPUTS + 1), np.float32)
    with pytest.raises(ModelGraphError, match="do not fit"):
        run_row(row(SPECS, "LSTM"), given, {}, outputs_of("LSTM"))


@pytest.mark.parametrize(("operator", "used"), list(product(GATES, [(), (3, 5, 6, 7)])), ids=str)
def test_one_byte_less_than_planned_is_refused(operator: str, used: tuple[int, ...]) -> None:
    given = inputs_of(operator, 1, used)
    run_row(row(SPECS, operator), given, {}, outputs_of(operator))
    with pytest.raises(VramscopeError, match="the kernel needs"):
        run_row(row(SPECS, operator), given, {}, outputs_of(operator), spare=-1)

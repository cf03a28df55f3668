"""If, Loop and Scan on the host: when a body runs and with what, states and rows that outlive it."""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernel_calls import TABLE, Operator, run_kernel
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node
from onnx.reference import ReferenceEvaluator

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.call import Call

if TYPE_CHECKING:
    from collections.abc import Callable

Tensors = np.ndarray[Any, Any]


class Region:
    """Runs a body whose results lie in one region, which the next run overwrites."""

    def __init__(self, body: Callable[..., tuple[Any, ...]]) -> None:
        self.body = body
        self.memory = np.full(4096, 0xFF, np.uint8)
        self.calls: list[str] = []

    def __call__(self, name: str, inputs: list[Any]) -> list[Any]:
        self.calls.append(name)
        made = []
        used = 0
        for item in self.body(*inputs):
            if any(item is given for given in inputs):
                made.append(item)
                continue
            result = np.asarray(item)
            view = self.memory[used : used + result.nbytes].view(result.dtype).reshape(result.shape)
            view[...] = result
            used += -(-result.nbytes // 8) * 8
            made.append(view)
        return made


def test_if_runs_only_the_taken_branch() -> None:
    ran: list[str] = []

    def run_body(name: str, inputs: list[Any]) -> list[Any]:
        assert inputs == []
        ran.append(name)
        return [np.array([1.0 if name == "then_branch" else 2.0], np.float32)]

    assert run_kernel(Operator("If"), [np.array([True])], run_body=run_body)[0] == 1
    assert run_kernel(Operator("If"), [np.array(False)], run_body=run_body)[0] == 2
    assert ran == ["then_branch", "else_branch"]
    with pytest.raises(ModelGraphError, match="2 elements"):
        run_kernel(Operator("If"), [np.array([True, False])], run_body=run_body)


def test_a_body_needs_a_program() -> None:
    with pytest.raises(ModelGraphError, match="cannot be run by itself"):
        run_kernel(Operator("If"), [np.array(True)])


X = np.array([1, 2], np.float32)


def sheet_loop(iteration: Tensors, condition: Tensors, state: Tensors) -> tuple[Any, ...]:
    del iteration
    state = state + np.float32(1)
    return condition, state, state * np.float32(2)


def test_loop_of_the_sheet() -> None:
    def body(iteration: Tensors, condition: Tensors, state: Tensors) -> tuple[Any, ...]:
        del iteration
        total = state + np.float32(1)
        return condition, total, total * X

    start = np.array([1, 2], np.float32)
    final, rows = run_kernel(Operator("Loop", outputs=2), [np.array(3), None, start], run_body=Region(body))
    np.testing.assert_array_equal(final, [4, 5])
    np.testing.assert_array_equal(rows, [[2, 6], [3, 8], [4, 10]])
    np.testing.assert_array_equal(start, [1, 2])


def test_loop_tests_the_condition_before_each_iteration() -> None:
    def body(iteration: Tensors, condition: Tensors, state: Tensors) -> tuple[Any, ...]:
        del condition
        return np.array(iteration < 2), state + 1, np.array(iteration)

    inputs = [None, np.array(True), np.array(0)]
    final, rows = run_kernel(Operator("Loop", outputs=2), inputs, run_body=Region(body))
    assert final == 3
    np.testing.assert_array_equal(rows, [0, 1, 2])


def test_loop_without_iterations() -> None:
    region = Region(sheet_loop)
    operator = Operator("Loop", outputs=2)
    for inputs in ([np.array(0), None, X], [np.array(5), np.array(False), X]):
        final, rows = run_kernel(operator, inputs, run_body=region)
        np.testing.assert_array_equal(final, X)
        assert rows.shape == (0,)
        placed = [None, np.empty((0, 2), np.float32)]
        assert run_kernel(operator, inputs, placed, run_body=region)[1].shape == (0, 2)
    assert region.calls == []


def test_scan_output_of_no_iterations_has_the_inferred_rank() -> None:
    call = Call(
        node=Operator("Loop").node(),
        inputs=(np.array(0), None, X),
        placed=[None, None],
        wanted=(True, True),
        output_types=(ElementType.FLOAT, ElementType.INT64),
        run_body=Region(sheet_loop),
        inferred=((2,), (None, 3, None)),
    )
    kernel = TABLE["", "Loop"].kernel
    assert kernel is not None
    kernel(call)
    rows = call.placed[1]
    assert isinstance(rows, np.ndarray)
    assert rows.shape == (0, 3, 0)
    assert rows.dtype == np.int64


def test_states_live_in_their_placed_outputs() -> None:
    placed = [np.zeros(2, np.float32), np.zeros((4, 2), np.float32)]
    results = run_kernel(
        Operator("Loop", outputs=2), [np.array(4), None, X], placed, run_body=Region(sheet_loop)
    )
    assert results[0] is placed[0]
    assert results[1] is placed[1]
    np.testing.assert_array_equal(placed[0], [5, 6])
    np.testing.assert_array_equal(placed[1][:, 0], [4, 6, 8, 10])


def test_swapped_states_do_not_overwrite_each_other() -> None:
    def body(iteration: Tensors, condition: Tensors, first: Tensors, second: Tensors) -> tuple[Any, ...]:
        del iteration
        return condition, second, first

    placed = [np.zeros(1, np.int64), np.zeros(1, np.int64)]
    inputs = [np.array(3), None, np.array([1]), np.array([2])]
    first, second = run_kernel(Operator("Loop", outputs=2), inputs, placed, run_body=Region(body))
    assert (first, second) == ([2], [1])


def test_state_that_grows() -> None:
    def body(iteration: Tensors, condition: Tensors, state: Tensors) -> tuple[Any, ...]:
        return condition, np.concatenate([state, [iteration]])

    inputs = [np.array(3), None, np.zeros(0, np.int64)]
    np.testing.assert_array_equal(run_kernel(Operator("Loop"), inputs, run_body=Region(body))[0], [0, 1, 2])


def accumulate(state: Tensors, row: Tensors) -> tuple[Any, ...]:
    total = state + row
    return total, total


def test_scan_in_reverse_along_the_last_axis() -> None:
    attributes = {
        "num_scan_inputs": 1,
        "scan_input_axes": (1,),
        "scan_output_axes": (1,),
        "scan_input_directions": (1,),
        "scan_output_directions": (1,),
    }
    operator = Operator("Scan", outputs=2, opset=16, attributes=attributes)
    inputs = [np.zeros(2, np.int64), np.arange(6).reshape(2, 3)]
    final, rows = run_kernel(operator, inputs, run_body=Region(accumulate))
    np.testing.assert_array_equal(final, [3, 12])
    np.testing.assert_array_equal(rows, [[3, 3, 2], [12, 9, 5]])


def test_scan_of_no_slices() -> None:
    operator = Operator("Scan", outputs=2, opset=16).having(num_scan_inputs=1, scan_output_axes=(-1,))
    inputs = [X, np.zeros((0, 2), np.float32)]
    placed = [None, np.empty((2, 0), np.float32)]
    final, rows = run_kernel(operator, inputs, placed, run_body=Region(accumulate))
    np.testing.assert_array_equal(final, X)
    assert rows.shape == (2, 0)


def test_scan_inputs_of_different_lengths_are_refused() -> None:
    operator = Operator("Scan", outputs=1, opset=16).having(num_scan_inputs=2)
    with pytest.raises(ModelGraphError, match=r"their lengths differ: \[2, 3\]"):
        run_kernel(operator, [np.zeros(2), np.zeros(3)], run_body=Region(accumulate))


def test_batched_scan_of_opset_8() -> None:
    operator = Operator("Scan", outputs=2, opset=8).having(num_scan_inputs=1)
    rows = np.array([[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]]])
    inputs = [np.array([3, 2]), np.zeros((2, 1)), rows]
    final, scanned = run_kernel(operator, inputs, run_body=Region(accumulate))
    np.testing.assert_array_equal(final, [[6], [30]])
    np.testing.assert_array_equal(scanned[..., 0], [[1, 3, 6], [10, 30, 0]])


@cache
def node_cases() -> dict[str, Any]:
    """ONNX's own cases of the control-flow operators, without optional types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("if_", "loop", "scan"):
            importlib.import_module(f"{node.__name__}.{name}")
    names = {"test_if_opt", "test_loop16_seq_none"}
    cases: list[Any] = [case for case in node._NodeTestCases if case.model is not None]
    kinds = {"If", "Loop", "Scan"}
    found = [case for case in cases if case.model.graph.node[0].op_type in kinds and case.name not in names]
    return {case.name: case for case in found if len(case.model.graph.node) == 1}


def test_onnx_node_cases() -> None:
    failed = [name for name, case in node_cases().items() if not agrees(case)]
    assert len(node_cases()) > 7
    assert failed == []


def agrees(case: Any) -> bool:  # noqa: ANN401 - onnx's test case has no type of its own
    graph = case.model.graph
    step = graph.node[0]
    bodies = {item.name: item.g for item in step.attribute if item.HasField("g")}
    others = [item for item in step.attribute if item.name not in bodies]
    plain = {item.name: helper.get_attribute_value(item) for item in others}
    opset = case.model.opset_import[0].version
    evaluators = {name: ReferenceEvaluator(body, opsets={"": opset}) for name, body in bodies.items()}

    def run_body(name: str, inputs: list[Any]) -> list[Any]:
        names = [item.name for item in bodies[name].input]
        results: Any = evaluators[name].run(None, dict(zip(names, inputs, strict=True)))
        return [item if isinstance(item, list) else np.asarray(item) for item in results]

    given, expected = case.data_sets[0]
    fed = dict(zip([item.name for item in graph.input], given, strict=True))
    operator = Operator(step.op_type, "", len(step.output), opset, plain)
    results = run_kernel(operator, [to_tensor(fed.get(name)) for name in step.input], run_body=run_body)
    return all(equal(mine, to_tensor(other)) for mine, other in zip(results, expected, strict=True))


def to_tensor(value: Any) -> Any:  # noqa: ANN401 - arrays, lists or protos
    if value is None or isinstance(value, list):
        return None if value is None else [to_tensor(item) for item in value]
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def equal(mine: Any, other: Any) -> bool:  # noqa: ANN401 - arrays or lists of them
    if isinstance(other, list):
        return len(mine) == len(other) and all(map(equal, mine, other))
    return mine.shape == other.shape and np.allclose(mine, other)

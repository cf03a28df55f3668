"""Every operator case of ONNX itself opens, and what is claimed about its outputs is true."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.graph.expr import Symbol, evaluate
from vramscope.graph.load import open_model

if TYPE_CHECKING:
    from pathlib import Path

    from onnx.backend.test.case.test_case import TestCase

    from vramscope.graph.model import Array, Program, Value

AS_ANOTHER = frozenset(
    {
        ElementType.INT4,
        ElementType.UINT4,
        ElementType.INT2,
        ElementType.UINT2,
        ElementType.FLOAT4E2M1,
        ElementType.STRING,
    }
)
"""Types whose expected arrays come in another NumPy type."""


@pytest.fixture(scope="module")
def cases() -> list[TestCase]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[TestCase] = collect_testcases(None)
    return found


def without_output_shapes(case: TestCase) -> bytes:
    """The case's model; its outputs declare no shape, so nothing but inference can know it."""
    assert case.model is not None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)  # the collector hands out the same cases to every test
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return bytes(model.SerializeToString())


def false_claims(program: Program, outputs: list[Array]) -> list[str]:
    """What the program says of its outputs that is not so."""
    wrong: list[str] = []
    for identity, array in zip(program.outputs, outputs, strict=False):
        if isinstance(array, np.ndarray):
            wrong.extend(false_of_value(program, program.values[identity], array))
    return wrong


def false_of_value(program: Program, value: Value, array: Array) -> list[str]:
    if value.dtype not in AS_ANOTHER and from_numpy(array.dtype) is not value.dtype:
        return [f"{value.name}: {value.dtype.name}, truly {array.dtype}"]
    if value.shape is None:
        return []
    if len(value.shape) != array.ndim:
        return [f"{value.name}: rank {len(value.shape)}, truly {array.ndim}"]
    wrong: list[str] = []
    for dim, extent in zip(value.shape, array.shape, strict=True):
        minted = program.minted.get(dim.name) if isinstance(dim, Symbol) else None
        bound = None if minted is None or minted.ceiling is None else evaluate(minted.ceiling, {})
        if (isinstance(dim, int) and dim != extent) or (bound is not None and extent > bound):
            wrong.append(f"{value.name}: {dim} (at most {bound}), truly {extent}")
    return wrong


def test_nothing_false_is_claimed_about_any_operator(cases: list[TestCase], tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    wrong: dict[str, list[str]] = {}
    unknown = 0
    for case in cases:
        file.write_bytes(without_output_shapes(case))
        program = open_model(file).program
        assert case.data_sets is not None
        outputs = list(case.data_sets[0][1])
        claims = false_claims(program, outputs)
        if claims:
            wrong[case.name] = claims
        values = [program.values[identity] for identity in program.outputs]
        unknown += sum(value.shape is None and not value.is_sequence for value in values)
    assert wrong == {}
    assert len(cases) > 1_500
    assert unknown < 60

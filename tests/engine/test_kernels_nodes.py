"""ONNX's own backend node cases through our kernels and, where there is none, through the reference."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from vramscope.graph.dtypes import ElementType
from vramscope.ops.call import Packed
from vramscope.ops.reference import has_reference
from vramscope.ops.single import node_from_proto, run_single
from vramscope.ops.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vramscope.graph.model import Array

Key: TypeAlias = tuple[str, str]
Case: TypeAlias = Any
Result: TypeAlias = Any

SKIPPED: tuple[tuple[str, str], ...] = (
    ("test_training_dropout_default", "training draws a random mask"),
    ("test_training_dropout_default_mask", "training draws a random mask"),
    ("test_training_dropout", "training draws a random mask"),
    ("test_training_dropout_mask", "training draws a random mask"),
    ("test_bernoulli", "draws random numbers"),
    ("test_bernoulli_double", "draws random numbers"),
    ("test_bernoulli_seed", "draws random numbers"),
)
"""Single-node cases that cannot be compared, each with its reason."""

TOLERANCES = (
    (np.dtype(np.float16), (2e-3, 1e-3)),
    (np.dtype(ml_dtypes.bfloat16), (1.6e-2, 1e-3)),
)
"""Relative (two ulps) and absolute tolerance of narrow outputs: some expectations were rounded twice."""

PILLOW = "ImageDecoder"
"""The reference implementation of this operator needs Pillow, which is no dependency of ours."""

RUNS_AT_LEAST = 900
"""Cases that ran through our kernels when this was written; fewer means that the harness lost some."""


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _key(node: onnx.NodeProto) -> Key:
    return (_domain(node.domain), node.op_type)


def _reason_to_skip(case: Case) -> str:
    """Why a case is not ours to run, by rule: several nodes, a function's expansion, a body, or the table."""
    nodes = case.model.graph.node
    if len(nodes) != 1 or "_expanded" in case.name:
        return "several nodes"
    if any(attribute.HasField("g") for attribute in nodes[0].attribute):
        return "a body graph"
    if nodes[0].op_type == PILLOW:
        return "needs Pillow"
    return dict(SKIPPED).get(case.name, "")


@pytest.fixture(scope="module")
def cases() -> Mapping[Key, Sequence[Case]]:
    """Every runnable single-node case, by operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of onnx's own case generators overflow on purpose
        from onnx.backend.test.case.node import collect_testcases

        collected = collect_testcases(None)
    found: dict[Key, list[Case]] = defaultdict(list)
    for case in collected:
        assert case.model is not None
        if not _reason_to_skip(case):
            found[_key(case.model.graph.node[0])].append(case)
    return found


def _element_type(kind: onnx.TypeProto) -> ElementType:
    if kind.HasField("tensor_type"):
        return ElementType(kind.tensor_type.elem_type)
    if kind.HasField("sequence_type"):
        return _element_type(kind.sequence_type.elem_type)
    return _element_type(kind.optional_type.elem_type) if kind.HasField("optional_type") else ElementType(0)


def _plain(value: Result) -> Result:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _run(case: Case, inputs: Sequence[Result]) -> dict[str, Result]:
    graph = case.model.graph
    proto = graph.node[0]
    opsets = {
        "" if item.domain == "ai.onnx" else item.domain: item.version for item in case.model.opset_import
    }
    feed = {item.name: _plain(numpy_helper.to_array(item)) for item in graph.initializer}
    feed.update(zip((item.name for item in graph.input), map(_plain, inputs), strict=False))
    types = {item.name: _element_type(item.type) for item in graph.output}
    results = run_single(
        node_from_proto(proto, opsets[_key(proto)[0]]),
        [feed.get(name) for name in proto.input],
        [types.get(name, ElementType.UNDEFINED) for name in proto.output],
        wanted=[bool(name) for name in proto.output],
    )
    return dict(zip(proto.output, results, strict=True))


PACKED_RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def _left_open(case: Case, inputs: Sequence[Result], wanted: Array) -> NDArray[np.bool] | None:
    """Where the standard leaves a cast's result open: a float outside the range of the integer it becomes."""
    if case.model.graph.node[0].op_type not in ("Cast", "CastLike"):
        return None
    source = np.asarray(_plain(inputs[0]))
    if wanted.dtype.kind in "iu":
        limits = np.iinfo(wanted.dtype.name)
        low, high = int(limits.min), int(limits.max)
    elif wanted.dtype.name in PACKED_RANGES:
        low, high = PACKED_RANGES[wanted.dtype.name]
    else:
        return None
    if source.dtype.kind not in "fV":
        return None
    wide = source.astype(np.float64)
    return np.asarray(~((wide >= low) & (wide <= high)), np.bool)


def _assert_same(actual: Result, expected: Result, case: Case, inputs: Sequence[Result] = ()) -> None:
    if isinstance(expected, list):
        assert isinstance(actual, list)
        assert len(actual) == len(expected)
        for got, wanted in zip(actual, expected, strict=True):
            _assert_same(got, wanted, case)
        return
    if isinstance(actual, Packed):
        actual = actual.unpack()
    wanted = np.asarray(_plain(expected))
    assert actual.shape == wanted.shape
    if wanted.dtype.kind in "OUS":
        assert actual.astype(str).tolist() == wanted.astype(str).tolist()
        return
    assert actual.dtype == wanted.dtype
    rtol, atol = dict(TOLERANCES).get(wanted.dtype, (case.rtol, case.atol))
    left_open = _left_open(case, inputs, wanted)
    if wanted.dtype.kind == "V":
        actual, wanted = actual.astype(np.float32), wanted.astype(np.float32)
    if wanted.dtype.kind in "iub":
        rtol, atol = 0.0, 0.0
    if left_open is not None:
        actual, wanted = actual[~left_open], wanted[~left_open]
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol, err_msg=case.name)


def _check(case: Case) -> None:
    for inputs, outputs in case.data_sets:
        results = _run(case, inputs)
        for info, expected in zip(case.model.graph.output, outputs, strict=True):
            _assert_same(results[info.name], expected, case, inputs)


KERNELS = sorted(key for key, row in TABLE.items() if row.kernel is not None and key[0] in {"", "ai.onnx.ml"})


@pytest.mark.parametrize("key", KERNELS, ids=lambda key: f"{key[0]}{key[1]}")
def test_a_kernel_gives_the_expected_outputs_of_the_onnx_node_cases(
    key: Key, cases: Mapping[Key, Sequence[Case]]
) -> None:
    if key not in cases:
        pytest.skip("onnx has no single-node case of this operator")
    for case in cases[key]:
        _check(case)


def test_the_harness_does_not_lose_cases(cases: Mapping[Key, Sequence[Case]]) -> None:
    assert sum(len(cases.get(key, ())) for key in KERNELS) >= RUNS_AT_LEAST


def test_the_skip_table_names_existing_cases_only(cases: Mapping[Key, Sequence[Case]]) -> None:
    ran = {case.name for group in cases.values() for case in group}
    assert not ran & {name for name, _ in SKIPPED}
    assert len({name for name, _ in SKIPPED}) == len(SKIPPED)


def test_an_operator_without_a_kernel_runs_through_the_reference(
    cases: Mapping[Key, Sequence[Case]],
) -> None:
    rest = [case for key, group in cases.items() if key not in KERNELS for case in group]
    assert rest
    for case in rest:
        domain, operator = _key(case.model.graph.node[0])
        opsets = {item.domain: item.version for item in case.model.opset_import}
        assert has_reference(domain, operator, opsets[domain]), case.name
        _check(case)

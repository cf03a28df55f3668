"""ONNX's own cases of operators as whole models, run: every second one with inputs, the others as weights."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from vramscope.api import make_plan, open_path
from vramscope.errors import BindingError, UnboundedAxisError, UnsupportedOperatorError, VramscopeError
from vramscope.ops.call import Packed
from vramscope.plan.types import Scenario
from vramscope.run.plain import run_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from onnx.backend.test.case.test_case import TestCase

ELSEWHERE = re.compile(
    "bernoulli"  # random
    "|_to_U?INT[24]"  # ONNX leaves a float outside the range of the integer open
    "|image_decoder"  # needs Pillow
    "|training_dropout"
    "|test_if_opt"  # an optional sequence
)
"""Cases without one right answer here."""
UNSUPPORTED = re.compile("flexattention_.*(mod|mask|cap|positional)$")
"""An operator whose bodies nothing runs."""
SEED = 7
TOLERANCE = {"bfloat16": 1e-2, "float16": 2e-3}


@pytest.fixture(scope="module")
def cases() -> dict[str, TestCase]:
    from onnx.backend.test.case.node import collect_testcases

    state = np.random.get_state()  # noqa: NPY002 - the collector draws from NumPy's global generator
    np.random.seed(SEED)  # noqa: NPY002 - as above
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[TestCase] = collect_testcases(None)
    np.random.set_state(state)  # noqa: NPY002 - as above
    return {case.name: case for case in found if case.model and not case.name.endswith("_expanded")}


def array(value: object) -> object:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def equal(found: object, truth: object, case: TestCase) -> bool:
    if isinstance(found, list) or isinstance(truth, list):
        assert isinstance(found, list)
        assert isinstance(truth, list)
        return len(found) == len(truth) and all(
            equal(one, other, case) for one, other in zip(found, truth, strict=True)
        )
    have = found.unpack() if isinstance(found, Packed) else np.asarray(found)
    want = np.asarray(truth)
    if have.shape != want.shape:
        return False
    if want.dtype.kind in "OUS":
        return bool(np.array_equal(have.astype(str), want.astype(str)))
    close = max(case.rtol, TOLERANCE.get(str(want.dtype), 1e-5))
    return bool(np.allclose(have.astype(float), want.astype(float), rtol=close, atol=close, equal_nan=True))


def run(model: onnx.ModelProto, given: Mapping[str, object], folder: Path) -> dict[str, object]:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    opened = open_path(path)
    names = {opened.program.values[item].name for item in opened.program.inputs}
    inputs = {name: value for name, value in given.items() if name in names}
    return dict(run_plain(opened, make_plan(opened, Scenario()), inputs))  # type: ignore[arg-type]  # lists are refused


def wrong(case: TestCase, model: onnx.ModelProto, given: Mapping[str, object], folder: Path) -> bool | None:
    """None: refused by name, for a reason that holds."""
    try:
        found = run(model, given, folder)
    except (UnboundedAxisError, BindingError):
        return None
    except UnsupportedOperatorError:
        return None if UNSUPPORTED.search(case.name) else True
    truth = dict(zip([item.name for item in model.graph.output], given_and_wanted(case)[1], strict=True))
    return not all(equal(found[name], array(value), case) for name, value in truth.items())


def given_and_wanted(case: TestCase) -> tuple[Sequence[object], Sequence[object]]:
    assert case.data_sets is not None
    return case.data_sets[0]


def inputs_of(case: TestCase, model: onnx.ModelProto) -> dict[str, object]:
    names = [item.name for item in model.graph.input]
    return {name: array(value) for name, value in zip(names, given_and_wanted(case)[0], strict=False)}


def as_weights(whole: onnx.ModelProto, given: Mapping[str, object]) -> onnx.ModelProto | None:
    if not all(isinstance(value, np.ndarray | np.generic) for value in given.values()):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(whole)
    del model.graph.input[:]
    for name, value in given.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


@pytest.mark.parametrize("weights", [False, True], ids=["inputs", "weights"])
def test_whole_models_of_one_operator_give_what_the_standard_says(
    weights: bool, cases: dict[str, TestCase], tmp_path: Path
) -> None:
    told: list[str] = []
    counts = {True: 0, False: 0, None: 0}
    for case in list(cases.values())[weights::2]:
        if ELSEWHERE.search(case.name) or case.model is None:
            continue
        given = inputs_of(case, case.model)
        model = as_weights(case.model, given) if weights else case.model
        if model is None:
            continue
        try:
            found = wrong(case, model, {} if weights else given, tmp_path)
        except VramscopeError as error:
            told.append(f"{case.name}: {error}")
            continue
        counts[found] += 1
        if found:
            told.append(f"{case.name}: another result")
    assert not told, told
    assert counts[False] > 500
    assert counts[None] < 40

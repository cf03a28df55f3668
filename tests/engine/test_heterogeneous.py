"""A session over two providers: plain runs are allowed, five facilities refused by name (semantics 1.21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from cuda_twin import twin_device
from small_models import array_of, opened

from vramscope.api import make_plan
from vramscope.devices.host import HostDevice
from vramscope.errors import HeterogeneousExecutionUnsupportedError, SequenceOutputError
from vramscope.plan.types import Scenario
from vramscope.run.heterogeneous import Elsewhere, HeterogeneousSession

if TYPE_CHECKING:
    from collections.abc import Callable

MIXED = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }"
FACILITIES: dict[str, Callable[[HeterogeneousSession], object]] = {
    "prepare": lambda session: session.prepare(),
    "run_with_device_bindings": lambda session: session.run_with_device_bindings({}, []),
    "capture": lambda session: session.try_capture([]),
    "replay": lambda session: session.replay([]),
    "reset": lambda session: session.reset(),
}


def session_of(text: str) -> HeterogeneousSession:
    model = opened(text)
    return HeterogeneousSession(model, make_plan(model, Scenario()), HostDevice())


@pytest.mark.parametrize("facility", FACILITIES)
def test_what_needs_one_device_is_refused_by_its_name(facility: str) -> None:
    session = session_of(MIXED)
    with pytest.raises(HeterogeneousExecutionUnsupportedError, match="two providers") as refused:
        FACILITIES[facility](session)
    assert refused.value.facility == facility


def test_plain_runs_are_allowed_and_give_everything_back() -> None:
    device = HostDevice()
    model = opened(MIXED)
    session = HeterogeneousSession(model, make_plan(model, Scenario()), device)
    x = np.array([[1, -2, 3], [0, 5, -6]], np.float32)
    for _ in range(2):
        assert np.array_equal(array_of(session.run({"x": x}), "y"), -np.maximum(x, 0))
    assert np.array_equal(array_of(session.run_outputs({"x": x}), "y"), -np.maximum(x, 0))
    session.close()
    assert device.ledger.total.current_bytes == 0


def test_only_tensors_travel() -> None:
    session = session_of("g (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x) }")
    with pytest.raises(SequenceOutputError):
        session.run_outputs({"x": np.zeros(2, np.float32)})


def test_the_report_names_nodes_operators_and_reasons() -> None:
    model = opened("g (float[2,2] x) => (float[2,2] y, float d) { y = Relu(x) d = Det(x) }")
    device, _ = twin_device()
    session = HeterogeneousSession(model, make_plan(model, Scenario(runtime="cuda")), device)
    (found,) = session.elsewhere
    assert found == Elsewhere("Det_d", "ai.onnx::Det", "it has no CUDA kernel and runs on the host")
    with pytest.raises(HeterogeneousExecutionUnsupportedError, match="Det_d run elsewhere"):
        session.try_capture([])

"""Tiny graphs as ONNX text, and a session over one of them on a host device of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import parser

from vramscope.api import make_plan, open_path
from vramscope.devices.host import HostDevice
from vramscope.plan.types import Scenario
from vramscope.run.session import ProgramSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Array, Model
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.session_types import Outputs, SessionOptions

RELU = "g (float[N] x) => (float[N] y) { y = Relu(x) }"
OPSETS = '["" : 17, "com.microsoft" : 1]'


def f32(*values: float) -> Array:
    """The values as float32."""
    return np.array(values, np.float32)


def opened(text: str, *, opsets: str = OPSETS) -> Model:
    """The model of ONNX text that begins with its graph's name."""
    proto = parser.parse_model(f"<ir_version: 8, opset_import: {opsets}>\n{text}")
    return opened_proto(proto)


def opened_proto(proto: onnx.ModelProto) -> Model:
    """The model as opened from a file; nodes without a name get that of their first output."""
    for node in proto.graph.node:
        node.name = node.name or f"{node.op_type}_{next(filter(None, node.output))}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(proto, path)
        return open_path(path)


def array_of(outputs: Outputs, name: str) -> Array:
    """One output as an array."""
    found = outputs[name]
    assert isinstance(found, np.ndarray)
    return found


def session_of(
    model: Model,
    maxima: Mapping[str, int] | None = None,
    *,
    device: HostDevice | None = None,
    options: SessionOptions | None = None,
) -> ProgramSession:
    """A prepared session; ``maxima`` bound the symbols that nothing binds."""
    plan = make_plan(model, Scenario(maxima=maxima or {}))
    session = ProgramSession(model, plan, device or HostDevice(), options)
    session.prepare()
    return session


def bound(session: ProgramSession, **names: tuple[int, ...]) -> dict[str, DeviceIoBinding]:
    """A binding for each input and output of these names and shapes."""
    program = session.runner.planner.model.program
    inputs = {program.values[item].name for item in program.inputs}
    return {
        name: session.allocate_binding(shape, input_name=name)
        if name in inputs
        else session.allocate_binding(shape, output_name=name)
        for name, shape in names.items()
    }

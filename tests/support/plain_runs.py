"""Running a plain model here and on onnxruntime, and opening one from ONNX text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from vramscope.api import open_path
from vramscope.devices.host import HostDevice
from vramscope.run.plain import run_plain

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model
    from vramscope.plan.types import Plan

Arrays = dict[str, np.ndarray[tuple[int, ...], np.dtype[Any]]]


def truth(path: Path, inputs: Arrays) -> list[Any]:
    """onnxruntime's outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def compare(path: Path, model: Model, plan: Plan, inputs: Arrays, tolerance: float = 1e-4) -> HostDevice:
    """Runs both and compares every output; returns the device, whose ledger counted the run."""
    device = HostDevice()
    found = run_plain(model, plan, inputs, device=device)
    for (name, got), wanted in zip(found, truth(path, inputs), strict=True):
        assert isinstance(got, np.ndarray)
        assert got.shape == wanted.shape, name
        np.testing.assert_allclose(
            got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance * max(1.0, np.abs(wanted).max())
        )
    return device


def opened(text: str, folder: Path, *, opset: int = 17) -> tuple[Path, Model]:
    """A model of ONNX text: its file and itself."""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    path = folder / "m.onnx"
    onnx.save(proto, path)
    return path, open_path(path)

"""Tiny ONNX models written as text, opened and planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import parser

from vramscope.api import Planner, open_path
from vramscope.plan.activations import Deferred, exact_sizes, plan_activations

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model, Value
    from vramscope.plan.activations import SizeOracle
    from vramscope.plan.arena import ArenaPlan

HEADER = '<ir_version: 9, opset_import: ["" : 22, "com.microsoft" : 1]>'


def opened(folder: Path, graph: str, header: str = HEADER, name: str = "model") -> Model:
    """The model of ``graph`` (ONNX text: ``g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }``)."""
    path = folder / f"{name}.onnx"
    onnx.save(parser.parse_model(f"{header}\n{graph}"), path)
    return open_path(path)


def planner_of(folder: Path, graph: str) -> Planner:
    """A planner of the model of ``graph``."""
    return Planner(opened(folder, graph))


def activations(model: Model, size_of: SizeOracle | None = None) -> ArenaPlan:
    """The activation plan (semantics 2.12); the test fails when it is deferred."""
    found = plan_activations(model.program, Planner(model).index.view_edges(), size_of or exact_sizes())
    assert not isinstance(found, Deferred)
    return found


def value_of(model: Model, name: str) -> Value:
    """The value called ``name``."""
    return next(value for value in model.program.values if value.name == name)


def chain(count: int, shape: str = "1,1024") -> str:
    """``count`` Relus in a row."""
    nodes = " ".join(f"v{i + 1} = Relu(v{i})" for i in range(count))
    return f"g (float[{shape}] v0) => (float[{shape}] v{count}) {{ {nodes} }}"

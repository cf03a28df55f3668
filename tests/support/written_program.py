"""A program written as an ONNX file without its large weights and opened anew: all is inferred again."""

from __future__ import annotations

import shutil
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from vramscope.api import open_path
from vramscope.graph.dtypes import ElementType, numpy_dtype
from vramscope.graph.model import ABSENT, WeightSource
from vramscope.graph.weights import read_weight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vramscope.graph.model import Model, Program, Step, Value

HEADER = '<ir_version: 10, opset_import: ["" : 22, "com.microsoft" : 1]>'
COMPANIONS = ("genai_config.json", "config.json", "generation_config.json")


def written(model: Model, folder: Path) -> Model:
    """``model`` from a file of its own; all but small weights are missing: known by type and shape."""
    return _opened_again(model, folder, list(_initializers(model.program)), bare=True)


def filled(model: Model, folder: Path, seed: int = 1) -> Model:
    """``model`` from a file with every weight in it: seeded ones where no bytes are known."""
    random = np.random.default_rng(seed)
    found = [
        TensorProto(
            name=model.program.values[item].name,
            data_type=int(source.dtype),
            dims=source.shape,
            raw_data=_content(source, random),
        )
        for item, source in model.program.weights.items()
    ]
    return _opened_again(model, folder, found, bare=False)


def _content(source: WeightSource, random: np.random.Generator) -> bytes:
    if source.present:
        return read_weight(source).tobytes()
    if source.dtype is ElementType.UINT8:
        return random.integers(0, 256, source.size, np.uint8).tobytes()
    return (random.random(source.shape) * 0.1 + 0.01).astype(numpy_dtype(source.dtype)).tobytes()


def _opened_again(model: Model, folder: Path, weights: list[TensorProto], *, bare: bool) -> Model:
    folder.mkdir(parents=True, exist_ok=True)
    for name in COMPANIONS:
        if (model.folder / name).is_file():
            shutil.copy(model.folder / name, folder / name)
    program = model.program
    graph = helper.make_graph(
        [_node(program, step) for step in program.steps],
        program.name or "g",
        [_info(program.values[item]) for item in program.inputs],
        [_info(program.values[item]) for item in program.outputs],
        weights,
    )
    opsets = [helper.make_opsetid(domain, number) for domain, number in _opsets(model).items()]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name=model.producer)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return open_path(folder / "model.onnx", without_weights=bare)


def opened_bare(
    folder: Path, graph: str, weights: Mapping[str, tuple[int, ...]], header: str = HEADER
) -> Model:
    """The model of ONNX text whose ``weights`` (float32, by name) are missing: known by shape alone."""
    proto = parser.parse_model(f"{header}\n{graph}")
    end = 0
    for name, shape in weights.items():
        size = 4 * prod(shape)
        source = WeightSource(ElementType.FLOAT, shape, size, name)
        proto.graph.initializer.append(_tensor(name, source, end))
        end += -(-size // 64) * 64
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return open_path(folder / "model.onnx", without_weights=True)


def _opsets(model: Model) -> dict[str, int]:
    found = dict(model.opsets)
    for step in model.program.steps:
        found[step.node.domain] = max(found.get(step.node.domain, 1), step.node.opset)
    return found


def _node(program: Program, step: Step) -> onnx.NodeProto:
    assert not step.bodies
    inputs, outputs = (
        ["" if item == ABSENT else program.values[item].name for item in side]
        for side in (step.inputs, step.outputs)
    )
    node = step.node
    made = helper.make_node(node.operator, inputs, outputs, name=node.name, domain=node.domain)
    for name, value in node.attributes.items():
        held = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        made.attribute.append(helper.make_attribute(name, held))
    return made


def _info(value: Value) -> onnx.ValueInfoProto:
    assert value.shape is not None
    shape = [dim if isinstance(dim, int) else str(dim) for dim in value.shape]
    return helper.make_tensor_value_info(value.name, int(value.dtype), shape)


def _initializers(program: Program) -> Iterator[onnx.TensorProto]:
    offsets: dict[str, int] = {}
    end = 0
    for item, source in program.weights.items():
        if source.identity not in offsets:
            offsets[source.identity] = end
            end += -(-max(source.size, 1) // 64) * 64
        yield _tensor(program.values[item].name, source, offsets[source.identity])


def _tensor(name: str, source: WeightSource, offset: int) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=int(source.dtype), dims=source.shape)
    if source.inline and source.size <= 64:
        tensor.raw_data = source.inline
        return tensor
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "absent.data"), ("offset", offset), ("length", source.size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor

"""A growing ONNX graph: nodes named by scope, small constants inside the file, weights in the data file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vramscope.build.weights import Storage, Weight, WeightKind, place, storage_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.build.config import Rope
    from vramscope.graph.dtypes import ElementType
    from vramscope.graph.model import Array

DATA_FILE = "model.onnx.data"
"""The external data file beside ``model.onnx``."""

IR_VERSION = 10
OPSET = 22
MICROSOFT = "com.microsoft"


class GraphWriter:
    """Collects a graph's parts in execution order and turns them into a ``ModelProto``."""

    def __init__(self, dtype: ElementType) -> None:
        self.dtype = dtype
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[Weight] = []
        self.size = 0
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: ElementType, shape: Sequence[int | str]) -> str:
        """Declares a graph input; a dimension is a number or a symbol."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, name: str, dtype: ElementType, shape: Sequence[int | str]) -> str:
        """Declares a graph output."""
        self._outputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        name: str,
        *,
        outputs: Sequence[str] = (),
        domain: str = "",
        **attributes: object,
    ) -> str:
        """Appends a node called ``name`` and returns its first output, ``{name}/output_0`` by default."""
        names = list(outputs) or [f"{name}/output_0"]
        made = helper.make_node(operator, list(inputs), names, name=name, domain=domain)
        made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(made)
        return names[0]

    def integers(self, values: Sequence[int]) -> str:
        """An INT64 vector constant, shared by all who ask for the same one."""
        return self.constant(f"/model/constants/INT64/{list(values)}", np.array(values, np.int64))

    def constant(self, name: str, values: Array) -> str:
        """A small constant kept inside the model file."""
        self._constants.setdefault(name, numpy_helper.from_array(values, name))
        return name

    def scalar(self, value: float) -> str:
        """A scalar of the activation type, rounded to it once."""
        kind = helper.tensor_dtype_to_np_dtype(self.dtype)
        return self.constant(f"/model/constants/{self.dtype.name}/{value:g}", np.array(value, kind))

    def weight(
        self,
        name: str,
        kind: WeightKind,
        rows: int,
        columns: int,
        *,
        storage: Storage = Storage.DENSE,
        rope: Rope | None = None,
    ) -> tuple[str, ...]:
        """Declares a weight in the data file and returns the names of the initializers that store it."""
        described = storage_tensors((name, kind, storage), rows, columns, self.dtype)
        tensors = place(described, self.size)
        self.size = tensors[-1].offset + tensors[-1].size
        self.weights.append(Weight(name, kind, storage, rows, columns, tensors, rope))
        return tuple(spec.name for spec in tensors)

    def model(self, name: str, metadata: dict[str, str]) -> onnx.ModelProto:
        """The finished model; its weights point into :data:`DATA_FILE`."""
        initializers = [*self._constants.values(), *(_external(item) for item in self._specs())]
        graph = helper.make_graph(self.nodes, name, self._inputs, self._outputs, initializers)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="vramscope"
        )
        helper.set_model_props(model, metadata)
        return model

    def _specs(self) -> list[tuple[str, int, tuple[int, ...], int, int]]:
        return [
            (spec.name, int(spec.dtype), spec.shape, spec.offset, spec.size)
            for weight in self.weights
            for spec in weight.tensors
        ]


def _external(spec: tuple[str, int, tuple[int, ...], int, int]) -> onnx.TensorProto:
    """An initializer whose bytes are in the data file."""
    name, dtype, shape, offset, size = spec
    tensor = TensorProto(name=name, data_type=dtype, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", DATA_FILE), ("offset", str(offset)), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
    return tensor

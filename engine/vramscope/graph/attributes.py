"""A node's attributes as plain Python values, and the weight that a Constant node holds."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from vramscope.errors import MissingWeightsError, ModelGraphError
from vramscope.graph.dtypes import ElementType
from vramscope.graph.sources import inline_source, weight_source
from vramscope.graph.walk import domain_of, node_title
from vramscope.graph.weights import read_weight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope.graph.external import ExternalFiles
    from vramscope.graph.model import Array, AttributeValue, WeightSource


def attribute_values(node: ir.Node, files: ExternalFiles) -> Mapping[str, AttributeValue]:
    """Every attribute of ``node`` except its bodies.

    Raises:
        ModelGraphError: an attribute of a kind that this program does not know.
    """
    values: dict[str, AttributeValue] = {}
    for name, attribute in node.attributes.items():
        if attribute.is_ref() or attribute.type == ir.AttributeType.GRAPH:
            continue
        reader = _READERS.get(attribute.type)
        if reader is None:
            what = f"attribute {name!r} of node {node_title(node)}"
            raise ModelGraphError(what, f"kind {attribute.type.name} is not supported", "Export without it")
        values[name] = reader(attribute, files)
    return MappingProxyType(values)


def _text(value: str | bytes) -> str | bytes:
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def bring_in(graph: ir.Graph, files: ExternalFiles) -> None:
    """Puts attributes' tensors that lie in external files into the graph, from checked regions.

    Shape inference opens what an attribute names, wherever that is; after this nothing names a file.

    Raises:
        MissingWeightsError: the file is missing.
        ModelFileError: what :mod:`vramscope.graph.external` refuses.
    """
    for node in graph:
        for name, attribute in node.attributes.items():
            if attribute.is_ref():
                continue
            if attribute.type == ir.AttributeType.TENSOR:
                node.attributes[name] = ir.AttrTensor(name, _inside(attribute.as_tensor(), name, files))
            elif attribute.type == ir.AttributeType.TENSORS:
                held = [_inside(tensor, name, files) for tensor in attribute.as_tensors()]
                node.attributes[name] = ir.AttrTensors(name, held)


def _inside(tensor: ir.TensorProtocol, name: str, files: ExternalFiles) -> ir.TensorProtocol:
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    source = weight_source(name, tensor, files)
    if not source.present:
        why, remedy = "its value is in a file that is missing", "Put the model's data files beside it"
        raise MissingWeightsError(f"attribute {name!r}", why, remedy)
    content = onnx.TensorProto(
        name=tensor.name,
        data_type=int(source.dtype),
        dims=source.shape,
        raw_data=read_weight(source).tobytes(),
    )
    return ir.serde.deserialize_tensor(content)


def _tensor(attribute: ir.Attr, files: ExternalFiles) -> Array:
    tensor = attribute.as_tensor()
    source = weight_source(attribute.name, tensor, files)
    return read_weight(source) if source.dtype is ElementType.STRING else np.asarray(tensor.numpy())


_READERS: Mapping[ir.AttributeType, Callable[[ir.Attr, ExternalFiles], AttributeValue]] = {
    ir.AttributeType.INT: lambda attribute, _: attribute.as_int(),
    ir.AttributeType.FLOAT: lambda attribute, _: attribute.as_float(),
    ir.AttributeType.STRING: lambda attribute, _: _text(attribute.value),
    ir.AttributeType.INTS: lambda attribute, _: tuple(attribute.as_ints()),
    ir.AttributeType.FLOATS: lambda attribute, _: tuple(attribute.as_floats()),
    ir.AttributeType.STRINGS: lambda attribute, _: tuple(str(_text(item)) for item in attribute.value),
    ir.AttributeType.TENSOR: _tensor,
    ir.AttributeType.TYPE_PROTO: lambda attribute, _: str(attribute.value),
}


def constant_source(node: ir.Node, files: ExternalFiles) -> WeightSource | None:
    """What a default-domain Constant holds, as a weight; None for other nodes."""
    if node.op_type != "Constant" or domain_of(node) or len(node.outputs) != 1:
        return None
    name = node.outputs[0].name or node.name or "constant"
    for key, attribute in node.attributes.items():
        if attribute.is_ref():
            continue
        if key == "value":
            return weight_source(name, attribute.as_tensor(), files)
        if key in _PLAIN:
            dtype = _PLAIN[key]
            array = np.asarray(attribute.value, dtype=np.int64 if dtype is ElementType.INT64 else np.float32)
            return inline_source(name, dtype, array.shape, array.tobytes(), array.nbytes)
        if key in ("value_string", "value_strings"):
            return weight_source(name, _strings(attribute, name), files)
    return None


_PLAIN: Mapping[str, ElementType] = {
    "value_int": ElementType.INT64,
    "value_ints": ElementType.INT64,
    "value_float": ElementType.FLOAT,
    "value_floats": ElementType.FLOAT,
}


def _strings(attribute: ir.Attr, name: str) -> ir.StringTensor:
    if attribute.name == "value_string":
        return ir.StringTensor([_bytes(attribute.value)], shape=ir.Shape([]), name=name)
    items = [_bytes(item) for item in attribute.value]
    return ir.StringTensor(items, shape=ir.Shape([len(items)]), name=name)


def _bytes(item: str | bytes) -> bytes:
    return item.encode() if isinstance(item, str) else item

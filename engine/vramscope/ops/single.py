"""Run one node by itself on host arrays: its kernel where there is one, else the reference evaluator."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

from vramscope.errors import UnsupportedOperatorError
from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import Node
from vramscope.ops.call import Call, compute
from vramscope.ops.reference import run_reference
from vramscope.ops.spec import TensorMeta, WorkspaceQuery, meta_of
from vramscope.ops.table import spec_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Array, AttributeValue
    from vramscope.ops.call import Tensor


def node_from_proto(proto: onnx.NodeProto, opset: int) -> Node:
    """An ONNX node without bodies as a :class:`Node` at ``opset`` of its domain.

    Raises:
        UnsupportedOperatorError: an attribute holds a graph: control flow does not run by itself.
    """
    attributes: dict[str, AttributeValue] = {}
    for attribute in proto.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            raise UnsupportedOperatorError(
                f"operator {proto.op_type}",
                f"its attribute {attribute.name} holds a graph, which a single node cannot run",
                "Run the whole model",
                proto.name,
            )
        if attribute.type not in (onnx.AttributeProto.TYPE_PROTO, onnx.AttributeProto.TYPE_PROTOS):
            attributes[attribute.name] = attribute_value(attribute)
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    return Node(proto.name, proto.op_type, domain, opset, MappingProxyType(attributes))


def attribute_value(attribute: onnx.AttributeProto) -> AttributeValue:
    """An ONNX attribute as plain data: text as ``str``, lists as tuples, tensors (also sparse) as arrays."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SparseTensorProto):
        return _dense(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return tuple(item.decode() for item in attribute.strings)
    if attribute.type == onnx.AttributeProto.STRING:
        return attribute.s.decode()
    return tuple(value) if isinstance(value, list) or hasattr(value, "append") else value


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    shape = tuple(sparse.dims)
    flat = np.zeros(prod(shape), values.dtype)
    flat[places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), shape)] = values
    return flat.reshape(shape)


def run_single(
    node: Node,
    inputs: Sequence[Tensor | None],
    output_types: Sequence[ElementType] = (ElementType.FLOAT,),
    *,
    placed: Sequence[Tensor | None] | None = None,
    wanted: Sequence[bool] | None = None,
) -> list[Tensor | None]:
    """Run ``node`` on ``inputs`` (None: left out) and return its outputs (None: not wanted).

    Args:
        node: the operator and its attributes.
        inputs: arrays, packed tensors or sequences, as many as the node lists.
        output_types: the element type of each output; their number is the number of outputs.
        placed: arrays to write into, one an output; one may be an input that the kernel overwrites.
        wanted: which outputs to compute; all by default.

    Raises:
        VramscopeError: the inputs break the operator's contract, or nothing runs the operator.
    """
    count = len(output_types)
    given = tuple(inputs)
    call = Call(
        node,
        given,
        list(placed) if placed is not None else [None] * count,
        tuple(wanted) if wanted is not None else (True,) * count,
        tuple(output_types),
        _scratch(node, given, count),
    )
    kernel = spec_for(node).kernel or run_reference
    with np.errstate(all="ignore"):
        compute(kernel, call)
    return [value if call.wants(index) else None for index, value in enumerate(call.placed)]


def _scratch(node: Node, inputs: Sequence[Tensor | None], outputs: int) -> Array:
    """The workspace that the operator's row asks for at these inputs."""
    spec = spec_for(node)
    if spec.workspace is None:
        return np.empty(0, np.uint8)
    query = WorkspaceQuery(node, tuple(_meta(value) for value in inputs), outputs)
    return np.empty(spec.workspace(query).bytes, np.uint8)


def _meta(value: Tensor | None) -> TensorMeta:
    meta = meta_of(value)
    return replace(meta, constant=value) if isinstance(value, np.ndarray) else meta

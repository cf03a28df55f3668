"""The fallback: one node through ``onnx.reference``, for operators without a kernel of their own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

from vramscope.errors import UnsupportedOperatorError, VramscopeError
from vramscope.graph.dtypes import ElementType, from_numpy, numpy_dtype
from vramscope.ops.call import Packed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import AttributeValue, Node
    from vramscope.ops.call import Call, Tensor

    Feed: TypeAlias = dict[str, object]

_CONTROL_FLOW = frozenset(("If", "Loop", "Scan", "SequenceMap"))
"""Never sent to the evaluator: it runs a Loop without a condition zero times and says nothing."""

_LOADERS = (
    ("", "onnx.reference.ops"),
    ("ai.onnx.ml", "onnx.reference.ops.aionnxml"),
    ("ai.onnx.preview", "onnx.reference.ops.aionnx_preview"),
    ("ai.onnx.preview.training", "onnx.reference.ops.aionnx_preview_training"),
)


def has_reference(domain: str, operator: str, opset: int) -> bool:
    """Whether ``onnx.reference`` runs the operator at this opset; nothing is run to find out.

    Operators that ONNX defines as a function of other operators count. Control flow never does.
    """
    module = dict(_LOADERS).get(domain)
    schema = _schema(domain, operator, opset)
    if module is None or schema is None or operator in _CONTROL_FLOW:
        return False
    if domain == "" and _is_function(schema):
        return True
    try:
        import_module(module).load_op(domain, operator, opset)
    except (NotImplementedError, RuntimeError, ValueError, AssertionError):
        return False
    return True


def _is_function(schema: onnx.defs.OpSchema) -> bool:
    """Whether ONNX defines the operator by other operators (onnx's stubs lack both properties)."""
    return bool(getattr(schema, "has_function", False)) or bool(
        getattr(schema, "has_context_dependent_function", False)
    )


def _schema(domain: str, operator: str, opset: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return None


def run_reference(call: Call) -> None:
    """Run the call's node through a one-node model and write its results.

    Raises:
        UnsupportedOperatorError: the evaluator has no implementation of the operator, or the node has
            bodies, which a model of this node alone would lack.
        VramscopeError: the evaluator failed on these inputs.
    """
    node = call.node
    if call.run_body is not None or not has_reference(node.domain, node.operator, node.opset):
        raise unsupported(node)
    evaluator_type = import_module("onnx.reference").ReferenceEvaluator
    model, feed = _model(call)
    try:
        with np.errstate(all="ignore"):
            results = evaluator_type(model).run(None, feed)
    except Exception as error:
        raise VramscopeError(
            f"operator {node.qualified}",
            f"the ONNX reference evaluator, which runs it for want of a kernel, failed: {error}",
            "Check the node's inputs against the operator's specification",
            node.name,
        ) from error
    for index, result in zip(_named_outputs(call), results, strict=True):
        if result is not None:
            call.put(index, _tensor(result, call, index))


def unsupported(node: Node) -> UnsupportedOperatorError:
    """The refusal of an operator that nothing here runs."""
    known = _schema(node.domain, node.operator, node.opset) is not None
    why = "no kernel and no reference implementation runs it" if known else "no such operator is known"
    return UnsupportedOperatorError(
        f"operator {node.qualified} of opset {node.opset}",
        why,
        "Give the model a local function of that name, or export it with standard ONNX operators",
        node.name,
    )


def _named_outputs(call: Call) -> list[int]:
    return [index for index in range(len(call.placed)) if call.wants(index)]


def _model(call: Call) -> tuple[onnx.ModelProto, Feed]:
    """A model of this node alone, its inputs typed by the values at hand, and the feed for it."""
    node = call.node
    given = [(f"i{index}", value) for index, value in enumerate(call.inputs) if value is not None]
    names = [f"i{index}" if value is not None else "" for index, value in enumerate(call.inputs)]
    outputs = [f"o{index}" if call.wants(index) else "" for index in range(len(call.placed))]
    proto = helper.make_node(node.operator, names, outputs, domain=node.domain)
    proto.attribute.extend(_attributes(node))
    graph = helper.make_graph(
        [proto],
        "single",
        [onnx.ValueInfoProto(name=name, type=_type(value)) for name, value in given],
        [onnx.ValueInfoProto(name=name) for name in outputs if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, node.opset)])
    return model, {name: _plain(value) for name, value in given}


def _attributes(node: Node) -> list[onnx.AttributeProto]:
    schema = _schema(node.domain, node.operator, node.opset)
    declared: Mapping[str, onnx.defs.OpSchema.Attribute] = schema.attributes if schema else {}
    return [_attribute(name, value, declared.get(name)) for name, value in node.attributes.items()]


def _attribute(
    name: str, value: AttributeValue, declared: onnx.defs.OpSchema.Attribute | None
) -> onnx.AttributeProto:
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, numpy_helper.from_array(value))
    kind = getattr(declared.type, "value", None) if declared is not None else None  # an enum without stubs
    return helper.make_attribute(name, list(value) if isinstance(value, tuple) else value, attr_type=kind)


def _type(value: Tensor) -> onnx.TypeProto:
    if isinstance(value, list):
        element = _type(value[0]) if value else helper.make_tensor_type_proto(1, None)
        return helper.make_sequence_type_proto(element)
    kind = value.dtype if isinstance(value, Packed) else from_numpy(value.dtype)
    return helper.make_tensor_type_proto(int(kind), value.shape)


def _plain(value: Tensor) -> object:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.unpack() if isinstance(value, Packed) else value


def _tensor(result: object, call: Call, index: int) -> Tensor:
    """A result as a fresh tensor of the output's declared type, sharing no memory with an input."""
    if isinstance(result, list):
        return [_tensor(item, call, index) for item in result]
    array = np.asarray(result)
    if from_numpy(array.dtype) is ElementType.STRING:
        return array.astype(np.object_)
    wanted = call.output_types[index]
    kind = array.dtype if wanted is ElementType.UNDEFINED else numpy_dtype(wanted)
    return np.array(array, dtype=kind, copy=True)

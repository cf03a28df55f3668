"""Attributes and their tensors before anything reads them: known kinds, bytes that fill the shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType, is_packed, tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sized

_REMEDY = "The file is not a valid ONNX model: export it again"
DEFAULT = ("", "ai.onnx")
"""The two spellings of the default domain."""
_KIND = onnx.AttributeProto
_CONSTANT: Mapping[str, int] = {
    "value": _KIND.TENSOR,
    "sparse_value": _KIND.SPARSE_TENSOR,
    "value_float": _KIND.FLOAT,
    "value_floats": _KIND.FLOATS,
    "value_int": _KIND.INT,
    "value_ints": _KIND.INTS,
    "value_string": _KIND.STRING,
    "value_strings": _KIND.STRINGS,
}
"""The attributes a Constant may have, of which it has exactly one (ONNX, operator Constant)."""
_HOLDERS: Mapping[int, str] = {_KIND.TENSOR: "t", _KIND.GRAPH: "g", _KIND.SPARSE_TENSOR: "sparse_tensor"}
"""The field that a kind of attribute must have; those of the others have a default."""


def check_attributes(node: onnx.NodeProto, title: str) -> None:
    """Check the attributes of one node; bodies are checked as graphs of their own.

    Raises:
        ModelGraphError: an unknown kind, missing content, a tensor whose bytes do not fill its shape, or a
            Constant without exactly one value.
    """
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            _check_attribute(attribute, title, node.name)
    if node.op_type == "Constant" and node.domain in DEFAULT:
        _check_constant(node, title)


def _check_attribute(attribute: onnx.AttributeProto, title: str, node: str) -> None:
    what = f"attribute {attribute.name!r} of {title}"
    if attribute.type == _KIND.UNDEFINED or attribute.type not in _KIND.AttributeType.values():
        raise ModelGraphError(what, f"its kind {attribute.type} is none that ONNX defines", _REMEDY, node)
    holder = _HOLDERS.get(attribute.type)
    if holder is not None and not attribute.HasField(holder):
        raise ModelGraphError(what, "it has no content", _REMEDY, node)
    if holder == "t":
        check_tensor(attribute.t, what, node)
    for tensor in attribute.tensors:
        check_tensor(tensor, what, node)


def _check_constant(node: onnx.NodeProto, title: str) -> None:
    if len(node.attribute) != 1:
        why = f"it has {len(node.attribute)} attributes, and a Constant has one value"
        raise ModelGraphError(title, why, _REMEDY, node.name)
    (attribute,) = node.attribute
    if _CONSTANT.get(attribute.name) != attribute.type:
        why = (
            f"{attribute.name!r} of kind {_KIND.AttributeType.Name(attribute.type)} is no value of a Constant"
        )
        raise ModelGraphError(title, why, _REMEDY, node.name)


def lift_external_constants(graph: onnx.GraphProto) -> None:
    """Makes initializers of Constants whose value lies in another file: it is then read as theirs are.

    Shape inference would open whatever path a Constant names.
    """
    lifted = [node for node in graph.node if _is_external_constant(node)]
    for node in lifted:
        tensor = graph.initializer.add()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
        graph.node.remove(node)


def _is_external_constant(node: onnx.NodeProto) -> bool:
    if node.op_type != "Constant" or node.domain not in DEFAULT or len(node.attribute) != 1:
        return False
    held = node.attribute[0].HasField("t") and len(node.output) == 1
    return held and node.attribute[0].t.data_location == onnx.TensorProto.EXTERNAL


def check_tensor(tensor: onnx.TensorProto, what: str, node: str) -> None:
    """Check a tensor that lies in the model file; of one in another file only type and shape.

    Raises:
        ModelGraphError: a type that nobody knows, a negative extent, more or fewer values than the shape has.
    """
    try:
        dtype = ElementType(tensor.data_type)
    except ValueError as error:
        why = f"element type {tensor.data_type} is not supported"
        raise ModelGraphError(what, why, "Export it as another type", node) from error
    shape = tuple(tensor.dims)
    if dtype is ElementType.UNDEFINED or any(extent < 0 for extent in shape):
        why = f"{dtype.name} {list(shape)} is no type and shape of a tensor"
        raise ModelGraphError(what, why, _REMEDY, node)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    have, need = _counts(tensor, dtype, shape)
    if have != need:
        why = f"it holds {have:,} {_unit(tensor)}, {dtype.name} {list(shape)} needs {need:,}"
        raise ModelGraphError(what, why, _REMEDY, node)


def _unit(tensor: onnx.TensorProto) -> str:
    return "bytes" if tensor.HasField("raw_data") else "values"


def _counts(tensor: onnx.TensorProto, dtype: ElementType, shape: tuple[int, ...]) -> tuple[int, int]:
    """What is there and what should be: bytes of raw data, else entries of the field that the type has."""
    size = tensor_bytes(dtype, shape)
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data), size
    elements = 1
    for extent in shape:
        elements *= extent
    entries = sum(len(values) for values in _typed_fields(tensor))
    if dtype in (ElementType.COMPLEX64, ElementType.COMPLEX128):
        return entries, 2 * elements
    return entries, size if is_packed(dtype) else elements


def _typed_fields(tensor: onnx.TensorProto) -> tuple[Sized, ...]:
    return (
        tensor.float_data,
        tensor.int32_data,
        tensor.string_data,
        tensor.int64_data,
        tensor.double_data,
        tensor.uint64_data,
    )

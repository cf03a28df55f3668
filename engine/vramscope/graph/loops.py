"""What bodies of Loop, Scan and SequenceMap know about their inputs, and what a loop may change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from vramscope.graph.walk import domain_of, input_of, integer_attribute

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext


def bind_body(node: ir.Node, body: ir.Graph, version: int) -> None:
    """Give a body's inputs the shapes and types of what the node passes in; the rest stays as it is.

    Args:
        node: the control-flow node.
        body: one of its bodies.
        version: the default domain's operator set: Scan was another operator before 9.
    """
    if domain_of(node) or not body.inputs:
        return
    if node.op_type == "Loop":
        _bind_loop(node, body)
    elif node.op_type == "Scan":
        _bind_scan(node, body, batched=version < 9)


def _bind_loop(node: ir.Node, body: ir.Graph) -> None:
    for value, dtype in zip(body.inputs[:2], (ir.DataType.INT64, ir.DataType.BOOL), strict=False):
        value.shape = ir.Shape([])
        value.dtype = value.dtype or dtype
    for index, value in enumerate(body.inputs[2:], start=2):
        _copy(input_of(node, index), value, None)


def _bind_scan(node: ir.Node, body: ir.Graph, *, batched: bool) -> None:
    """States come whole, scanned inputs without that axis; before version 9 none has its batch axis."""
    scanned = integer_attribute(node, "num_scan_inputs", 0)
    if batched:
        states = len(node.inputs) - scanned - 1
        for index, value in enumerate(body.inputs):
            _copy(input_of(node, index + 1), value, 0)
            if index >= states and value.shape is not None and len(value.shape):
                value.shape = ir.Shape(list(value.shape)[1:])
        return
    states = len(node.inputs) - scanned
    attribute = node.attributes.get("scan_input_axes")
    axes = list(attribute.as_ints()) if isinstance(attribute, ir.Attr) else []
    for index, value in enumerate(body.inputs):
        axis = None if index < states else (axes + [0] * scanned)[index - states]
        _copy(input_of(node, index), value, axis)


def _copy(given: ir.Value | None, value: ir.Value, dropped: int | None) -> None:
    """Type and shape of ``given`` onto ``value``, without the scanned axis ``dropped``."""
    if given is None:
        return
    if value.type is None or isinstance(given.type, ir.TensorType):
        value.type = given.type if given.type is not None else value.type
    if given.shape is None:
        return
    dims = list(given.shape)
    if dropped is not None and dims:
        del dims[dropped % len(dims)]
    value.shape = ir.Shape(dims)


def carried(node: ir.Node, body: ir.Graph) -> list[tuple[ir.Value, ir.Value, ir.Value | None]]:
    """Loop-carried values: the body's input, the body's output that replaces it, the node's output."""
    if domain_of(node) or node.op_type != "Loop":
        return []
    outputs = list(node.outputs)
    return [
        (value, body.outputs[index + 1], outputs[index] if index < len(outputs) else None)
        for index, value in enumerate(body.inputs[2:])
        if index + 1 < len(body.outputs)
    ]


def generalise(
    node: ir.Node, body: ir.Graph, context: ShapeInferenceContext, own: set[str]
) -> list[tuple[ir.Value, int]]:
    """Replace each extent that a trip of the loop changes by a symbol of its own.

    Args:
        node: the Loop.
        body: its body, inferred once.
        context: makes symbols.
        own: the symbols made so for this body; extended.

    Returns:
        The body inputs and axes that were replaced; empty when every carried shape is an invariant.
    """
    changed: list[tuple[ir.Value, int]] = []
    for before, after, _ in carried(node, body):
        if before.shape is None or after.shape is None or before.shape == after.shape:
            continue
        if len(before.shape) != len(after.shape):
            before.shape = None
            continue
        dims = list(before.shape)
        for axis, (old, new) in enumerate(zip(dims, after.shape, strict=True)):
            if old != new and not (isinstance(old, ir.SymbolicDim) and old.value in own):
                fresh = context.new_symbolic_dim()
                own.add(str(fresh.value))
                dims[axis] = fresh
                changed.append((before, axis))
        before.shape = ir.Shape(dims)
    return changed


def settle_carried(node: ir.Node) -> None:
    """A loop ends with the shape that holds before every trip, for it may end after any of them."""
    attribute = node.attributes.get("body")
    if not isinstance(attribute, ir.Attr):
        return
    for before, after, output in carried(node, attribute.as_graph()):
        if output is not None and after.shape is not None:
            output.shape = before.shape


def forget(body: ir.Graph) -> None:
    """Drop values that an earlier round computed in the body: they held for its first trip only."""
    for node in body:
        if node.op_type != "Constant":
            for value in node.outputs:
                value.const_value = None
                value.shape = None

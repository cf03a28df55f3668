"""Shapes that no run can have: operands that do not broadcast, a Reshape whose target does not fit.

The inference library tells of other contradictions itself; of these it makes an unknown extent, or believes
the target.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from vramscope.graph.walk import domain_of, input_of

if TYPE_CHECKING:
    import onnx_ir as ir

BROADCASTING = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "Sum", "Mean", "Where", "And", "Or", "Xor"}
    | {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
)
"""Operators of the default domain whose operands broadcast as NumPy's do."""

BROADCAST_SINCE = 8
"""Before this operator set an attribute aligned the axes of some of them."""


def contradiction(node: ir.Node, opset: int) -> str:
    """Why no run of ``node`` can succeed on inputs of these shapes; empty where none is known to fail."""
    if domain_of(node) != "":
        return ""
    if node.op_type in BROADCASTING and opset >= BROADCAST_SINCE:
        return _unequal(node)
    return _misfit(node) if node.op_type == "Reshape" else ""


def _unequal(node: ir.Node) -> str:
    shapes = [value.shape for value in node.inputs if value is not None and value.shape is not None]
    for axis in range(1, max((len(shape) for shape in shapes), default=0) + 1):
        dims = [shape[-axis] for shape in shapes if len(shape) >= axis]
        known = {dim for dim in dims if isinstance(dim, int) and dim != 1}
        if len(known) > 1:
            said = ", ".join(str(list(shape)) for shape in shapes)
            return f"Operands of shapes {said} do not broadcast on axis {-axis}"
    return ""


def _misfit(node: ir.Node) -> str:
    given = _elements(input_of(node, 0))
    asked = _elements(node.outputs[0])
    if given is None or asked is None or given == asked:
        return ""
    return f"The target shape {list(node.outputs[0].shape or ())} does not hold the {given:,} elements given"


def _elements(value: ir.Value | None) -> int | None:
    if value is None or value.shape is None:
        return None
    dims = [dim for dim in value.shape if isinstance(dim, int)]
    return prod(dims) if len(dims) == len(value.shape) else None

"""Values of small integer tensors that shape arithmetic needs and the inference library does not follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from vramscope.graph.walk import domain_of, input_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx_shape_inference import ShapeInferenceContext

Elements: TypeAlias = "list[int | ir.SymbolicDim]"
_LENGTH_LIMIT = 64
"""Shape arithmetic works on ranks: anything longer is data."""


def follow_values(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Record the elements of ``node``'s first output where they follow from its inputs' elements."""
    rule = _RULES.get(node.op_type) if domain_of(node) == "" else None
    if rule is None or not node.outputs:
        return
    elements = rule(context, node)
    if elements is not None and len(elements) <= _LENGTH_LIMIT:
        context.set_symbolic_value(node.outputs[0], elements)


def _elements(context: ShapeInferenceContext, node: ir.Node, index: int) -> Elements | None:
    value = input_of(node, index)
    return None if value is None else context.get_symbolic_value(value)


def _length(node: ir.Node) -> int | None:
    """Elements of the first output when it is a scalar or a short vector of known length."""
    shape = node.outputs[0].shape
    if shape is None or len(shape) > 1:
        return None
    dims = [dim for dim in shape if isinstance(dim, int)]
    return (dims[0] if dims else 1) if len(dims) == len(shape) else None


def _constant_of_shape(_: ShapeInferenceContext, node: ir.Node) -> Elements | None:
    length = _length(node)
    attribute = node.attributes.get("value")
    if length is None or length > _LENGTH_LIMIT or not isinstance(attribute, ir.Attr):
        return None
    filling = attribute.as_tensor().numpy().reshape(-1)
    return [int(filling[0])] * length if filling.size == 1 and filling.dtype.kind in "iub" else None


def _pairs(
    context: ShapeInferenceContext, node: ir.Node, first: int, second: int
) -> list[tuple[int | ir.SymbolicDim, int | ir.SymbolicDim]] | None:
    left, right = _elements(context, node, first), _elements(context, node, second)
    if left is None or right is None or not left or not right:
        return None
    length = max(len(left), len(right))
    if len(left) not in (1, length) or len(right) not in (1, length):
        return None
    return list(zip(left * (length // len(left)), right * (length // len(right)), strict=True))


def _equal(context: ShapeInferenceContext, node: ir.Node) -> Elements | None:
    pairs = _pairs(context, node, 0, 1)
    answers = [_same(left, right) for left, right in pairs or ()]
    known: Elements = [int(answer) for answer in answers if answer is not None]
    return known if pairs is not None and len(known) == len(pairs) else None


def _same(left: int | ir.SymbolicDim, right: int | ir.SymbolicDim) -> bool | None:
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if isinstance(left, ir.SymbolicDim) and isinstance(right, ir.SymbolicDim):
        return True if left.value is not None and left.value == right.value else None
    number = left if isinstance(left, int) else right
    # An extent is never negative, so a placeholder such as -1 differs from every symbol.
    return False if isinstance(number, int) and number < 0 else None


def _where(context: ShapeInferenceContext, node: ir.Node) -> Elements | None:
    condition = _elements(context, node, 0)
    pairs = _pairs(context, node, 1, 2)
    if condition is None or pairs is None or len(condition) not in (1, len(pairs)):
        return None
    choices = condition * (len(pairs) // len(condition))
    if not all(isinstance(choice, int) for choice in choices):
        return None
    return [left if choice else right for choice, (left, right) in zip(choices, pairs, strict=True)]


def _not(context: ShapeInferenceContext, node: ir.Node) -> Elements | None:
    elements = _elements(context, node, 0)
    if elements is None or not all(isinstance(item, int) for item in elements):
        return None
    return [int(not item) for item in elements]


def _expand(context: ShapeInferenceContext, node: ir.Node) -> Elements | None:
    elements, length = _elements(context, node, 0), _length(node)
    if elements is None or length is None or len(elements) not in (1, length):
        return None
    return elements * (length // len(elements)) if length else []


def _range(context: ShapeInferenceContext, node: ir.Node) -> Elements | None:
    bounds = [_elements(context, node, index) for index in range(3)]
    numbers = [item[0] for item in bounds if item is not None and len(item) == 1]
    start, limit, step = ([item for item in numbers if isinstance(item, int)] + [0, 0, 0])[:3]
    if len([item for item in numbers if isinstance(item, int)]) != 3 or step == 0:
        return None
    found = range(start, limit, step)
    return list(found) if len(found) <= _LENGTH_LIMIT else None


def _product(context: ShapeInferenceContext, node: ir.Node) -> Elements | None:
    elements = _elements(context, node, 0)
    if elements is None or _length(node) != 1 or not elements:
        return None
    result = elements[0]
    for item in elements[1:]:
        result = result * item
    return [result]


_RULES: Mapping[str, Callable[[ShapeInferenceContext, ir.Node], Elements | None]] = {
    "ConstantOfShape": _constant_of_shape,
    "Equal": _equal,
    "Where": _where,
    "Not": _not,
    "Expand": _expand,
    "Range": _range,
    "ReduceProd": _product,
}

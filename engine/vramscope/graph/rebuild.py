"""A frozen Program as an onnx_ir graph again, so that its shapes can be inferred at known extents.

Branches that are decided stand in the place of their If: their nodes join the graph that holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from vramscope.graph.dtypes import ElementType, is_packed
from vramscope.graph.expr import evaluate
from vramscope.graph.model import ABSENT, ValueKind
from vramscope.graph.sources import visible_bytes
from vramscope.graph.weights import read_weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.expr import Dim
    from vramscope.graph.model import AttributeValue, Program, Step, Value, WeightSource


@dataclass(frozen=True, slots=True)
class Choices:
    """What is known of the branches of Ifs, by node name.

    Attributes:
        taken: the branch that runs.
        left_out: branches that cannot run, of an If whose condition is data.
    """

    taken: Mapping[str, str]
    left_out: Mapping[str, str]


@dataclass(slots=True)
class Rebuilt:
    """The new graph and the source of each initializer in it, by the identity of its value."""

    graph: ir.Graph
    sources: dict[int, WeightSource]


@dataclass(slots=True)
class _Work:
    """What all graphs of one rebuilding share."""

    extents: Mapping[str, int]
    choices: Choices
    sources: dict[int, WeightSource] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Scope:
    """One graph while it grows: the values of a program by id, new nodes and initializers."""

    values: dict[int, ir.Value] = field(default_factory=dict)
    nodes: list[ir.Node] = field(default_factory=list)
    weights: list[ir.Value] = field(default_factory=list)


def rebuild(program: Program, extents: Mapping[str, int], choices: Choices) -> Rebuilt:
    """``program`` with symbols replaced by extents and decided branches in the place of their If.

    Args:
        program: a main program.
        extents: of symbols, by name; an extent they do not settle is left unknown.
        choices: branches that are taken or left out.
    """
    work = _Work(extents, choices, names={program.values[item].name for item in program.outputs})
    return Rebuilt(_graph(program, {}, work), work.sources)


def _graph(program: Program, outer: Mapping[int, ir.Value], work: _Work) -> ir.Graph:
    scope = _Scope()
    inputs = [_value(program.values[item], work) for item in program.inputs]
    scope.values.update(zip(program.inputs, inputs, strict=True))
    for value, name in zip(inputs, program.inputs, strict=True):
        value.name = program.values[name].name
    _emit(program, outer, scope, work)
    outputs = _outputs(program, scope)
    return ir.Graph(inputs, outputs, nodes=scope.nodes, initializers=scope.weights, name=program.name)


def _emit(program: Program, outer: Mapping[int, ir.Value], scope: _Scope, work: _Work) -> None:
    """Weights and steps of ``program`` into ``scope``; captures are values of ``outer``."""
    scope.values.update({inner: outer[value] for inner, value in program.captures.items()})
    for item, source in program.weights.items():
        scope.values[item] = _weight(program.values[item], source, scope, work)
    for step in program.steps:
        branch = work.choices.taken.get(step.node.name)
        if branch is None:
            scope.nodes.append(_node(program, step, scope, work))
        else:
            _inline(step, step.bodies[branch], scope, work)


def _inline(step: Step, body: Program, scope: _Scope, work: _Work) -> None:
    inner = _Scope({}, scope.nodes, scope.weights)
    _emit(body, scope.values, inner, work)
    for output, result in zip(step.outputs, body.outputs, strict=True):
        if output != ABSENT:
            scope.values[output] = inner.values[result]


def _node(program: Program, step: Step, scope: _Scope, work: _Work) -> ir.Node:
    node = step.node
    outputs = [
        ir.Value(name="") if item == ABSENT else _value(program.values[item], work) for item in step.outputs
    ]
    scope.values.update(
        {item: value for item, value in zip(step.outputs, outputs, strict=True) if item != ABSENT}
    )
    attributes = [_attribute(name, value) for name, value in node.attributes.items()]
    attributes += [
        ir.AttrGraph(name, _graph(body, scope.values, work))
        for name, body in step.bodies.items()
        if work.choices.left_out.get(node.name) != name
    ]
    inputs = [None if item == ABSENT else scope.values[item] for item in step.inputs]
    return ir.Node(
        node.domain,
        node.operator,
        inputs,
        attributes,
        outputs=outputs,
        version=node.opset,
        name=node.name,
    )


def _outputs(program: Program, scope: _Scope) -> list[ir.Value]:
    """The graph's results under their own names; what is no result of a node of its own is copied."""
    own = {id(output) for node in scope.nodes for output in node.outputs}
    found: list[ir.Value] = []
    for item in program.outputs:
        name, value = program.values[item].name, scope.values[item]
        if id(value) not in own or any(value is other for other in found):
            copy = ir.Value(name=name, type=value.type, shape=value.shape)
            scope.nodes.append(ir.Node("", "Identity", [value], outputs=[copy], name=f"{name} (copy)"))
            value = copy
        value.name = name
        found.append(value)
    return found


def _value(value: Value, work: _Work) -> ir.Value:
    kind = ir.TensorType(ir.DataType(int(value.dtype))) if value.dtype is not ElementType.UNDEFINED else None
    known = ir.SequenceType(kind) if value.is_sequence and kind is not None else kind
    shape = None if value.shape is None else ir.Shape([_extent(dim, work.extents) for dim in value.shape])
    return ir.Value(name=_fresh(value, work), type=known, shape=shape)


def _extent(dim: Dim, extents: Mapping[str, int]) -> int | ir.SymbolicDim:
    known = evaluate(dim, extents)
    return ir.SymbolicDim(None) if known is None or known < 0 else known


def _fresh(value: Value, work: _Work) -> str:
    """The value's name, with a number where a value of another branch has it already."""
    name, number = value.name, 2
    while name in work.names:
        name, number = f"{value.name}#{number}", number + 1
    if value.kind is not ValueKind.INPUT:
        work.names.add(name)
    return name


def _weight(value: Value, source: WeightSource, scope: _Scope, work: _Work) -> ir.Value:
    made = ir.Value(
        name=_fresh(value, work),
        type=ir.TensorType(ir.DataType(int(source.dtype))),
        shape=ir.Shape(source.shape),
    )
    if source.present and source.size <= visible_bytes(source.dtype) and not is_packed(source.dtype):
        made.const_value = ir.Tensor(read_weight(source), name=made.name)
    work.sources[id(made)] = source
    scope.weights.append(made)
    return made


def _attribute(name: str, value: AttributeValue) -> ir.Attr:
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, _tensor(value))
    if isinstance(value, tuple):
        return _list_attribute(name, value)
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, int):
        return ir.AttrInt64(name, value)
    return ir.Attr(name, ir.AttributeType.STRING, value)


def _list_attribute(name: str, value: tuple[int, ...] | tuple[float, ...] | tuple[str, ...]) -> ir.Attr:
    if all(isinstance(item, int) for item in value):
        return ir.AttrInt64s(name, [int(item) for item in value])
    if all(isinstance(item, str) for item in value):
        return ir.AttrStrings(name, [str(item) for item in value])
    return ir.AttrFloat32s(name, [float(item) for item in value])


def _tensor(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> ir.TensorProtocol:
    if array.dtype.hasobject:
        items = [str(item).encode("utf-8", "surrogateescape") for item in array.reshape(-1)]
        return ir.StringTensor(items, shape=ir.Shape(array.shape))
    return ir.Tensor(array)

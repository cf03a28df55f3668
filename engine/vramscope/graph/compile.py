"""Turning an inferred onnx_ir graph into a frozen Program of values and steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeGuard

import onnx_ir as ir

from vramscope.graph.attributes import attribute_values, constant_source
from vramscope.graph.dtypes import bit_width
from vramscope.graph.expr import free_symbols
from vramscope.graph.model import ABSENT, Minted, Node, Program, Step, Value, ValueKind
from vramscope.graph.scopes import NodeNames, scope_of
from vramscope.graph.sources import element_type
from vramscope.graph.walk import bodies_of, domain_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vramscope.graph.expr import Shape
    from vramscope.graph.external import ExternalFiles
    from vramscope.graph.model import WeightSource
    from vramscope.graph.symbols import SymbolTable

RANDOM_OPERATORS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
"""Operators whose result is not decided by their inputs: never computed ahead."""


@dataclass(slots=True)
class Compilation:
    """What all graphs of one model share while they are compiled."""

    sources: Mapping[int, WeightSource]
    opsets: Mapping[str, int]
    table: SymbolTable
    files: ExternalFiles
    minted: Mapping[str, Minted]
    live_in: Callable[[ir.Graph], list[ir.Node]]
    tick: Callable[[int], None]
    names: NodeNames = field(default_factory=NodeNames)
    nodes: int = 0
    removed: int = 0
    used: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Builder:
    """One graph under compilation."""

    shared: Compilation
    outer: _Builder | None = None
    values: list[Value] = field(default_factory=list)
    ids: dict[int, int] = field(default_factory=dict)
    own: set[int] = field(default_factory=set)
    weights: dict[int, WeightSource] = field(default_factory=dict)
    captures: dict[int, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


def compile_graph(graph: ir.Graph, shared: Compilation) -> Program:
    """The main graph as a program: constant steps first, every other step in the file's order."""
    builder = _Builder(shared)
    return _compile(graph, builder, ahead=True)


def _compile(graph: ir.Graph, builder: _Builder, *, ahead: bool) -> Program:
    inputs = [
        _add(value, ValueKind.INPUT, builder)
        for value in graph.inputs
        if id(value) not in builder.shared.sources
    ]
    live = builder.shared.live_in(graph)
    builder.shared.removed += len(graph) - len(live)
    builder.own = {id(value) for node in live for value in node.outputs}
    builder.own.update(id(value) for value in graph.initializers.values())
    for node in live:
        _add_node(node, builder)
    outputs = tuple(_use(value, builder) for value in graph.outputs)
    steps, constant = _constants_first(builder) if ahead else (builder.steps, 0)
    minted = _minted_in(builder) if not ahead else builder.shared.minted
    return Program(
        graph.name or "",
        tuple(builder.values),
        tuple(steps),
        tuple(inputs),
        outputs,
        MappingProxyType(builder.weights),
        constant,
        MappingProxyType(builder.captures),
        MappingProxyType(dict(minted)),
    )


def _minted_in(builder: _Builder) -> dict[str, Minted]:
    symbols = {
        symbol for value in builder.values for dim in value.shape or () for symbol in free_symbols(dim)
    }
    return {
        symbol: builder.shared.minted[symbol] for symbol in sorted(symbols & builder.shared.minted.keys())
    }


def _add(value: ir.Value, kind: ValueKind, builder: _Builder) -> int:
    identity = len(builder.values)
    shape = _shape(value, builder.shared.table)
    what = f"value {value.name!r}"
    dtype = element_type(value.dtype, what)
    sequence = isinstance(value.type, ir.SequenceType)
    builder.values.append(Value(identity, value.name or "", dtype, shape, kind, sequence))
    builder.ids[id(value)] = identity
    return identity


def _shape(value: ir.Value, table: SymbolTable) -> Shape | None:
    if value.shape is None:
        return None
    dims = [table.read(dim) for dim in value.shape]
    known = tuple(dim for dim in dims if dim is not None)
    return known if len(known) == len(dims) else None


def _add_weight(value: ir.Value, source: WeightSource, builder: _Builder) -> int:
    identity = len(builder.values)
    name = value.name or ""
    builder.values.append(Value(identity, name, source.dtype, source.shape, ValueKind.WEIGHT))
    builder.ids[id(value)] = identity
    builder.weights[identity] = source
    builder.shared.used.add(id(value))
    return identity


def _use(value: ir.Value | None, builder: _Builder) -> int:
    """The id of a value that is read here; a weight is added at its first use, an outer value captured."""
    if value is None or not value.name:
        return ABSENT
    known = builder.ids.get(id(value))
    if known is not None:
        return known
    source = builder.shared.sources.get(id(value))
    if source is not None and (builder.outer is None or id(value) in builder.own):
        return _add_weight(value, source, builder)
    if builder.outer is None:
        return _add(value, ValueKind.INPUT, builder)
    outside = _use(value, builder.outer)
    identity = _add(value, ValueKind.CAPTURE, builder)
    builder.captures[identity] = outside
    return identity


def _add_node(node: ir.Node, builder: _Builder) -> None:
    shared = builder.shared
    shared.nodes += 1
    if shared.nodes % 256 == 0:
        shared.tick(shared.nodes)
    source = constant_source(node, shared.files)
    if source is not None:
        _add_weight(node.outputs[0], source, builder)
        return
    description = _describe(node, shared)
    inputs = tuple(_use(value, builder) for value in node.inputs)
    bodies = {name: _compile(body, _Builder(shared, builder), ahead=False) for name, body in bodies_of(node)}
    outputs = tuple(
        _add(value, ValueKind.ACTIVATION, builder) if value.name else ABSENT for value in node.outputs
    )
    step = Step(len(builder.steps), description, inputs, outputs, MappingProxyType(bodies))
    builder.steps.append(step)


def _describe(node: ir.Node, shared: Compilation) -> Node:
    domain = domain_of(node)
    opset = node.version if node.version is not None else shared.opsets.get(domain, 1)
    name = shared.names.unique(node.name or "", node.op_type)
    attributes = attribute_values(node, shared.files)
    return Node(name, node.op_type, domain, opset, attributes, scope_of(node.name or ""))


def _constants_first(builder: _Builder) -> tuple[list[Step], int]:
    """Steps that depend on weights alone, moved to the front; their number.

    One whose results are larger than what it reads (a 4-bit weight made float) is not computed ahead: it runs
    every time, right before it is needed, so that the small form is what stays in memory.
    """
    constant = set(builder.weights)
    ahead: list[Step] = []
    later: list[Step] = []
    expanding: dict[int, Step] = {}
    weight_only = set(constant)
    for step in builder.steps:
        ready = is_constant(step, constant) and has_size(step, builder.values)
        if ready and not expands(step, builder.values):
            constant.update(step.outputs)
            ahead.append(step)
        elif is_constant(step, weight_only | constant):
            expanding.update(dict.fromkeys(step.outputs, step))
        else:
            later.append(step)
            continue
        weight_only.update(step.outputs)
    ordered = [*ahead, *_before_use(later, expanding)]
    return [
        Step(index, step.node, step.inputs, step.outputs, step.bodies) for index, step in enumerate(ordered)
    ], len(ahead)


def _before_use(steps: list[Step], expanding: Mapping[int, Step]) -> list[Step]:
    """``steps`` with each expanding one in front of its first reader."""
    ordered: list[Step] = []
    emitted: set[int] = set()

    def emit(values: Iterable[int]) -> None:
        for value in values:
            step = expanding.get(value)
            if step is not None and step.index not in emitted:
                emitted.add(step.index)
                emit(_reads(step))
                ordered.append(step)

    for step in steps:
        emit(sorted(_reads(step)))
        ordered.append(step)
    emit(sorted(expanding))
    return ordered


def expands(step: Step, values: Sequence[Value]) -> bool:
    """Whether the results take more bytes than all that the step reads, and more than a trifle.

    A dequantised weight is no trifle at any size: there is one for each product of the model.
    """
    made = sum(static_bytes(values[value]) for value in step.outputs if value != ABSENT)
    read = sum(static_bytes(values[value]) for value in _reads(step))
    trifle = 0 if step.node.operator == "DequantizeLinear" else FOLDED_LIMIT
    return made > max(read, trifle)


FOLDED_LIMIT = 64 * 1024
"""Results of at most this many bytes are always computed ahead: shape arithmetic and small tables."""


def static_bytes(value: Value) -> int:
    """Bytes of a value with a known shape; 0 of any other."""
    return (prod(value.shape) * bit_width(value.dtype) + 7) // 8 if is_static(value.shape) else 0


def is_static(shape: Shape | None) -> TypeGuard[tuple[int, ...]]:
    """Whether every extent is a number, and none below 0."""
    return shape is not None and all(isinstance(dim, int) and dim >= 0 for dim in shape)


def _reads(step: Step) -> set[int]:
    captured = {outside for body in step.bodies.values() for outside in body.captures.values()}
    return ({*step.inputs} | captured) - {ABSENT}


def is_constant(step: Step, constant: set[int]) -> bool:
    """Whether ``step`` can be computed ahead: it gives the same result in every run.

    A step with bodies never is: their memory is planned for the steps that run every time.
    """
    return not step.bodies and _reads(step) <= constant and not _draws(step)


def has_size(step: Step, values: Sequence[Value]) -> bool:
    """Whether every result's shape is known: what stays in memory is counted, and no ceiling is exact.

    A sequence is no device memory.
    """
    results = (values[value] for value in step.outputs if value != ABSENT)
    return all(item.is_sequence or is_static(item.shape) for item in results)


def _draws(step: Step) -> bool:
    if step.node.domain == "" and step.node.operator in RANDOM_OPERATORS:
        return True
    return any(_draws(inner) for body in step.bodies.values() for inner in body.steps)

"""Structural checks on the file's graph: every name has exactly one producer and no value needs itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import ModelGraphError
from vramscope.graph.tensorcheck import check_attributes, lift_external_constants
from vramscope.graph.textcheck import check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import onnx

_REMEDY = "The file is not a valid ONNX model: export it again"


@dataclass(frozen=True, slots=True)
class _Scope:
    """Names visible in a graph: its own and, through ``outer``, those of the enclosing graphs."""

    names: frozenset[str]
    outer: _Scope | None = None

    def sees(self, name: str) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return True
            scope = scope.outer
        return False


def check_graph(proto: onnx.ModelProto) -> tuple[str, ...]:
    """Check the main graph, its bodies and the model's functions; nodes are put into execution order.

    Returns:
        What is odd but legal, in words (nodes out of order).

    Raises:
        ModelGraphError: a duplicate producer, a dangling name, an output without producer, a cycle, an
            input without a type, a damaged attribute.
    """
    notes: list[str] = []
    _check(proto.graph, None, "the graph", notes)
    _check_types(proto.graph)
    _share_types(proto.graph)
    for function in proto.functions:
        _check_function(function, notes)
    return tuple(notes)


def _check(graph: onnx.GraphProto, outer: _Scope | None, where: str, notes: list[str]) -> None:
    lift_external_constants(graph)
    check_text(graph, where)
    initializers = [tensor.name for tensor in graph.initializer]
    sparse = [tensor.values.name for tensor in graph.sparse_initializer]
    if sparse:
        raise ModelGraphError(
            f"sparse initializer {sparse[0]!r}",
            "sparse weights are not supported",
            "Export the model with dense weights",
        )
    given = [*(info.name for info in graph.input), *initializers]
    _check_repeats(given, initializers, where)
    scope = _Scope(frozenset(given) | _produced(graph.node, set(given), where), outer)
    _check_nodes(graph.node, scope, where, notes)
    for info in graph.output:
        if not scope.sees(info.name):
            raise ModelGraphError(f"output {info.name!r} of {where}", "no node produces it", _REMEDY)
    _order(graph, frozenset(given), where, notes)


def _check_types(graph: onnx.GraphProto) -> None:
    """Whoever runs the model must know what to give."""
    for info in graph.input:
        if info.type.HasField("tensor_type") and not info.type.tensor_type.elem_type:
            raise ModelGraphError(f"input {info.name!r}", "it has no element type", _REMEDY)
        if info.type.WhichOneof("value") is None:
            raise ModelGraphError(f"input {info.name!r}", "it has no type", _REMEDY)


def _share_types(graph: onnx.GraphProto) -> None:
    """An output that is an input has that one's type and shape, whether or not the file repeats them."""
    inputs = {info.name: info.type for info in graph.input}
    for info in graph.output:
        if info.name in inputs:
            info.type.CopyFrom(inputs[info.name])


def _check_repeats(given: list[str], initializers: list[str], where: str) -> None:
    repeated = _first_repeat(initializers) or _first_repeat(given[: len(given) - len(initializers)])
    if repeated is not None:
        raise ModelGraphError(f"{repeated!r} in {where}", "an input or initializer is given twice", _REMEDY)


def _first_repeat(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _produced(nodes: Sequence[onnx.NodeProto], given: set[str], where: str) -> frozenset[str]:
    producers: dict[str, str] = dict.fromkeys(given, "an input or initializer")
    for node in nodes:
        for name in node.output:
            if name and name in producers:
                why = f"{producers[name]} and {_title(node)} both produce it"
                raise ModelGraphError(f"value {name!r} in {where}", why, _REMEDY, node.name)
            if name:
                producers[name] = _title(node)
    return frozenset(producers)


def _check_nodes(nodes: Sequence[onnx.NodeProto], scope: _Scope, where: str, notes: list[str]) -> None:
    dangling: list[tuple[str, int, onnx.NodeProto]] = []
    for node in nodes:
        dangling.extend(
            (name, index, node) for index, name in enumerate(node.input) if name and not scope.sees(name)
        )
        check_attributes(node, _title(node))
        for attribute, body in bodies(node):
            _check_results(node, attribute, body)
            _check(body, scope, f"{attribute} of {_title(node)}", notes)
    if dangling:
        name, index, node = dangling[0]
        more = f" ({len(dangling) - 1} more inputs dangle)" if len(dangling) > 1 else ""
        why = (
            f"{_title(node)} needs it as input {index}, and no input, initializer or node of {where} gives it"
        )
        raise ModelGraphError(f"value {name!r}", why + more, _REMEDY, node.name)


def _check_results(node: onnx.NodeProto, attribute: str, body: onnx.GraphProto) -> None:
    """A branch of an If gives exactly what the If gives."""
    if node.op_type == "If" and len(body.output) != len(node.output):
        why = f"it gives {len(body.output)} values and the node {len(node.output)}"
        raise ModelGraphError(f"{attribute} of {_title(node)}", why, _REMEDY, node.name)


def bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """The control-flow bodies of a node: attribute name and graph."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{index}]", graph


def _title(node: onnx.NodeProto) -> str:
    return f"node {node.name!r} ({node.op_type})" if node.name else f"an unnamed {node.op_type} node"


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names a node reads: its inputs and what its bodies take from outside."""
    yield from (name for name in node.input if name)
    for _, body in bodies(node):
        local = {info.name for info in body.input} | {tensor.name for tensor in body.initializer}
        local.update(name for inner in body.node for name in inner.output)
        for inner in body.node:
            yield from (name for name in _reads(inner) if name not in local)
        yield from (info.name for info in body.output if info.name not in local)


def _order(graph: onnx.GraphProto, given: frozenset[str], where: str, notes: list[str]) -> None:
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = [
        sorted({makers[name] for name in _reads(node) if name in makers and name not in given})
        for node in graph.node
    ]
    if all(not wanted or wanted[-1] < index for index, wanted in enumerate(needs)):
        return
    order = _sorted(needs)
    if len(order) < len(needs):
        raise _cycle(graph, needs, set(order), where)
    nodes = [graph.node[index] for index in order]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    notes.append(f"The nodes of {where} are not in execution order in the file; they were sorted")


def _sorted(needs: list[list[int]]) -> list[int]:
    """Kahn's algorithm, earliest node first; shorter than ``needs`` when there is a cycle."""
    from heapq import heapify, heappop, heappush

    readers: list[list[int]] = [[] for _ in needs]
    missing = [len(wanted) for wanted in needs]
    for index, wanted in enumerate(needs):
        for maker in wanted:
            readers[maker].append(index)
    ready = [index for index, count in enumerate(missing) if count == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for reader in readers[index]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heappush(ready, reader)
    return order


def _cycle(graph: onnx.GraphProto, needs: list[list[int]], done: set[int], where: str) -> ModelGraphError:
    index = next(index for index in range(len(needs)) if index not in done)
    path: list[int] = []
    while index not in path:
        path.append(index)
        index = next(maker for maker in needs[index] if maker not in done)
    loop = path[path.index(index) :]
    names = " <- ".join(_title(graph.node[step]) for step in [*loop[:6], loop[0]])
    return ModelGraphError(f"a cycle in {where}", names, _REMEDY, graph.node[loop[0]].name)


def _check_function(function: onnx.FunctionProto, notes: list[str]) -> None:
    where = f"function {function.domain}::{function.name}"
    scope = _Scope(frozenset(function.input) | _produced(function.node, set(function.input), where))
    _check_nodes(function.node, scope, where, notes)
    for name in function.output:
        if not scope.sees(name):
            raise ModelGraphError(f"output {name!r} of {where}", "no node produces it", _REMEDY)

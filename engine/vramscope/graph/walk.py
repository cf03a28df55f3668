"""Small readings of an onnx_ir graph that several stages share: domains, bodies, captures, live nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def domain_of(node: ir.Node) -> str:
    """The node's domain, with the default domain spelled ""."""
    return "" if node.domain == "ai.onnx" else node.domain


def bodies_of(node: ir.Node) -> Sequence[tuple[str, ir.Graph]]:
    """Control-flow bodies of ``node`` in attribute order."""
    if not node.attributes:
        return ()
    graphs = [item for item in node.attributes.values() if item.type == ir.AttributeType.GRAPH]
    return [(item.name, item.as_graph()) for item in graphs]


def graphs_of(graph: ir.Graph) -> Iterator[ir.Graph]:
    """``graph`` and every body in it, outermost first."""
    yield graph
    for node in graph:
        for _, body in bodies_of(node):
            yield from graphs_of(body)


def reads_of(node: ir.Node) -> Iterator[ir.Value]:
    """Every value that running ``node`` may read: its inputs and whatever its bodies read."""
    yield from (value for value in node.inputs if value is not None)
    for _, body in bodies_of(node):
        yield from (value for value in body.outputs)
        for inner in body:
            yield from reads_of(inner)


def live_nodes(graph: ir.Graph) -> list[ir.Node]:
    """Nodes that some graph output depends on, in execution order."""
    needed = {id(value) for value in graph.outputs}
    live: list[ir.Node] = []
    for node in reversed(graph):
        if any(id(output) in needed for output in node.outputs):
            reads = reads_of(node) if bodies_of(node) else node.inputs
            needed.update(id(value) for value in reads)
            live.append(node)
    live.reverse()
    return live


def node_title(node: ir.Node) -> str:
    """How messages call a node."""
    return f"{node.name!r} ({domain_of(node) or 'ai.onnx'}::{node.op_type})"


def integer_attribute(node: ir.Node, name: str, default: int) -> int:
    """An INT attribute of a node, or its default."""
    attribute = node.attributes.get(name)
    if attribute is None or attribute.is_ref() or attribute.type != ir.AttributeType.INT:
        return default
    return attribute.as_int()


def input_of(node: ir.Node, index: int) -> ir.Value | None:
    """Input ``index``, None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None

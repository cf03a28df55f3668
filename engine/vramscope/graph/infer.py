"""Symbolic shape inference over a graph and its bodies, one node at a time, with the reason for each unknown.

The driver is ours so that a rule that fails costs one node and not the model, so that every invented extent
is tied to the node that invented it, and so that bodies see the types of what is passed to them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, ShapeInferenceError, registry

from vramscope.errors import ModelGraphError
from vramscope.graph.ceilings import ceiling, data_dependent, shape_of
from vramscope.graph.contradictions import contradiction
from vramscope.graph.expr import Symbol, free_symbols
from vramscope.graph.folding import fold_small
from vramscope.graph.handlers import head_size, rule_for
from vramscope.graph.loops import bind_body, forget, generalise, settle_carried
from vramscope.graph.model import Minted
from vramscope.graph.symbols import SymbolTable, declared_shape
from vramscope.graph.values import follow_values
from vramscope.graph.walk import bodies_of, domain_of, graphs_of, live_nodes, node_title

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope.graph.expr import Dim

_MINTED = re.compile(r"\b_d\d+\b")
_ROUNDS = 3
"""Loop-carried extents settle in two rounds: the first finds what changes, the second checks it."""
_CACHED = ("GroupQueryAttention", "PagedAttention")
"""Operators whose node says the head size of the caches at their inputs 3 and 4."""


@dataclass(slots=True)
class Inference:
    """The state of one run: what was declared, what was invented, what went wrong."""

    context: ShapeInferenceContext
    table: SymbolTable
    tick: Callable[[int], None]
    declared: dict[int, tuple[Dim | None, ...] | None] = field(default_factory=dict)
    outputs: frozenset[int] = frozenset()
    minted: dict[str, Minted] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    ranks: list[str] = field(default_factory=list)
    broken: dict[int, str] = field(default_factory=dict)
    """Why a node inside a body cannot run on the shapes it is given, by the node's identity."""
    places: dict[tuple[int, int], str] = field(default_factory=dict)
    done: int = 0
    seen: set[str] = field(default_factory=set)
    live: dict[int, list[ir.Node]] = field(default_factory=dict)

    def live_in(self, graph: ir.Graph) -> list[ir.Node]:
        """The live nodes of a graph, found once."""
        if id(graph) not in self.live:
            self.live[id(graph)] = live_nodes(graph)
        return self.live[id(graph)]


def infer_shapes(
    graph: ir.Graph, opsets: Mapping[str, int], table: SymbolTable, tick: Callable[[int], None]
) -> Inference:
    """Infer the shape and type of every live value; shapes end in the onnx_ir values, in safe names.

    Args:
        graph: the main graph; its inputs already carry safe names.
        opsets: version of each domain.
        table: the symbols of this opening.
        tick: called with the number of nodes done; may raise to cancel.

    Raises:
        ModelGraphError: what the file declares contradicts what its operators give.
    """
    registry.collect()
    context = ShapeInferenceContext(dict(opsets), policy="override")
    state = Inference(context, table, tick, outputs=frozenset(id(value) for value in graph.outputs))
    for part in graphs_of(graph):
        _put_aside(part, graph, state)
    _process(graph, state, inner=False)
    _fix_head_sizes(graph, state)
    return state


def _put_aside(part: ir.Graph, main: ir.Graph, state: Inference) -> None:
    """Take the declared shapes away: inference answers first, what the file says is compared after."""
    given = list(part.inputs) if part is not main else []
    for value in [*given, *(output for node in part for output in node.outputs)]:
        state.declared[id(value)] = declared_shape(state.table, value.shape)
        value.shape = None


def _process(graph: ir.Graph, state: Inference, *, inner: bool) -> None:
    for node in state.live_in(graph):
        _infer_bodies(node, state)
        _infer_node(node, state, inner=inner)
        state.done += 1
        if state.done % 256 == 0:
            state.tick(state.done)


def _infer_bodies(node: ir.Node, state: Inference) -> None:
    for _, body in bodies_of(node):
        bind_body(node, body, state.context.get_opset_version(""))
        for value in body.inputs:
            _name_unknown(value, node, state)
        own: set[str] = set()
        for _ in range(_ROUNDS):
            _process(body, state, inner=True)
            changed = generalise(node, body, state.context, own)
            if not changed:
                break
            for value, axis in changed:
                _mint(value, axis, node, "it changes from one trip of the loop to the next", state)
            forget(body)


def _infer_node(node: ir.Node, state: Inference, *, inner: bool) -> None:
    domain = domain_of(node)
    rule = rule_for(node, state.context.get_opset_version(domain))
    if rule is None:
        state.unknown.setdefault(f"{domain or 'ai.onnx'}::{node.op_type}", node.name or "")
    else:
        _apply(rule, node, state, inner=inner)
    for index, value in enumerate(node.outputs):
        if value.name:
            _settle(node, index, value, state)


def _apply(
    rule: Callable[[ShapeInferenceContext, ir.Node], None], node: ir.Node, state: Inference, *, inner: bool
) -> None:
    try:
        rule(state.context, node)
        follow_values(state.context, node)
        fold_small(node)
        settle_carried(node)
    except ShapeInferenceError as error:
        _contradicted(node, error.message, state, inner=inner)
    except Exception as error:  # a third-party rule may fail in any way; the price is this one node
        state.problems.append(f"{node_title(node)}: shape inference failed: {error}")
    else:
        why = contradiction(node, state.context.get_opset_version(""))
        if why:
            _contradicted(node, why, state, inner=inner)


def _contradicted(node: ir.Node, why: str, state: Inference, *, inner: bool) -> None:
    """Refuses a node that always runs and never can; one in a body may never be reached."""
    if domain_of(node) == "" and not inner:
        remedy = "A declared shape or a weight of the file is wrong: export it again"
        raise ModelGraphError(f"node {node_title(node)}", why, remedy, node.name or "")
    if domain_of(node) == "":
        state.broken[id(node)] = f"{node_title(node)}: {why}"
    state.problems.append(f"{node_title(node)}: shapes contradict each other: {why}")


def _settle(node: ir.Node, index: int, value: ir.Value, state: Inference) -> None:
    """Compare with the declaration, adopt it where inference knows nothing, and name what was invented."""
    declared = state.declared.get(id(value))
    if value.shape is None:
        if declared is None:
            _note_unknown_rank(node, value, state)
            return
        value.shape = ir.Shape([_adopted(dim, state) for dim in declared])
    elif declared is not None:
        _reconcile(node, value, declared, state)
    for axis, dim in enumerate(value.shape):
        if isinstance(dim, ir.SymbolicDim) and (dim.value is None or dim.value not in state.seen):
            _register(node, index, value, axis, state)
    _spell(value, state)


def _spell(value: ir.Value, state: Inference) -> None:
    """Keeps powers out of what later rules read (:class:`~vramscope.graph.symbols.SymbolTable` says why)."""
    if value.shape is not None:
        dims = [state.table.spell(dim) for dim in value.shape]
        if dims != list(value.shape):
            value.shape = ir.Shape(dims)
            state.seen.update(dim.value for dim in dims if isinstance(dim, ir.SymbolicDim) and dim.value)
    elements = state.context.get_symbolic_value(value)
    if elements:
        spelled = [state.table.spell(item) for item in elements]
        if spelled != elements:
            state.context.set_symbolic_value(value, spelled)


def _note_unknown_rank(node: ir.Node, value: ir.Value, state: Inference) -> None:
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        return
    reason = data_dependent(node)
    if node.op_type == "If":
        reason = "the branches of the If give different ranks"
    state.ranks.append(f"{value.name!r} of node {node_title(node)}: {reason}")


def _adopted(dim: Dim | None, state: Inference) -> int | ir.SymbolicDim:
    known = dim is not None and free_symbols(dim) <= state.table.declared
    return state.table.write(dim) if known and dim is not None else state.context.new_symbolic_dim()


def _reconcile(node: ir.Node, value: ir.Value, declared: tuple[Dim | None, ...], state: Inference) -> None:
    shape = value.shape
    if shape is None:
        return
    if len(shape) != len(declared):
        _wrong_rank(node, value, len(declared), len(shape), state)
        return
    dims: list[int | ir.SymbolicDim] = []
    for axis, (inferred, said) in enumerate(zip(shape, declared, strict=True)):
        if isinstance(inferred, int) and isinstance(said, int) and inferred != said:
            state.problems.append(
                f"{value.name!r} declares {said} on axis {axis}; {node_title(node)} gives {inferred}"
            )
        dims.append(_better(inferred, said, state))
    if dims != list(shape):
        value.shape = ir.Shape(dims)


def _better(inferred: int | ir.SymbolicDim, said: Dim | None, state: Inference) -> int | ir.SymbolicDim:
    """The declaration where inference invented a symbol and the file names a known extent."""
    invented = isinstance(inferred, ir.SymbolicDim) and _MINTED.search(inferred.value or "_d0") is not None
    if said is None or not invented or not free_symbols(said) <= state.table.declared:
        return inferred
    return state.table.write(said)


def _wrong_rank(node: ir.Node, value: ir.Value, said: int, inferred: int, state: Inference) -> None:
    why = f"the file declares rank {said}, {node_title(node)} gives rank {inferred}"
    if id(value) in state.outputs:
        remedy = "Correct the declared shape, or export the model again"
        raise ModelGraphError(f"output {value.name!r}", why, remedy, node.name or "")
    if node.op_type != "Constant":
        state.problems.append(f"{value.name!r}: {why}; the latter is used")


def _name_unknown(value: ir.Value, node: ir.Node, state: Inference) -> None:
    """A body input whose shape its node does not give: take the declaration, invent the rest."""
    if value.shape is None:
        declared = state.declared.get(id(value))
        if declared is None:
            return
        value.shape = ir.Shape([_adopted(dim, state) for dim in declared])
    for axis, dim in enumerate(value.shape):
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None and dim.value not in state.seen:
            _mint(value, axis, node, "the enclosing node does not say it", state)


def _register(node: ir.Node, index: int, value: ir.Value, axis: int, state: Inference) -> None:
    text = _text_of(value, axis, state)
    fresh = [name for name in _MINTED.findall(text) if name not in state.table.meaning]
    if fresh == [text]:
        bound = ceiling(node, index, axis, state.table, state.context.get_symbolic_value)
        _record(text, value, axis, node, bound.dim, bound.reason, state)
    for name in fresh:
        if name not in state.table.meaning:
            _record(name, value, axis, node, None, data_dependent(node), state)
    state.seen.add(text)
    if state.table.read(ir.SymbolicDim(text)) is None:
        _opaque(node, value, axis, text, state)


def _text_of(value: ir.Value, axis: int, state: Inference) -> str:
    """The text of one extent; an anonymous one is named first."""
    dims = list(value.shape or ())
    dim = dims[axis]
    if isinstance(dim, ir.SymbolicDim) and dim.value is None:
        dims[axis] = dim = state.context.new_symbolic_dim()
        value.shape = ir.Shape(dims)
    return str(dim.value) if isinstance(dim, ir.SymbolicDim) else str(dim)


def _opaque(node: ir.Node, value: ir.Value, axis: int, text: str, state: Inference) -> None:
    """An extent that our expressions cannot say becomes a symbol that names what it stands for."""
    dims = list(value.shape or ())
    dims[axis] = state.context.new_symbolic_dim()
    value.shape = ir.Shape(dims)
    readable = text
    for safe, meaning in state.table.meaning.items():
        readable = re.sub(rf"\b{safe}\b", str(meaning), readable)
    _mint(value, axis, node, f"its extent is {readable}, which has no integer form", state)


def _mint(value: ir.Value, axis: int, node: ir.Node, reason: str, state: Inference) -> None:
    text = _text_of(value, axis, state)
    for name in _MINTED.findall(text):
        if name not in state.table.meaning:
            _record(name, value, axis, node, None, reason, state)
    state.seen.add(text)


def _record(
    name: str, value: ir.Value, axis: int, node: ir.Node, bound: Dim | None, reason: str, state: Inference
) -> None:
    wanted = f"{value.name}.axis{axis}"
    taken = wanted in state.table.safe
    symbol = state.places.get((id(value), axis)) or (f"{wanted}#{name[2:]}" if taken else wanted)
    state.places[(id(value), axis)] = symbol
    state.table.mean(name, symbol)
    state.minted[symbol] = Minted(symbol, node.name or "", node.op_type, bound, reason)


def _fix_head_sizes(graph: ir.Graph, state: Inference) -> None:
    """A past whose head size is a symbol (``kv_cache_dim``) gets the number that its node computes with."""
    sizes: dict[str, set[int]] = {}
    for part in graphs_of(graph):
        for node in part:
            if node.op_type in _CACHED and (size := head_size(node)) is not None:
                for index in (3, 4):
                    past = shape_of(node.inputs[index] if index < len(node.inputs) else None, state.table)
                    if past is not None and len(past) == 4 and isinstance(past[3], Symbol):
                        sizes.setdefault(past[3].name, set()).add(size)
    for symbol, found in sizes.items():
        if len(found) == 1:
            state.table.fix(symbol, found.pop())
        else:
            state.problems.append(f"{symbol!r} stands for different head sizes: {sorted(found)}")

"""A model at known input extents: branches that shapes alone decide are taken, and shapes inferred again.

Exporters write an If wherever a squeeze depends on an extent. Its branches differ in rank, so nothing after
it has a known shape until the extent is known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vramscope.graph.compile import Compilation, compile_graph
from vramscope.graph.expr import free_symbols
from vramscope.graph.external import ExternalFiles
from vramscope.graph.handlers import known_branch
from vramscope.graph.infer import infer_shapes
from vramscope.graph.rebuild import Choices, rebuild
from vramscope.graph.symbols import SymbolTable, name_inputs
from vramscope.graph.walk import bodies_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import onnx_ir as ir

    from vramscope.graph.infer import Inference
    from vramscope.graph.model import Model, Program
    from vramscope.graph.rebuild import Rebuilt

ROUNDS = 64
"""Each round takes at least one branch; no file nests deeper than this."""


def input_symbols(program: Program) -> frozenset[str]:
    """Every symbol in the shapes of a program's inputs."""
    dims = (dim for item in program.inputs for dim in program.values[item].shape or ())
    return frozenset(symbol for dim in dims for symbol in free_symbols(dim))


def depends_on_shapes(program: Program) -> bool:
    """Whether known input extents may settle more than the values of symbols do.

    That is: a branch is chosen somewhere, a rank is not known, or an extent was invented.
    """
    values = (value for part in parts_of(program) for value in part.values)
    return (
        bool(program.minted)
        or any(step.node.operator == "If" and step.bodies for step in program.steps)
        or any(value.shape is None and not value.is_sequence for value in values)
    )


def parts_of(program: Program) -> Iterator[Program]:
    """A program and every control-flow body in it, outermost first."""
    yield program
    for step in program.steps:
        for body in step.bodies.values():
            yield from parts_of(body)


def specialise(model: Model, extents: Mapping[str, int]) -> Model:
    """``model`` for exactly these extents of its input symbols; the file is not opened again.

    Every If whose condition follows from shapes and constants is replaced by the branch that runs. Where it
    is data the If stays; a branch that these extents contradict is left out, and ``problems`` says so.

    Args:
        model: an opened model that is no decoder.
        extents: of every symbol of its inputs, by name.

    Returns:
        A model whose inputs have fixed shapes.

    Raises:
        ModelGraphError: the graph cannot compute inputs of these extents.
    """
    taken: dict[str, str] = {}
    left_out: dict[str, str] = {}
    reasons: list[str] = []
    for _ in range(ROUNDS):
        rebuilt = rebuild(model.program, extents, Choices(taken, left_out))
        state = _inferred(rebuilt, model)
        found = dict(_decided(rebuilt.graph, state))
        broken = {} if found else dict(_impossible(rebuilt.graph, state))
        if not found and not broken:
            break
        taken.update(found)
        left_out.update({name: branch for name, (branch, _) in broken.items()})
        reasons += [
            f"{branch} of {name} cannot run on these extents: {why}" for name, (branch, why) in broken.items()
        ]
    shared = Compilation(
        rebuilt.sources,
        model.opsets,
        state.table,
        ExternalFiles(model.folder),
        state.minted,
        state.live_in,
        lambda _: None,
    )
    return replace(model, program=compile_graph(rebuilt.graph, shared), problems=(*reasons, *state.problems))


def _inferred(rebuilt: Rebuilt, model: Model) -> Inference:
    table = SymbolTable()
    name_inputs(table, rebuilt.graph.inputs)
    return infer_shapes(rebuilt.graph, model.opsets, table, lambda _: None)


def _decided(graph: ir.Graph, state: Inference) -> Iterator[tuple[str, str]]:
    """The Ifs whose branch is known, by node name; those that a taken branch holds come in a later round.

    Bodies of loops are left alone: what they know may hold for one trip only.
    """
    for node in state.live_in(graph):
        if node.op_type != "If" or node.domain:
            continue
        branch = known_branch(state.context, node)
        if branch:
            yield node.name or "", branch
            continue
        for _, body in bodies_of(node):
            yield from _decided(body, state)


def _impossible(graph: ir.Graph, state: Inference) -> Iterator[tuple[str, tuple[str, str]]]:
    """Ifs on data of which one branch cannot run on what it is given: that branch, and why."""
    for node in state.live_in(graph):
        bodies = bodies_of(node) if node.op_type == "If" and not node.domain else ()
        reasons = {name: reason for name, body in bodies if (reason := _fault(body, state))}
        if len(bodies) > len(reasons) == 1:
            yield node.name or "", next(iter(reasons.items()))
        else:
            for _, body in bodies:
                yield from _impossible(body, state)


def _fault(body: ir.Graph, state: Inference) -> str:
    """Why a branch cannot run: a node of it contradicts itself, or an If in it has no branch that can."""
    for node in state.live_in(body):
        if id(node) in state.broken:
            return state.broken[id(node)]
        bodies = bodies_of(node) if node.op_type == "If" and not node.domain else ()
        faults = [_fault(inner, state) for _, inner in bodies]
        if faults and all(faults):
            return faults[0]
    return ""


def settled_extents(program: Program, known: Mapping[str, int]) -> Mapping[str, int] | None:
    """The extents of all input symbols, or None where ``known`` leaves one open."""
    symbols = input_symbols(program)
    return {name: known[name] for name in symbols} if symbols <= known.keys() else None

"""Opening a model: from a path to a frozen Model, without reading a weight."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import onnx_ir as ir

from vramscope.errors import ModelFileError, ModelGraphError
from vramscope.graph.attributes import bring_in
from vramscope.graph.compile import Compilation, compile_graph
from vramscope.graph.contract import Origin, decoder_contract
from vramscope.graph.external import ExternalFiles
from vramscope.graph.infer import infer_shapes
from vramscope.graph.locate import locate
from vramscope.graph.model import NO_WEIGHTS, WEIGHTS_KEY, Model, Weights
from vramscope.graph.normalise import normalise, opsets_of
from vramscope.graph.protofile import read_proto
from vramscope.graph.sources import visible_bytes, weight_source
from vramscope.graph.symbols import SymbolTable, name_inputs
from vramscope.graph.validate import check_graph
from vramscope.graph.walk import graphs_of
from vramscope.graph.weights import read_weight
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import onnx

    from vramscope.graph.infer import Inference
    from vramscope.graph.locate import Located
    from vramscope.graph.model import WeightSource


def no_progress(stage: str, done: int, total: int) -> None:
    """Report to nobody."""


def never_cancel() -> None:
    """Let every opening run to its end."""


@dataclass(slots=True)
class _Opening:
    """What the stages of one opening hand on."""

    located: Located
    progress: Callable[[str, int, int], None]
    cancel: Callable[[], None]
    without_weights: bool
    problems: list[str] = field(default_factory=list)
    nodes: int = 0

    def report(self, stage: str, done: int, total: int) -> None:
        self.cancel()
        self.progress(stage, done, total)


def open_model(
    path: Path,
    *,
    native: Collection[tuple[str, str]] = (),
    progress: Callable[[str, int, int], None] = no_progress,
    cancel: Callable[[], None] = never_cancel,
    without_weights: bool = False,
) -> Model:
    """Open a ``.onnx`` file or a model folder.

    Args:
        path: the file, the folder, or a ``genai_config.json``.
        native: (domain, operator) pairs that are kept although the file has a function body for them.
        progress: called with a stage's name, how much is done and out of how much.
        cancel: called often; raises to stop.
        without_weights: external files of weights may be missing or incomplete; such a model can be planned,
            because types and shapes are in the model file, but not run.

    Raises:
        MissingWeightsError: an external file is missing or too short, and ``without_weights`` is not given.
        ModelFileError: the file or its data is missing, damaged or outside its folder.
        ModelGraphError: the graph is not valid.
    """
    opening = _Opening(locate(Path(path)), progress, cancel, without_weights)
    opening.problems.extend(opening.located.notes)
    opening.report("read", 0, 1)
    proto = read_proto(opening.located.file)
    opening.report("check", 0, 1)
    opening.problems.extend(check_graph(proto))
    model = _deserialise(proto, opening)
    del proto
    return _finish(model, frozenset(native), opening)


def _deserialise(proto: onnx.ModelProto, opening: _Opening) -> ir.Model:
    try:
        return ir.from_proto(proto)
    except (RuntimeError, ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise ModelGraphError(
            str(opening.located.file), f"its graph cannot be read: {error}", "Export the model again"
        ) from error


def _finish(model: ir.Model, native: frozenset[tuple[str, str]], opening: _Opening) -> Model:
    opening.report("normalise", 0, 1)
    opening.problems.extend(normalise(model, native))
    files = ExternalFiles(opening.located.folder, may_lack=opening.without_weights)
    for graph in graphs_of(model.graph):
        bring_in(graph, files)
    sources = _sources(model, files, opening)
    opening.nodes = sum(len(graph) for graph in graphs_of(model.graph))
    defaults = [value.name for value in model.graph.inputs if id(value) in sources]
    if defaults:
        opening.problems.append(f"{len(defaults)} inputs have a value in the file and are taken as weights")
    table = SymbolTable()
    name_inputs(table, [value for value in model.graph.inputs if id(value) not in sources])
    state = infer_shapes(
        model.graph, opsets_of(model), table, lambda done: opening.report("infer", done, opening.nodes)
    )
    return _compiled(model, sources, files, state, opening)


def _sources(model: ir.Model, files: ExternalFiles, opening: _Opening) -> dict[int, WeightSource]:
    """Every initializer's source by the identity of its value; large ones are hidden from inference."""
    sources: dict[int, WeightSource] = {}
    for graph in graphs_of(model.graph):
        for index, value in enumerate(list(graph.initializers.values())):
            if index % 256 == 0:
                opening.report("weights", index, len(graph.initializers))
            tensor = value.const_value
            if tensor is None:
                raise ModelFileError(f"weight {value.name!r}", "it has no data", "Export the model again")
            source = weight_source(value.name or "", tensor, files)
            sources[id(value)] = source
            value.shape = ir.Shape(source.shape)
            value.dtype = ir.DataType(int(source.dtype))
            value.const_value = _visible(value.name or "", tensor, source)
    return sources


def _visible(name: str, tensor: ir.TensorProtocol, source: WeightSource) -> ir.TensorProtocol | None:
    """What inference may look at: shape arithmetic, which is small and integer, and nothing else."""
    if source.size > visible_bytes(source.dtype) or not source.present:
        return None
    return tensor if source.file is None else ir.Tensor(read_weight(source), name=name)


def _compiled(
    model: ir.Model,
    sources: dict[int, WeightSource],
    files: ExternalFiles,
    state: Inference,
    opening: _Opening,
) -> Model:
    opsets = opsets_of(model)
    shared = Compilation(
        sources,
        opsets,
        state.table,
        files,
        state.minted,
        state.live_in,
        lambda done: opening.report("compile", done, opening.nodes),
    )
    program = compile_graph(model.graph, shared)
    located = opening.located
    producer = " ".join(part for part in (model.producer_name, model.producer_version) if part)
    contract, notes = decoder_contract(program, Origin(producer, located.settings, located.generation))
    opening.problems.extend([*state.problems, *_remarks(shared, state), *notes])
    weights = _weights(model, files)
    if weights is not Weights.STORED:
        why = weights.value[0]
        opening.problems.append(f"{why[0].upper()}{why[1:]}: it can be planned, not run")
    opening.problems.extend(_lacking(files))
    return Model(
        located.file,
        located.folder,
        producer,
        MappingProxyType(dict(opsets)),
        program,
        contract,
        tuple(dict.fromkeys(opening.problems)),
        MappingProxyType(dict(located.settings)),
        weights,
        bool(state.broken),
    )


def _weights(model: ir.Model, files: ExternalFiles) -> Weights:
    if model.metadata_props.get(WEIGHTS_KEY) == NO_WEIGHTS:
        return Weights.LEFT_OUT
    return Weights.NOT_HERE if files.lacking else Weights.STORED


def _lacking(files: ExternalFiles) -> list[str]:
    missing: Counter[str] = Counter()
    for (location, _), size in files.lacking.items():
        missing[location] += size
    return [
        f"{location} is missing or incomplete: {format_bytes(size)} of weights are known by type and shape"
        for location, size in missing.items()
    ]


def _remarks(shared: Compilation, state: Inference) -> list[str]:
    remarks = [
        f"{operator} (first at node {node!r}) is unknown here: its outputs have the shapes that the file "
        "declares, and running needs a kernel or a function for it"
        for operator, node in state.unknown.items()
    ]
    if state.ranks:
        remarks.append(f"{len(state.ranks)} values have no known rank; the first is {state.ranks[0]}")
    if shared.names.problem():
        remarks.append(shared.names.problem())
    if shared.removed:
        remarks.append(f"{shared.removed} nodes that no output depends on were left out")
    unused = len(shared.sources.keys() - shared.used)
    if unused:
        remarks.append(f"{unused} weights that nothing reads were left out")
    return remarks

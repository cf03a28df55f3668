"""One spelling for everything: the default domain is "", functions are inlined unless they have a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_ir.passes.common import InlinePass

from vramscope.errors import ModelGraphError
from vramscope.graph.walk import graphs_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx_ir as ir


def opsets_of(model: ir.Model) -> Mapping[str, int]:
    """Version of each imported domain, the default one as ""."""
    return {
        ("" if domain == "ai.onnx" else domain): version for domain, version in model.opset_imports.items()
    }


def normalise(model: ir.Model, native: frozenset[tuple[str, str]]) -> list[str]:
    """Fold ``ai.onnx`` into the default domain and inline the model's functions, in place.

    Args:
        model: the deserialised model.
        native: (domain, operator) pairs whose calls stay, because a kernel runs them.

    Returns:
        What the user should know.

    Raises:
        ModelGraphError: functions that call themselves.
    """
    for graph in graphs_of(model.graph):
        _fold_domain(graph)
    if not model.functions:
        return []
    kept = {name for domain, name, _ in model.functions if (domain, name) in native}
    try:
        InlinePass(lambda function: (function.domain, function.name) not in native)(model)
    except Exception as error:  # the pass wraps its causes in errors of several kinds
        raise ModelGraphError(
            "the model's functions", f"they cannot be inlined: {error}", "Export the model without functions"
        ) from error
    return [f"The file's function {name} is run by the kernel of that name" for name in sorted(kept)]


def _fold_domain(graph: ir.Graph) -> None:
    for node in graph:
        if node.domain == "ai.onnx":
            node.domain = ""

"""Strings of the file: protobuf hands over broken UTF-8 as bytes, which nothing downstream expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import ModelGraphError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

_LOCATION_KEYS = frozenset({"location", "offset", "length", "checksum", "basepath"})


def check_text(graph: onnx.GraphProto, where: str) -> None:
    """Check every name of one graph level, and drop external-data entries of unknown kinds.

    Raises:
        ModelGraphError: a name that is no text.
    """
    for text in _texts(graph):
        if not isinstance(text, str):
            why = f"{text!r} is not valid UTF-8: the file is damaged"
            raise ModelGraphError(f"a name in {where}", why, "Copy or export the model again")
    for tensor in graph.initializer:
        known = [entry for entry in tensor.external_data if entry.key in _LOCATION_KEYS]
        if len(known) != len(tensor.external_data):
            kept = [(entry.key, entry.value) for entry in known]
            del tensor.external_data[:]
            for key, value in kept:
                tensor.external_data.add(key=key, value=value)


def _texts(graph: onnx.GraphProto) -> Iterator[object]:
    yield graph.name
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield info.name
        for dim in info.type.tensor_type.shape.dim:
            yield dim.dim_param
    for tensor in graph.initializer:
        yield tensor.name
        for entry in tensor.external_data:
            yield entry.key
            yield entry.value
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, node.overload)
        yield from node.input
        yield from node.output
        for attribute in node.attribute:
            yield attribute.name
            yield attribute.ref_attr_name

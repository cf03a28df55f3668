"""The paged export of a decoder that has GroupQueryAttention: the same weights, other caches."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTS, PAST, TABLE, BOUNDS = (
    "cumulative_sequence_lengths",
    "past_sequence_lengths",
    "block_table",
    "attention_metadata",
)
KEPT = (
    "num_heads",
    "kv_num_heads",
    "scale",
    "softcap",
    "do_rotary",
    "rotary_interleaved",
    "local_window_size",
)
"""Attributes that both operators have."""


def paged_twin(folder: Path, target: Path, scale: float = 0.0) -> Path:
    """Writes the twin of onnxruntime-genai's export in ``folder``; its weights are the same.

    With a ``scale`` its caches are int8 codes of that scale.
    """
    target.mkdir()
    for item in folder.iterdir():
        if item.name != "model.onnx":
            shutil.copy(item, target / item.name)
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    _convert(model.graph)
    if scale:
        _quantise(model.graph, scale)
    onnx.save(model, target / "model.onnx")
    return target


def _convert(graph: onnx.GraphProto) -> None:
    hidden = _masked(graph)
    nodes = [
        _paged(node) if node.op_type == "GroupQueryAttention" else node
        for node in graph.node
        if not hidden.intersection(node.output)
    ]
    inputs, outputs = list(_inputs(graph)), list(_outputs(graph))
    for field, items in ((graph.node, nodes), (graph.input, inputs), (graph.output, outputs)):
        del field[:]
        field.extend(items)
    del graph.value_info[:]


def _masked(graph: onnx.GraphProto) -> set[str]:
    """What derives from the attention mask, up to the attention."""
    found = {"attention_mask"}
    for node in graph.node:
        if node.op_type != "GroupQueryAttention" and found.intersection(node.input):
            found.update(node.output)
    return found


def _paged(node: onnx.NodeProto) -> onnx.NodeProto:
    given = [*node.input, *[""] * 17][:17]
    caches, tables = given[3:5], given[7:9]
    inputs = [
        *given[:3],
        *caches,
        STARTS,
        PAST,
        TABLE,
        *tables,
        "",
        given[11],
        given[14],
        given[15],
        "",
        "",
        BOUNDS,
    ]
    made = helper.make_node("PagedAttention", inputs, list(node.output), node.name, domain="com.microsoft")
    made.attribute.extend(item for item in node.attribute if item.name in KEPT)
    return made


def _inputs(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    for item in graph.input:
        if item.name == "input_ids":
            yield helper.make_tensor_value_info(item.name, TensorProto.INT64, ["num_tokens"])
        elif item.name != "attention_mask":
            yield _pool(item)
    yield helper.make_tensor_value_info(TABLE, TensorProto.INT32, ["batch_size", "max_num_blocks"])
    yield helper.make_tensor_value_info(STARTS, TensorProto.INT32, ["batch_size + 1"])
    yield helper.make_tensor_value_info(PAST, TensorProto.INT32, ["batch_size"])
    yield helper.make_tensor_value_info(BOUNDS, TensorProto.INT32, [3])


def _outputs(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    for item in graph.output:
        kind = item.type.tensor_type
        if item.name == "logits":
            width = kind.shape.dim[-1].dim_value
            yield helper.make_tensor_value_info("logits", kind.elem_type, ["num_tokens", width])
        else:
            yield _pool(item)


def _pool(item: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """A cache [batch, heads, positions, size] as [blocks, block size, heads, size]."""
    kind = item.type.tensor_type
    heads, size = kind.shape.dim[1].dim_value, kind.shape.dim[3]
    shape = ["num_blocks", "block_size", heads, size.dim_value or size.dim_param]
    return helper.make_tensor_value_info(item.name, kind.elem_type, shape)


def _quantise(graph: onnx.GraphProto, scale: float) -> None:
    """Caches of int8 codes, each with a scale of its own."""
    for layer, node in enumerate(item for item in graph.node if item.op_type == "PagedAttention"):
        for place, side in ((14, "k"), (15, "v")):
            node.input[place] = f"{node.name}/{side}_scale"
            own = scale * (1 + layer / 10 + place / 100)
            graph.initializer.append(helper.make_tensor(node.input[place], TensorProto.FLOAT, [1], [own]))
            node.attribute.append(helper.make_attribute(f"{side}_quant_type", "PER_TENSOR"))
    for item in (*graph.input, *graph.output):
        if item.name.startswith(("past_key", "present")):
            item.type.tensor_type.elem_type = TensorProto.INT8

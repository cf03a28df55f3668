"""How the bundled samples' models are made; everything is seeded, so the bytes are always the same."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper

from vramscope.build.config import Rope, RopeKind
from vramscope.build.config_reader import parse_config
from vramscope.build.decoder import build_decoder
from vramscope.build.decoder_graph import Variation
from vramscope.build.folder import Filling, write_folder
from vramscope.build.layers import Shared, Target, rotary_tables
from vramscope.build.random_weights import random_fill
from vramscope.build.sample_tokenizer import write_tokenizer
from vramscope.build.weights import WeightKind
from vramscope.build.writer import GraphWriter
from vramscope.graph.dtypes import ElementType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

VOCABULARY = 512
SEED = 5
PLACEHOLDER = 3
"""The token id (``<unk>``) that the declining sample replaces by a vector of its own."""

LONG_FROM = 128
"""The sequence length from which the declining sample uses its long-context rotary tables."""

TINY_LLAMA: dict[str, object] = {
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

DECLINES: dict[str, object] = {
    **TINY_LLAMA,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "max_position_embeddings": 512,
}

CANNOT_FIT: dict[str, object] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128009],
}


def make_tiny_llama(folder: Path) -> None:
    """A plain decoder that runs in a blink, with a context long enough for its KV buckets to grow."""
    _make_decoder(folder, TINY_LLAMA, Variation())


def make_declines(folder: Path) -> None:
    """A decoder with two things that a captured graph cannot hold, both as real exporters write them.

    An ``If`` chooses between short and long rotary tables by the sequence length (long-context models), and a
    ``NonZero`` finds the placeholder tokens that a vector from elsewhere replaces (multimodal models).
    """
    _make_decoder(folder, DECLINES, Variation(embedding=_merge_placeholder, tables=_choose_tables))


def make_cannot_fit(folder: Path) -> None:
    """The ``config.json`` of a 70B decoder; its model is built without weights when it is opened."""
    write_config(folder, CANNOT_FIT)


def make_unbounded_axis(folder: Path) -> None:
    """A reranker: how many passages it scores is a symbol that nothing bounds."""
    graph = GraphWriter(ElementType.FLOAT)
    graph.input("query", ElementType.FLOAT, (1, 64))
    graph.input("passages", ElementType.FLOAT, ("passage_count", 64))
    encoded = _encode(graph)
    turned = graph.node("Transpose", [encoded], "/score/Transpose", perm=[1, 0])
    scores = graph.node("MatMul", ["query", turned], "/score/MatMul")
    graph.node("Softmax", [scores], "/score/Softmax", outputs=["relevance"], axis=-1)
    graph.node("MatMul", ["relevance", encoded], "/summary/MatMul", outputs=["summary"])
    graph.output("relevance", ElementType.FLOAT, (1, "passage_count"))
    graph.output("summary", ElementType.FLOAT, (1, 64))
    write_folder(folder, graph, "reranker", "fp32", Filling(f"seed {SEED}", random_fill(SEED, 0.2)))


def _encode(graph: GraphWriter) -> str:
    """Two dense layers over every passage: [passage_count, 64]."""
    inner = graph.weight("encoder.up.weight", WeightKind.LINEAR, 128, 64)
    outer = graph.weight("encoder.down.weight", WeightKind.LINEAR, 64, 128)
    wide = graph.node("MatMul", ["passages", *inner], "/encoder/up/MatMul")
    active = graph.node("Gelu", [wide], "/encoder/act_fn/Gelu", approximate="tanh")
    return graph.node("MatMul", [active, *outer], "/encoder/down/MatMul")


def _make_decoder(folder: Path, config: dict[str, object], variation: Variation) -> None:
    build_decoder(parse_config(config), folder, precision="fp32", weights=SEED, variation=variation)
    write_config(folder, config)
    write_tokenizer(folder, VOCABULARY)


def write_config(folder: Path, config: dict[str, object]) -> None:
    """Writes ``config.json``, from which ``vramscope build`` makes the same model."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8", newline="\n")


def _merge_placeholder(target: Target, embedded: str) -> str:
    """Rows of placeholder tokens are replaced: Equal, NonZero, ScatterND over [batch, sequence, hidden]."""
    graph, scope, width = target.graph, "/model/merge", target.config.hidden_size
    (vector,) = graph.weight("model.merge.vector", WeightKind.TABLE, 1, width)
    token = graph.constant("/model/merge/placeholder", np.array(PLACEHOLDER, np.int64))
    equal = graph.node("Equal", ["input_ids", token], f"{scope}/Equal")
    found = graph.node("NonZero", [equal], f"{scope}/NonZero")
    places = graph.node("Transpose", [found], f"{scope}/Transpose", perm=[1, 0])
    count = graph.node("Shape", [places], f"{scope}/Shape", start=0, end=1)
    extents = graph.node("Concat", [count, graph.integers([width])], f"{scope}/Concat", axis=0)
    rows = graph.node("Expand", [vector, extents], f"{scope}/Expand")
    return graph.node("ScatterND", [embedded, places, rows], f"{scope}/ScatterND")


def _choose_tables(target: Target, shared: Shared) -> Shared:
    """An If on the longest sequence picks the plain rotary tables or those of a context stretched four times.

    The length comes from the mask's content, so padding the mask to the cache's capacity changes nothing.
    """
    graph, scope, config = target.graph, "/model/rotary", target.config
    stretched = Rope(theta=config.rope.theta, kind=RopeKind.LINEAR, factor=4.0)
    long = rotary_tables(target, "_long", stretched)
    limit = graph.constant("/model/rotary/limit", np.array(LONG_FROM - 1, np.int32))
    longest = graph.node("ReduceMax", [shared.seqlens], f"{scope}/ReduceMax", keepdims=0)
    condition = graph.node("GreaterOrEqual", [longest, limit], f"{scope}/GreaterOrEqual")
    outputs = [f"{scope}/If/output_{index}" for index in range(2)]
    graph.node(
        "If",
        [condition],
        f"{scope}/If",
        outputs=outputs,
        then_branch=_branch(target, "long", long),
        else_branch=_branch(target, "short", shared.full_tables),
    )
    tables = (outputs[0], outputs[1])
    return Shared(shared.seqlens, shared.total, tables, tables)


def _branch(target: Target, name: str, tables: tuple[str, str]) -> onnx.GraphProto:
    """A branch that hands two of the outer graph's tables out."""
    extents = [target.config.max_positions, target.config.rotary_size // 2]
    nodes, outputs = [], []
    for role, table in zip(("cos", "sin"), tables, strict=True):
        output = f"{name}_{role}"
        nodes.append(helper.make_node("Identity", [table], [output], name=f"/model/rotary/{name}/{role}"))
        outputs.append(helper.make_tensor_value_info(output, target.precision.dtype, extents))
    return helper.make_graph(nodes, f"{name}_tables", [], outputs)


MAKERS: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "tiny-llama": make_tiny_llama,
        "unbounded-axis": make_unbounded_axis,
        "declines": make_declines,
        "cannot-fit": make_cannot_fit,
    }
)
"""How each bundled sample is made anew, by its name."""

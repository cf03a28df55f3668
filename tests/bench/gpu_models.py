"""Decoder folders of public shapes with random weights, in the dialect of onnxruntime-genai's builder.

The graph is our own builder's, changed where genai's differs: 4-bit weights without zero points, the LM head
and a tied embedding in 4 bits too, a tied dense head that the embedding reads transposed. Both runtimes open
the result. The data file is filled from one pool of random numbers, so that even 5 GB are there in seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto

from vramscope.build.config_reader import read_config
from vramscope.build.decoder import build_decoder
from vramscope.build.writer import DATA_FILE
from vramscope.graph.model import WEIGHTS_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path("/tmp/vramscope-bench")
TABLE, HEAD = "model.embed_tokens.weight", "lm_head.MatMul.weight"
POOL = 2**24
"""Random numbers that all weights are cut from."""
SCALE = 0.02 / 4.6
"""Of codes: uniform 4-bit codes have a deviation of 4.6, weights one of 0.02."""

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_theta": 10000.0}
QWEN = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rope_theta": 1000000.0}
COMMON = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float16",
}


def _shape(
    kind: dict[str, Any], sizes: tuple[int, ...], *, tied: bool = True, context: int = 8192
) -> dict[str, Any]:
    heads = ("num_attention_heads", "num_key_value_heads")
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", *heads, "vocab_size")
    whole = {"max_position_embeddings": context, "tie_word_embeddings": tied}
    return {**kind, **COMMON, **dict(zip(names, sizes, strict=True)), **whole}


SHAPES = {
    "smollm2-135m": _shape(LLAMA, (576, 1536, 30, 9, 3, 49152)),
    "qwen2.5-0.5b": _shape(QWEN, (896, 4864, 24, 14, 2, 151936), context=32768),
    "qwen2.5-1.5b": _shape(QWEN, (1536, 8960, 28, 12, 2, 151936), context=32768),
    "llama-3.2-1b": _shape(LLAMA, (2048, 8192, 16, 32, 8, 128256)),
    "qwen2.5-7b": _shape(QWEN, (3584, 18944, 28, 28, 4, 152064), tied=False, context=32768),
}
"""Public shapes, by name."""


def folder_of(name: str) -> Path:
    """The model's folder, built when it is not there: NAME:fp16, NAME:int4, or a folder as it is.

    A third part, as in NAME:fp16:32768, is a longest context in place of the shape's own.
    """
    if ":" not in name:
        return Path(name)
    shape, precision, *longest = name.split(":")
    sizes = dict(SHAPES[shape])
    if longest:
        sizes["max_position_embeddings"] = int(longest[0])
    folder = FOLDER / "-".join((shape, precision, *longest))
    if not folder.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        config = FOLDER / f"{folder.name}.json"
        config.write_text(json.dumps(sizes), encoding="utf-8")
        build_decoder(
            read_config(config), folder, precision={"int4": "q4f16"}.get(precision, precision), weights=None
        )
        _into_genai(folder, tied=bool(SHAPES[shape]["tie_word_embeddings"]), packed=precision == "int4")
    return folder


def _into_genai(folder: Path, *, tied: bool, packed: bool) -> None:
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    if packed:
        _pack_in_four_bits(model.graph)
    elif tied:
        _turn_head(model.graph)
    kept = {name for node in model.graph.node for name in node.input}
    weights = [item for item in model.graph.initializer if item.name in kept]
    del model.graph.initializer[:]
    model.graph.initializer.extend(weights)
    for note in model.metadata_props:
        if note.key == WEIGHTS_KEY:
            note.value = "random, of the bench"
    outside = [item for item in model.graph.initializer if item.data_location == TensorProto.EXTERNAL]
    _write_data(folder / DATA_FILE, outside)
    onnx.save(model, folder / "model.onnx")


def _pack_in_four_bits(graph: onnx.GraphProto) -> None:
    names = {item.name: item for item in graph.initializer}
    for node in graph.node:
        bits = next((item for item in node.attribute if item.name == "bits"), None)
        if bits is None:
            continue
        data = node.input[1] if node.op_type == "MatMulNBits" else ""
        if bits.i == 8 and data:
            names[data].dims[:] = [*names[data].dims[:-1], names[data].dims[-1] // 2]
        bits.i = 4
        del node.input[3:]
    for node in graph.node:
        if node.op_type == "Reshape" and node.output[0] in {
            n.input[0] for n in graph.node if n.op_type == "GatherBlockQuantized"
        }:
            extents = onnx.numpy_helper.to_array(names[node.input[1]])
            halved = onnx.numpy_helper.from_array(extents // np.array([1, 2]), node.input[1])
            names[node.input[1]].CopyFrom(halved)


def _turn_head(graph: onnx.GraphProto) -> None:
    """One [hidden, vocabulary] matrix, multiplied as it is and transposed for the embedding."""
    table = next(item for item in graph.initializer if item.name == TABLE)
    table.name, table.dims[:] = HEAD, list(table.dims)[::-1]
    nodes = [node for node in graph.node if node.op_type != "Transpose"]
    turned = onnx.helper.make_node(
        "Transpose", [HEAD], ["/model/embed_tokens/Transpose/output_0"], "/model/embed_tokens/Transpose"
    )
    turned.attribute.append(onnx.helper.make_attribute("perm", [1, 0]))
    for node in nodes:
        if node.op_type == "Gather" and node.input[0] == TABLE:
            node.input[0] = turned.output[0]
        if node.op_type == "MatMul" and node.output[0] == "logits":
            node.input[1] = HEAD
    del graph.node[:]
    graph.node.extend([turned, *nodes])


def _write_data(path: Path, weights: list[onnx.TensorProto]) -> None:
    random = np.random.default_rng(0)
    normal: np.ndarray[Any, Any] = (random.standard_normal(POOL, np.float32) * 0.02).astype(np.float16)
    codes: np.ndarray[Any, Any] = random.integers(0, 256, POOL, np.uint8)
    scales = (random.random(POOL, np.float32) * SCALE + SCALE / 2).astype(np.float16)
    with path.open("wb") as file:
        for item in weights:
            file.write(b"\0" * (-file.tell() % 256))
            pool = codes if item.data_type == TensorProto.UINT8 else normal
            pool = scales if item.name.endswith("_scales") else pool
            count, start = int(np.prod(item.dims)), file.tell()
            for piece in _values(item, pool, count, random):
                file.write(piece.data)
            del item.external_data[:]
            size = count * pool.itemsize
            for key, value in (("location", DATA_FILE), ("offset", str(start)), ("length", str(size))):
                item.external_data.add(key=key, value=value)


def _values(
    item: onnx.TensorProto, pool: np.ndarray[Any, Any], count: int, random: np.random.Generator
) -> Iterator[np.ndarray[Any, Any]]:
    if item.name in ("cos_cache", "sin_cache"):
        rows, half = item.dims
        angles = np.arange(rows)[:, None] * (1e4 ** -(np.arange(half) / half))
        yield (np.cos if item.name == "cos_cache" else np.sin)(angles).astype(np.float16)
        return
    if "norm" in item.name:
        yield np.ones(count, np.float16)
        return
    while count:
        start = int(random.integers(0, POOL // 2))
        part = pool[start : start + min(count, POOL // 2)]
        yield part
        count -= part.size

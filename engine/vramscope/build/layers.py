"""A decoder's layers as ONNX nodes, in the GroupQueryAttention flavour of onnxruntime-genai's graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.build.config import Activation
from vramscope.build.weights import Storage, WeightKind
from vramscope.build.writer import MICROSOFT, GraphWriter
from vramscope.graph.dtypes import ElementType

if TYPE_CHECKING:
    from vramscope.build.config import DecoderConfig, Rope

TABLE = "model.embed_tokens.weight"
"""The token table's name; with tied embeddings the LM head reads the same initializers."""


@dataclass(frozen=True, slots=True)
class Precision:
    """What a precision's name stands for: the activations' type and how matrices are stored."""

    dtype: ElementType
    linear: Storage = Storage.DENSE
    head: Storage = Storage.DENSE


@dataclass(frozen=True, slots=True)
class Target:
    """What every part of the writer needs: the graph, the configuration and the precision."""

    graph: GraphWriter
    config: DecoderConfig
    precision: Precision


@dataclass(frozen=True, slots=True)
class Shared:
    """Values that all layers read: valid lengths, and the rotary tables of full and of sliding layers."""

    seqlens: str
    total: str
    full_tables: tuple[str, str]
    sliding_tables: tuple[str, str]


def weight_scope(path: str) -> str:
    """``/model/layers.0/mlp`` as weights spell it: ``model.layers.0.mlp``."""
    return path.removeprefix("/").replace("/", ".")


def linear(target: Target, path: str, value: str, rows: int, columns: int, *, bias: bool = False) -> str:
    """``value @ weight`` of ``columns`` inputs and ``rows`` outputs, plus a bias when the model has one."""
    name = f"{weight_scope(path)}.MatMul.weight"
    names = target.graph.weight(name, WeightKind.LINEAR, rows, columns, storage=target.precision.linear)
    result = product(target, f"{path}/MatMul", value, names, (rows, columns))
    if not bias:
        return result
    added = target.graph.weight(name.replace("MatMul.weight", "Add.bias"), WeightKind.BIAS, 1, rows)
    return target.graph.node("Add", [result, *added], f"{path}/Add")


def product(target: Target, name: str, value: str, weight: tuple[str, ...], extents: tuple[int, int]) -> str:
    """MatMul by a dense weight, MatMulNBits by a quantised one (``extents``: rows, columns)."""
    if len(weight) == 1:
        return target.graph.node("MatMul", [value, *weight], name)
    return quantized_product(target, name, value, weight, extents)


def quantized_product(
    target: Target,
    name: str,
    value: str,
    weight: tuple[str, ...],
    extents: tuple[int, int],
    output: str = "",
) -> str:
    """MatMulNBits: three initializers are 4-bit codes, scales and zero points; two are 8-bit around 128."""
    rows, columns = extents
    return target.graph.node(
        "MatMulNBits",
        [value, *weight],
        name,
        outputs=[output] if output else (),
        domain=MICROSOFT,
        K=columns,
        N=rows,
        bits=4 if len(weight) == 3 else 8,
        block_size=32,
    )


def norm(target: Target, path: str, value: str, weight: str, width: int) -> str:
    """RMS normalisation over the last axis (``width`` features)."""
    (scale,) = target.graph.weight(weight, WeightKind.NORM, 1, width)
    return target.graph.node(
        "SimplifiedLayerNormalization",
        [value, scale],
        path,
        epsilon=target.config.norm_epsilon,
        axis=-1,
        stash_type=1,
    )


def skip_norm(target: Target, path: str, residual: str, value: str, *, last: bool = False) -> tuple[str, str]:
    """Adds ``value`` to the residual stream and normalises the sum: (normalised, new residual)."""
    weight = f"{weight_scope(path)}.weight"
    (scale,) = target.graph.weight(weight, WeightKind.NORM, 1, target.config.hidden_size)
    outputs = [f"{path}/output_0"] if last else [f"{path}/output_0", "", "", f"{path}/output_3"]
    normalised = target.graph.node(
        "SkipSimplifiedLayerNormalization",
        [residual, value, scale],
        f"{path}/SkipLayerNorm",
        outputs=outputs,
        domain=MICROSOFT,
        epsilon=target.config.norm_epsilon,
    )
    return normalised, outputs[-1]


def mask_head(graph: GraphWriter) -> tuple[str, str]:
    """Valid lengths minus one [batch] and the total length (scalar), both INT32, from the attention mask."""
    scope, one = "/model/attn_mask_reformat/attn_mask_subgraph", graph.integers([1])
    count = graph.node("ReduceSum", ["attention_mask", one], f"{scope}/ReduceSum", keepdims=0)
    less = graph.node("Sub", [count, one], f"{scope}/Sub")
    seqlens = graph.node("Cast", [less], f"{scope}/Sub/Cast", to=int(ElementType.INT32))
    shape = graph.node("Shape", ["attention_mask"], f"{scope}/Shape")
    extent = graph.node("Gather", [shape, _index_one(graph)], f"{scope}/Gather", axis=0)
    return seqlens, graph.node("Cast", [extent], f"{scope}/Gather/Cast", to=int(ElementType.INT32))


def _index_one(graph: GraphWriter) -> str:
    return graph.constant("/model/constants/INT64/1", np.array(1, np.int64))


def rotary_tables(target: Target, suffix: str, rope: Rope) -> tuple[str, str]:
    """Cosine and sine tables [max_positions, rotary_size / 2]."""
    extents = (target.config.max_positions, target.config.rotary_size // 2)
    (cosine,) = target.graph.weight(f"cos_cache{suffix}", WeightKind.COSINE, *extents, rope=rope)
    (sine,) = target.graph.weight(f"sin_cache{suffix}", WeightKind.SINE, *extents, rope=rope)
    return cosine, sine


def attention(target: Target, layer: int, value: str, shared: Shared) -> str:
    """Packed projection, optional Q and K norms, GroupQueryAttention with rotary, output projection."""
    config, scope = target.config, f"/model/layers.{layer}/attn"
    width = config.query_width + 2 * config.kv_width
    packed = linear(target, f"{scope}/qkv_proj", value, width, config.hidden_size, bias=config.qkv_bias)
    heads = _normed_heads(target, layer, packed) if config.qk_norm else [packed, "", ""]
    window = config.windows[layer]
    attended = target.graph.node(
        "GroupQueryAttention",
        [
            *heads,
            *(f"past_key_values.{layer}.{role}" for role in ("key", "value")),
            shared.seqlens,
            shared.total,
            *(shared.sliding_tables if window else shared.full_tables),
        ],
        f"{scope}/GroupQueryAttention",
        outputs=[f"{scope}/GroupQueryAttention/output_0", f"present.{layer}.key", f"present.{layer}.value"],
        domain=MICROSOFT,
        num_heads=config.heads,
        kv_num_heads=config.kv_heads,
        scale=config.attention_scale,
        local_window_size=window or -1,
        softcap=config.attention_softcap,
        do_rotary=1,
        rotary_interleaved=0,
    )
    return linear(
        target, f"{scope}/o_proj", attended, config.hidden_size, config.query_width, bias=config.output_bias
    )


def _normed_heads(target: Target, layer: int, packed: str) -> list[str]:
    """Splits the packed projection and normalises each query and key head: [query, key, value]."""
    config, graph, scope = target.config, target.graph, f"/model/layers.{layer}/attn"
    widths = [config.query_width, config.kv_width, config.kv_width]
    parts = [f"{scope}/qkv_proj/Split/output_{index}" for index in range(3)]
    graph.node("Split", [packed, graph.integers(widths)], f"{scope}/qkv_proj/Split", outputs=parts, axis=-1)
    normed = [
        _head_norm(target, f"{scope}/{role}_norm", part, width)
        for role, part, width in zip("qk", parts, widths, strict=False)
    ]
    return [*normed, parts[2]]


def _head_norm(target: Target, scope: str, value: str, width: int) -> str:
    graph, size = target.graph, target.config.head_size
    split = graph.node("Reshape", [value, graph.integers([0, -1, size])], f"{scope}/Reshape_1")
    weight = f"{weight_scope(scope)}.layernorm.weight"
    normed = norm(target, f"{scope}/SimplifiedLayerNormalization", split, weight, size)
    return graph.node("Reshape", [normed, graph.integers([0, -1, width])], f"{scope}/Reshape_2")


def feed_forward(target: Target, layer: int, value: str) -> str:
    """Gated MLP: ``down(activation(gate(x)) * up(x))``."""
    config, graph, scope = target.config, target.graph, f"/model/layers.{layer}/mlp"
    inner, hidden, bias = config.intermediate_size, config.hidden_size, config.mlp_bias
    if config.packed_gate_up:
        packed = linear(target, f"{scope}/gate_up_proj", value, 2 * inner, hidden, bias=bias)
        parts = [f"{scope}/gate_up_proj/Split/output_{index}" for index in range(2)]
        widths = graph.integers([inner, inner])
        graph.node("Split", [packed, widths], f"{scope}/gate_up_proj/Split", outputs=parts, axis=-1)
        gate, up = parts
    else:
        gate = linear(target, f"{scope}/gate_proj", value, inner, hidden, bias=bias)
        up = linear(target, f"{scope}/up_proj", value, inner, hidden, bias=bias)
    gated = graph.node("Mul", [_activated(target, f"{scope}/act_fn", gate), up], f"{scope}/Mul")
    return linear(target, f"{scope}/down_proj", gated, hidden, inner, bias=bias)


def _activated(target: Target, scope: str, value: str) -> str:
    kind = target.config.activation
    if kind is Activation.SILU:
        sigmoid = target.graph.node("Sigmoid", [value], f"{scope}/Sigmoid")
        return target.graph.node("Mul", [value, sigmoid], f"{scope}/Mul")
    approximate = "tanh" if kind is Activation.GELU_TANH else "none"
    return target.graph.node("Gelu", [value], f"{scope}/Gelu", approximate=approximate)


def decoder_layer(target: Target, layer: int, normed: str, residual: str, shared: Shared) -> tuple[str, str]:
    """One layer; returns what joins the residual stream next, and the stream itself."""
    scope = f"/model/layers.{layer}"
    attended = attention(target, layer, normed, shared)
    if not target.config.sandwich_norms:
        normed, residual = skip_norm(target, f"{scope}/post_attention_layernorm", residual, attended)
        return feed_forward(target, layer, normed), residual
    attended = _outer_norm(target, f"{scope}/post_attention_layernorm", attended)
    normed, residual = skip_norm(target, f"{scope}/pre_feedforward_layernorm", residual, attended)
    fed = feed_forward(target, layer, normed)
    return _outer_norm(target, f"{scope}/post_feedforward_layernorm", fed), residual


def _outer_norm(target: Target, path: str, value: str) -> str:
    weight = f"{weight_scope(path)}.weight"
    return norm(target, f"{path}/LayerNorm", value, weight, target.config.hidden_size)

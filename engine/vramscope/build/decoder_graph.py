"""The whole decoder graph: inputs, embedding, layers, LM head, outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from vramscope.build import layers
from vramscope.build.layers import TABLE, Precision, Shared, Target
from vramscope.build.weights import BLOCK, Storage, WeightKind
from vramscope.build.writer import MICROSOFT, GraphWriter
from vramscope.errors import InputError
from vramscope.graph.dtypes import ElementType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.build.config import DecoderConfig

PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        "fp32": Precision(ElementType.FLOAT),
        "fp16": Precision(ElementType.FLOAT16),
        "bf16": Precision(ElementType.BFLOAT16),
        "q4": Precision(ElementType.FLOAT, Storage.Q4, Storage.Q8),
        "q8": Precision(ElementType.FLOAT, Storage.Q8, Storage.Q8),
        "q4f16": Precision(ElementType.FLOAT16, Storage.Q4, Storage.Q8),
        "q8f16": Precision(ElementType.FLOAT16, Storage.Q8, Storage.Q8),
    }
)
"""What ``precision`` may be: the activations' type, or the weights' bits with fp32 or fp16 activations."""

EmbeddingHook: TypeAlias = Callable[[Target, str], str]
"""Gets the embedded tokens and returns what the layers shall read instead."""

TablesHook: TypeAlias = "Callable[[Target, Shared], Shared]"
"""Gets the shared values and returns them with other rotary tables."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Where a sample may differ from the plain decoder."""

    embedding: EmbeddingHook = lambda target, value: value
    tables: TablesHook = lambda target, shared: shared


def precision_named(name: str, config: DecoderConfig) -> Precision:
    """The precision called ``name``, checked against the extents it must divide.

    Raises:
        InputError: no such precision, or quantisation blocks that do not divide the model's widths.
    """
    precision = PRECISIONS.get(name)
    if precision is None:
        raise InputError(
            what=f"precision {name!r}", why="it is not known", remedy=f"Use one of {', '.join(PRECISIONS)}"
        )
    widths = {
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads x head_dim": config.query_width,
    }
    odd = [f"{key} is {value}" for key, value in widths.items() if value % BLOCK]
    if odd and precision.linear is not Storage.DENSE:
        raise InputError(
            what=f"precision {name}",
            why=f"blocks of {BLOCK} weights do not divide the model: {', '.join(odd)}",
            remedy="Use fp32, fp16 or bf16 for this configuration",
        )
    return precision


def write_decoder(
    config: DecoderConfig, precision: Precision, variation: Variation | None = None
) -> GraphWriter:
    """The graph of a decoder; weights are declared with offsets and hold no bytes yet."""
    target = Target(GraphWriter(precision.dtype), config, precision)
    variation = variation or Variation()
    _declare_inputs(target)
    seqlens, total = layers.mask_head(target.graph)
    shared = variation.tables(target, _shared(target, seqlens, total))
    embedded, table = _embedding(target)
    residual = variation.embedding(target, embedded)
    normed = layers.norm(
        target,
        "/model/layers.0/input_layernorm/LayerNorm",
        residual,
        "model.layers.0.input_layernorm.weight",
        config.hidden_size,
    )
    for layer in range(config.layers):
        value, residual = layers.decoder_layer(target, layer, normed, residual, shared)
        last = layer + 1 == config.layers
        path = f"/model/layers.{layer + 1}/{'final_norm' if last else 'input'}_layernorm"
        normed, residual = layers.skip_norm(target, path, residual, value, last=last)
    _head(target, normed, table)
    _declare_outputs(target)
    return target.graph


def _declare_inputs(target: Target) -> None:
    target.graph.input("input_ids", ElementType.INT64, ("batch_size", "sequence_length"))
    target.graph.input("attention_mask", ElementType.INT64, ("batch_size", "total_sequence_length"))
    for name in _cache_names(target, "past_key_values"):
        target.graph.input(name, target.precision.dtype, _cache_shape(target, "past_sequence_length"))


def _declare_outputs(target: Target) -> None:
    logits = ("batch_size", "sequence_length", target.config.vocabulary)
    target.graph.output("logits", _logits_type(target), logits)
    for name in _cache_names(target, "present"):
        target.graph.output(name, target.precision.dtype, _cache_shape(target, "total_sequence_length"))


def _cache_names(target: Target, prefix: str) -> list[str]:
    return [f"{prefix}.{layer}.{role}" for layer in range(target.config.layers) for role in ("key", "value")]


def _cache_shape(target: Target, extent: str) -> tuple[int | str, ...]:
    return ("batch_size", target.config.kv_heads, extent, target.config.head_size)


def _logits_type(target: Target) -> ElementType:
    """The activations' type, except that bfloat16 logits leave the graph as float32, as in genai's graphs."""
    return ElementType.FLOAT if target.precision.dtype is ElementType.BFLOAT16 else target.precision.dtype


def _shared(target: Target, seqlens: str, total: str) -> Shared:
    config = target.config
    differ = config.sliding_rope != config.rope and any(config.windows)
    full = layers.rotary_tables(target, "_global" if differ else "", config.rope)
    sliding = layers.rotary_tables(target, "_local", config.sliding_rope) if differ else full
    return Shared(seqlens, total, full, sliding)


def _embedding(target: Target) -> tuple[str, tuple[str, ...]]:
    """The embedded tokens, and the initializers of the token table."""
    config, graph, scope = target.config, target.graph, "/model/embed_tokens"
    shared_q8 = config.tie_embeddings and target.precision.head is Storage.Q8
    storage = Storage.Q8 if shared_q8 else Storage.DENSE
    table = graph.weight(TABLE, WeightKind.TABLE, config.vocabulary, config.hidden_size, storage=storage)
    value = (
        _gather_quantized(target, scope, table)
        if shared_q8
        else graph.node("Gather", [*table, "input_ids"], f"{scope}/Gather")
    )
    if config.embedding_scale != 1.0:
        value = graph.node("Mul", [value, graph.scalar(config.embedding_scale)], f"{scope}/Mul")
    return value, table


def _gather_quantized(target: Target, scope: str, table: tuple[str, ...]) -> str:
    """Looks tokens up in the LM head's own 8-bit codes, seen as [vocabulary, hidden_size]."""
    codes, scales = table
    extents = target.graph.integers([target.config.vocabulary, target.config.hidden_size])
    rows = target.graph.node("Reshape", [codes, extents], f"{scope}/Reshape")
    return target.graph.node(
        "GatherBlockQuantized",
        [rows, "input_ids", scales],
        f"{scope}/GatherBlockQuantized",
        domain=MICROSOFT,
        bits=8,
        block_size=BLOCK,
        gather_axis=0,
        quantize_axis=1,
    )


def _head(target: Target, value: str, table: tuple[str, ...]) -> None:
    """LM head, optional softcap, and the cast of bfloat16 logits; the last node writes ``logits``."""
    result = _head_product(target, value, table)
    cap, graph = target.config.logits_softcap, target.graph
    if cap:
        divided = graph.node("Div", [result, graph.scalar(cap)], "/lm_head/softcap/Div")
        result = graph.node("Tanh", [divided], "/lm_head/softcap/Tanh")
        result = graph.node("Mul", [result, graph.scalar(cap)], "/lm_head/softcap/Mul")
    if _logits_type(target) is not target.precision.dtype:
        graph.node("Cast", [result], "/lm_head/Cast", to=int(ElementType.FLOAT))
    graph.nodes[-1].output[0] = "logits"


def _head_product(target: Target, value: str, table: tuple[str, ...]) -> str:
    config, graph, _head = target.config, target.graph, target.precision.head
    extents = (config.vocabulary, config.hidden_size)
    if not config.tie_embeddings:
        table = graph.weight(
            "lm_head.MatMul.weight", WeightKind.LINEAR, *extents, storage=target.precision.head
        )
    elif len(table) == 1:
        table = (graph.node("Transpose", table, "/lm_head/Transpose", perm=[1, 0]),)
    return layers.product(target, "/lm_head/MatMul", value, table, extents)

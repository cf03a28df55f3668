"""Weights of a Llama-shaped GGUF file: dequantised, or its 4- and 8-bit blocks copied without loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

from vramscope.build.quantize import pack_nibbles
from vramscope.build.random_weights import row_pieces, table_pieces
from vramscope.build.weights import BLOCK, Storage, WeightKind, stored
from vramscope.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from vramscope.build.config import DecoderConfig
    from vramscope.build.weights import Fill, Piece, Weight
    from vramscope.graph.model import Array

    Floats: TypeAlias = npt.NDArray[np.float32]
    Bytes: TypeAlias = npt.NDArray[np.uint8]

ROWS_AT_A_TIME = 4096

_LAYER_NAMES = {
    "input_layernorm.weight": ("attn_norm.weight",),
    "attn.qkv_proj.MatMul.weight": ("attn_q.weight", "attn_k.weight", "attn_v.weight"),
    "attn.o_proj.MatMul.weight": ("attn_output.weight",),
    "post_attention_layernorm.weight": ("ffn_norm.weight",),
    "mlp.gate_proj.MatMul.weight": ("ffn_gate.weight",),
    "mlp.up_proj.MatMul.weight": ("ffn_up.weight",),
    "mlp.down_proj.MatMul.weight": ("ffn_down.weight",),
}

_MODEL_NAMES = {
    "embed_tokens.weight": "token_embd.weight",
    "final_norm_layernorm.weight": "output_norm.weight",
}


def gguf_fill(reader: GGUFReader, config: DecoderConfig) -> Fill:
    """Weights by the names the decoder graph gives them, from an open GGUF file."""
    tensors = {tensor.name: (tensor.data, tensor.tensor_type) for tensor in reader.tensors}

    def fill(weight: Weight) -> Iterator[Piece]:
        if weight.kind in (WeightKind.COSINE, WeightKind.SINE):
            yield from table_pieces(weight)
            return
        sources = [(name, *_tensor(tensors, name)) for name in _source_names(weight.name)]
        if weight.kind is WeightKind.TABLE:
            yield from _table_rows(weight, *sources[0])
            return
        parts = [_unpermuted(_decoded(weight, *source), source[0], config) for source in sources]
        joined = tuple(np.concatenate(group) for group in zip(*parts, strict=True))
        yield from _whole(weight, joined)

    return fill


def _source_names(name: str) -> list[str]:
    """The GGUF tensors that one of our weights is made of: ``model.layers.3.mlp…`` is in ``blk.3.ffn…``."""
    parts = name.split(".")
    tail = ".".join(parts[3:]) if parts[1] == "layers" else ".".join(parts[1:])
    if tail in _MODEL_NAMES:
        return [_MODEL_NAMES[tail]]
    return [f"blk.{parts[2]}.{source}" for source in _LAYER_NAMES[tail]]


def _tensor(
    tensors: dict[str, tuple[Array, GGMLQuantizationType]], name: str
) -> tuple[Array, GGMLQuantizationType]:
    if name in tensors:
        return tensors[name]
    raise ModelFileError(
        what=f"tensor {name}", why="the GGUF file has none", remedy="Use a Llama-shaped GGUF file"
    )


def _table_rows(weight: Weight, name: str, data: Array, kind: GGMLQuantizationType) -> Iterator[Piece]:
    """The token table some rows at a time, for it is the largest weight of all."""
    for first in range(0, weight.rows, ROWS_AT_A_TIME):
        parts = _decoded(weight, name, data[first : first + ROWS_AT_A_TIME], kind)
        yield from row_pieces(weight.tensors, parts, first)


def _whole(weight: Weight, parts: tuple[Array, ...]) -> Iterator[Piece]:
    """All of a weight's tensors, a dense matrix turned into MatMul's layout."""
    if weight.kind is WeightKind.LINEAR and weight.storage is Storage.DENSE:
        parts = (parts[0].T,)
    for spec, part in zip(weight.tensors, parts, strict=True):
        yield spec, 0, stored(part, spec)


def _decoded(weight: Weight, name: str, data: Array, kind: GGMLQuantizationType) -> tuple[Array, ...]:
    """A GGUF tensor's rows as the arrays that the weight's storage keeps (see ``weights.Weight``)."""
    if weight.storage is Storage.DENSE:
        return (dequantize(data, kind),)
    if weight.storage is Storage.Q4 and kind is GGMLQuantizationType.Q4_1:
        return q4_1_blocks(data.view(np.uint8))
    if weight.storage is Storage.Q8 and kind is GGMLQuantizationType.Q8_0:
        return q8_0_blocks(data.view(np.uint8))
    raise ModelFileError(
        what=f"tensor {name}",
        why=f"its {kind.name} blocks cannot be kept as {weight.storage.value} without loss",
        remedy="Export it as fp32 or fp16",
    )


def q4_1_blocks(data: Bytes) -> tuple[Bytes, Floats, Floats]:
    """Q4_1 rows [rows, blocks x 20 bytes] as MatMulNBits codes, scales and float zero points.

    A block is a half-precision step ``d`` and minimum ``m`` and 16 bytes: value ``j`` is
    ``d * low nibble + m`` of byte ``j``, value ``j + 16`` the same of its high nibble. With zero point
    ``-m / d`` that is ``(code - zero_point) * d``. A block with ``d = 0`` is the constant ``m``: code 0, zero
    point -1 and scale ``m`` keep it exactly.
    """
    blocks = data.reshape(data.shape[0], -1, 20)
    step, minimum = _half(blocks[..., 0:2]), _half(blocks[..., 2:4])
    nibbles = blocks[..., 4:]
    codes = np.concatenate([nibbles & np.uint8(15), nibbles >> np.uint8(4)], axis=-1)
    constant = step == 0
    codes[constant] = 0
    zero_points = np.where(constant, np.float32(-1), -minimum / np.where(constant, np.float32(1), step))
    return pack_nibbles(codes), np.where(constant, minimum, step), zero_points


def q8_0_blocks(data: Bytes) -> tuple[Bytes, Floats]:
    """Q8_0 rows [rows, blocks x 34 bytes] as 8-bit codes around 128 and scales: ``d * q``."""
    blocks = data.reshape(data.shape[0], -1, 2 + BLOCK)
    codes = blocks[..., 2:] ^ np.uint8(128)
    return codes, _half(blocks[..., 0:2])


def _half(pairs: Bytes) -> Floats:
    """Little-endian half-precision numbers of two bytes each, widened to float32."""
    return np.ascontiguousarray(pairs).view("<f2")[..., 0].astype(np.float32)


def _unpermuted(parts: tuple[Array, ...], name: str, config: DecoderConfig) -> tuple[Array, ...]:
    """Undoes llama.cpp's order of query and key rows.

    It stores rotary pairs next to each other, (0, 1), (2, 3) and so on within a head; the half-split rotary
    of GroupQueryAttention pairs row ``i`` with row ``i + head_size / 2``.
    """
    heads = {"attn_q.weight": config.heads, "attn_k.weight": config.kv_heads}.get(name.split(".", 2)[-1], 0)
    if not heads:
        return parts
    half = config.head_size // 2
    return tuple(
        part.reshape(heads, half, 2, *part.shape[1:]).swapaxes(1, 2).reshape(part.shape) for part in parts
    )

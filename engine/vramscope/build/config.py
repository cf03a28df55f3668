"""The shape of a decoder as one frozen object, and the rotary position facts that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Activation(Enum):
    """The MLP's activation; the values are Hugging Face's names for it."""

    SILU = "silu"
    GELU_TANH = "gelu_pytorch_tanh"
    GELU = "gelu"


class RopeKind(Enum):
    """How rotary frequencies are stretched to longer contexts; the values are Hugging Face's names."""

    DEFAULT = "default"
    LINEAR = "linear"
    LLAMA3 = "llama3"


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding: base frequency and scaling. The factors matter to the scaled kinds alone."""

    theta: float = 10000.0
    kind: RopeKind = RopeKind.DEFAULT
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_positions: int = 8192


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Everything that decides a decoder's graph and the extents of its weights.

    ``windows`` has one entry a layer: how many keys a query sees, itself included; 0 means all of them.
    ``sliding_rope`` is what layers with a window use, ``rope`` what the others use.
    """

    architecture: str
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate_size: int
    vocabulary: int
    max_positions: int
    windows: tuple[int, ...]
    rope: Rope
    sliding_rope: Rope
    rotary_size: int
    attention_scale: float
    norm_epsilon: float = 1e-6
    activation: Activation = Activation.SILU
    tie_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    packed_gate_up: bool = False
    sandwich_norms: bool = False
    """Gemma: attention and MLP outputs are normalised too, before they join the residual stream."""
    embedding_scale: float = 1.0
    attention_softcap: float = 0.0
    logits_softcap: float = 0.0
    bos_token: int | None = None
    eos_tokens: tuple[int, ...] = ()
    pad_token: int | None = None
    initializer_range: float = 0.02

    @property
    def query_width(self) -> int:
        """Features of all query heads together."""
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """Features of all key (or value) heads together."""
        return self.kv_heads * self.head_size

"""A decoder's forward pass in float64, written from the models' definitions.

And onnxruntime to compare with.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Floats = np.ndarray[Any, np.dtype[np.float64]]
Config = dict[str, Any]

BASE: Config = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

FAMILIES: dict[str, Config] = {
    "llama": {"model_type": "llama"},
    "llama-tied": {"model_type": "llama", "tie_word_embeddings": True},
    "llama-biased": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3"},
    "mistral": {"model_type": "mistral", "sliding_window": 5},
    "phi3": {"model_type": "phi3", "sliding_window": 9},
    "gemma3": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 6,
        "sliding_window": 5,
        "query_pre_attn_scalar": 24,
        "final_logit_softcapping": 4.0,
    },
}


def family(name: str) -> Config:
    return {**BASE, **FAMILIES[name]}


def load_weights(folder: Path) -> dict[str, Floats]:
    """Every initializer of a folder's model, widened."""
    model = onnx.load(str(folder / "model.onnx"))
    return {item.name: numpy_helper.to_array(item).astype(np.float64) for item in model.graph.initializer}


def rms(value: Floats, gamma: Floats, epsilon: float) -> Floats:
    mean: Floats = (value * value).mean(-1, keepdims=True)
    return gamma * (value / np.sqrt(mean + epsilon))


def rotate(heads: Floats, theta: float) -> Floats:
    """Half-split rotary of [sequence, heads, size] at positions 0, 1, …"""
    half = heads.shape[-1] // 2
    angle = np.arange(len(heads))[:, None, None] / theta ** (np.arange(half) / half)
    cosine, sine = np.cos(angle), np.sin(angle)
    first, second = heads[..., :half], heads[..., half:]
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def gelu(value: Floats) -> Floats:
    inner: Floats = math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)
    result: Floats = value * (1 + np.tanh(inner)) / 2
    return result


def silu(value: Floats) -> Floats:
    result: Floats = value / (1 + np.exp(-value))
    return result


class Decoder:
    """One model: its Hugging Face configuration and its weights by the built graph's names."""

    def __init__(self, config: Config, weights: Mapping[str, Floats]) -> None:
        self.config, self.weights = config, weights
        self.gemma = config["model_type"].startswith("gemma")
        self.epsilon = config["rms_norm_eps"]

    def logits(self, ids: list[int]) -> Floats:
        """[sequence, vocabulary]"""
        table = self.weights["model.embed_tokens.weight"]
        stream = table[ids] * (math.sqrt(self.config["hidden_size"]) if self.gemma else 1.0)
        for layer in range(self.config["num_hidden_layers"]):
            stream = self._layer(layer, stream)
        last = f"model.layers.{self.config['num_hidden_layers']}.final_norm_layernorm.weight"
        final = rms(stream, self.weights[last], self.epsilon)
        head = self.weights.get("lm_head.MatMul.weight")
        result = final @ (table.T if head is None else head)
        cap = self.config.get("final_logit_softcapping")
        return np.tanh(result / cap) * cap if cap else result

    def _layer(self, layer: int, stream: Floats) -> Floats:
        attended = self._attention(layer, self._norm(layer, "input_layernorm", stream))
        if not self.gemma:
            stream = stream + attended
            return stream + self._mlp(layer, self._norm(layer, "post_attention_layernorm", stream))
        stream = stream + self._norm(layer, "post_attention_layernorm", attended)
        fed = self._mlp(layer, self._norm(layer, "pre_feedforward_layernorm", stream))
        return stream + self._norm(layer, "post_feedforward_layernorm", fed)

    def _norm(self, layer: int, name: str, value: Floats) -> Floats:
        return rms(value, self.weights[f"model.layers.{layer}.{name}.weight"], self.epsilon)

    def _project(self, layer: int, name: str, value: Floats) -> Floats:
        path = f"model.layers.{layer}.{name}"
        return value @ self.weights[f"{path}.MatMul.weight"] + self.weights.get(f"{path}.Add.bias", 0.0)

    def _attention(self, layer: int, value: Floats) -> Floats:
        heads, groups = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        size, count = self.config["head_dim"], len(value)
        packed = self._project(layer, "attn.qkv_proj", value)
        query, key, content = np.split(packed, [heads * size, (heads + groups) * size], axis=-1)
        query, key = query.reshape(count, heads, size), key.reshape(count, groups, size)
        if f"model.layers.{layer}.attn.q_norm.layernorm.weight" in self.weights:
            query = self._norm(layer, "attn.q_norm.layernorm", query)
            key = self._norm(layer, "attn.k_norm.layernorm", key)
        sliding = self._slides(layer)
        theta = 1e6 if self.gemma and not sliding else 1e4
        query, key = rotate(query, theta), rotate(key, theta)
        scalar: float = self.config["query_pre_attn_scalar"] if self.gemma else size
        result = np.zeros_like(query)
        for head in range(heads):
            group = head // (heads // groups)
            score = query[:, head] @ key[:, group].T / math.sqrt(scalar) + self._mask(count, sliding=sliding)
            share = np.exp(score - score.max(-1, keepdims=True))
            share /= share.sum(-1, keepdims=True)
            result[:, head] = share @ content.reshape(count, groups, size)[:, group]
        return self._project(layer, "attn.o_proj", result.reshape(count, heads * size))

    def _slides(self, layer: int) -> bool:
        return (layer + 1) % 6 != 0 if self.gemma else "sliding_window" in self.config

    def _mask(self, count: int, *, sliding: bool) -> Floats:
        behind = np.arange(count)[:, None] - np.arange(count)[None, :]
        visible = (behind >= 0) & (behind < (self.config["sliding_window"] if sliding else count))
        return np.where(visible, 0.0, -np.inf)

    def _mlp(self, layer: int, value: Floats) -> Floats:
        if self.config["model_type"] == "phi3":
            gate, up = np.split(self._project(layer, "mlp.gate_up_proj", value), 2, axis=-1)
        else:
            gate = self._project(layer, "mlp.gate_proj", value)
            up = self._project(layer, "mlp.up_proj", value)
        active = gelu(gate) if self.gemma else silu(gate)
        return self._project(layer, "mlp.down_proj", active * up)


_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Runner:
    """A decoder folder on onnxruntime's CPU: feeds tokens, keeps the cache."""

    def __init__(self, folder: Path) -> None:
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
        )
        self.length = 0
        self.cache: dict[str, np.ndarray[Any, Any]] = {}
        self.reset()

    def reset(self) -> None:
        self.length = 0
        pairs = [item for item in self.session.get_inputs() if item.name.startswith("past_")]
        self.cache = {
            item.name: np.zeros((1, item.shape[1], 0, item.shape[3]), _TYPES[item.type]) for item in pairs
        }

    def feed(self, ids: list[int]) -> Floats:
        """Logits [sequence, vocabulary] of the new tokens."""
        self.length += len(ids)
        feeds = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, self.length), np.int64)}
        logits, *present = self.session.run(None, {**feeds, **self.cache})
        self.cache = dict(zip(self.cache, present, strict=True))
        widened: Floats = logits[0].astype(np.float64)
        return widened

    def greedy(self, ids: list[int], count: int) -> tuple[list[int], Floats]:
        """``count`` greedy tokens, and the logits of the prompt's last one."""
        self.reset()
        logits = first = self.feed(ids)[-1]
        tokens = [int(logits.argmax())]
        while len(tokens) < count:
            logits = self.feed(tokens[-1:])[-1]
            tokens.append(int(logits.argmax()))
        return tokens, first

    def forced(self, ids: list[int], answer: list[int]) -> tuple[list[int], Floats]:
        """Greedy choices along ``answer`` in one run: they equal it exactly when greedy decoding gives it."""
        self.reset()
        logits = self.feed(ids + answer[:-1])[len(ids) - 1 :]
        return [int(token) for token in logits.argmax(axis=-1)], logits[0]

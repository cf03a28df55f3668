"""Mixtures of experts in float64, in the plainest way, and the stored forms of their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from vramscope.ops.kernels.block_formats import FORMATS

Values = np.ndarray[Any, Any]


def nibbles(codes: Values, bits: int) -> Values:
    """The last axis packed low bits first."""
    many = 8 // bits
    padded = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % many)])
    parts = padded.reshape(*codes.shape[:-1], -1, many).astype(np.uint8)
    return np.asarray(np.bitwise_or.reduce(parts << (np.arange(many, dtype=np.uint8) * bits), axis=-1))


def block_rows(random: np.random.Generator, name: str, *lead: int, count: int) -> tuple[Values, Values]:
    """Random blocks [*lead, count, bytes] of moderate size and what they decode to, float64."""
    form = FORMATS[name]
    packed = random.integers(0, 256, (*lead, count, form.size), dtype=np.uint8)
    if name == "mxfp4":
        packed[..., 0] = random.integers(120, 129, packed.shape[:-1])
    for place in {"q2_k": (80, 82), "q3_k": (108,), "q5_k": (0, 2), "q6_k": (208,)}.get(name, (0,)):
        if name != "mxfp4":
            scale = (random.random(packed.shape[:-1]) * 0.01).astype(np.float16)
            packed[..., place : place + 2] = scale[..., None].view(np.uint8)
    flat = packed.reshape(-1, count * form.size)
    decoded = dequantize(flat, GGMLQuantizationType[name.upper()])
    return packed, decoded.reshape(*lead, -1).astype(np.float64)


def mixture(
    x: Values,
    logits: Values,
    weights: tuple[Values, Values, Values | None],
    biases: tuple[Values | None, Values | None, Values | None],
    *,
    k: int,
    activation: str,
    fusion: int = 0,
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float = np.inf,
    normalize: bool = False,
) -> Values:
    """Y [rows, H] of X [rows, H] and router logits [rows, E]."""
    out = np.zeros_like(x, np.float64)
    for number, row in enumerate(x.astype(np.float64)):
        scores = logits[number].astype(np.float64)
        chosen = sorted(range(scores.size), key=lambda expert: (-scores[expert], expert))[:k]
        powers = np.exp(scores - scores.max())
        whole = powers[chosen].sum() if normalize else powers.sum()
        for expert in chosen:
            first = _projected(weights[0][expert], row, biases[0], expert)
            third = None if weights[2] is None else _projected(weights[2][expert], row, biases[2], expert)
            hidden = _gate(first, third, activation, fusion, (alpha, beta, limit))
            second = _projected(weights[1][expert], hidden, biases[1], expert)
            out[number] += powers[expert] / whole * second
    return out


def _sigmoid(x: Values) -> Values:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def _projected(weight: Values, x: Values, bias: Values | None, expert: int) -> Values:
    return np.asarray(weight @ x + (0 if bias is None else bias[expert]))


def _gate(
    first: Values, third: Values | None, activation: str, fusion: int, numbers: tuple[float, float, float]
) -> Values:
    alpha, beta, limit = numbers
    if activation == "swiglu" or third is not None:
        half = first.size // 2
        pairs = {1: (first[0::2], first[1::2]), 2: (first[:half], first[half:])}
        gate, linear = pairs[fusion] if third is None else (first, third)
        gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
        return np.asarray(gate * _sigmoid(alpha * gate) * (linear + beta))
    if activation == "relu":
        return np.asarray(np.maximum(first, 0))
    if activation == "silu":
        return np.asarray(first * _sigmoid(first))
    if activation == "gelu":
        return np.asarray(0.5 * first * (1 + np.tanh(np.sqrt(2 / np.pi) * (first + 0.044715 * first**3))))
    return first

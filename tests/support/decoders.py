"""The tiny decoders that the host device runs, by folder."""

from __future__ import annotations

CPU_MODELS = (
    "mobius-tiny-llama-fp16-cuda",
    "mobius-tiny-llama-fp32-default",
    "mobius-tiny-llama-fp32-static",
    "mobius-tiny-llama-std",
    "optimum-tiny-gpt2",
    "tiny-gemma3-fp32-cpu",
    "tiny-llama-fp16-cuda",
    "tiny-llama-fp16-cuda-paged",
    "tiny-llama-fp32-cpu",
    "tiny-llama-fp32-cpu-prune",
    "tiny-llama-int4-cpu",
    "tiny-llama-int4-cpu-qdq",
    "tiny-llama-int4-cuda",
    "tiny-llama-int8-cpu",
    "tiny-llama-tied-fp32-cpu",
    "tiny-qwen3-fp32-cpu",
    "torchexp-tiny-llama",
)

ONE_GRAPH = tuple(
    name
    for name in (*CPU_MODELS, "tiny-llama-bf16-cuda")
    if name not in ("optimum-tiny-gpt2", "torchexp-tiny-llama")
)
"""Decoders whose whole step is one graph; of those left out the cache's length is a shape."""

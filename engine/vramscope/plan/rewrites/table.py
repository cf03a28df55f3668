"""Every rewrite, in the order in which they are made, and a model with some of them."""

from __future__ import annotations

import difflib
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.errors import ScenarioError
from vramscope.graph.model import Weights
from vramscope.plan.rewrites.four_bit import four_bit
from vramscope.plan.rewrites.half import half_floats
from vramscope.plan.rewrites.kv_bits import kv_bits
from vramscope.plan.rewrites.last_logits import last_logits
from vramscope.plan.rewrites.shared_kv import shared_kv
from vramscope.plan.rewrites.types import Impossible, Rewrite, Rewritten
from vramscope.plan.rewrites.unique import unique_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Model

GENAI = "python -m onnxruntime_genai.models.builder"
NEWER = "(kv_cache_quant_scheme in newer releases)"

REWRITES = (
    Rewrite(
        "fp16",
        "weights and activations in float16",
        "Use float16 for weights and activations",
        half_floats,
        MappingProxyType({"genai": f"{GENAI} … -p fp16 -e cuda", "mobius": "mobius build … --dtype f16"}),
    ),
    Rewrite(
        "last-logits",
        "logits of the last position alone",
        "Keep only the last position's logits",
        last_logits,
        MappingProxyType(
            {
                "genai": f"{GENAI} … --extra_options prune_lm_head=true",
                "mobius": "mobius build … --features prune-prefill-prefix",
                "": "When the model is exported, take the last position of what the head reads",
            }
        ),
    ),
    Rewrite(
        "shared-kv",
        "past and present in one buffer",
        "Share past and present in one buffer",
        shared_kv,
        MappingProxyType(
            {
                "genai": f"{GENAI} … with a precision and a provider for which it emits GroupQueryAttention "
                "(-p fp16 -e cuda, -p fp32 -e cpu)",
                "mobius": "mobius build … --features static-cache --max-seq-len N, or --ep cuda --dtype f16",
                "": "Export it with GroupQueryAttention, or with TensorScatter in front of Attention",
            }
        ),
    ),
    Rewrite(
        "kv8",
        "KV cache in 8 bits",
        "Keep the KV cache in 8 bits",
        kv_bits(8),
        MappingProxyType(
            {
                "genai": f"{GENAI} … --extra_options kv_cache_quant_type=int8_per_tensor {NEWER}",
                "mobius": "mobius build … --ep cuda --dtype f16 --features fp8-kv-cache (FLOAT8E4M3FN, "
                "which takes as many bytes)",
                "": "Give GroupQueryAttention the attributes k_quant_type, v_quant_type and "
                "kv_cache_bit_width=8, its scales as inputs 12 and 13, and int8 caches;"
                " PagedAttention the first two, its scales as inputs 14, 15",
            }
        ),
    ),
    Rewrite(
        "kv4",
        "KV cache in 4 bits",
        "Keep the KV cache in 4 bits",
        kv_bits(4),
        MappingProxyType(
            {
                "genai": f"{GENAI} … --extra_options kv_cache_quant_type=int4_per_tensor {NEWER}",
                "": "Give GroupQueryAttention the attributes k_quant_type, v_quant_type and "
                "kv_cache_bit_width=4, its scales as inputs 12 and 13, and uint8 caches, half as wide;"
                " PagedAttention the first two, k_cache_dtype and v_cache_dtype, its scales as inputs 14, 15",
            }
        ),
    ),
    Rewrite(
        "int4",
        "4-bit weights in matrix products",
        "Use 4-bit weights in matrix products",
        four_bit(zero_points=False),
        MappingProxyType(
            {
                "genai": f"{GENAI} … -p int4",
                "": "Quantise it with onnxruntime's MatMulNBitsQuantizer, symmetric, in blocks of 32",
            }
        ),
    ),
    Rewrite(
        "int4-zero-points",
        "4-bit weights with zero points in matrix products",
        "Use 4-bit weights with zero points in matrix products",
        four_bit(zero_points=True),
        MappingProxyType(
            {"": "Quantise it with onnxruntime's MatMulNBitsQuantizer, not symmetric, in blocks of 32"}
        ),
        suggested=False,
    ),
    Rewrite(
        "unique-weights",
        "equal weights stored once",
        "Store equal weights once",
        unique_weights,
        MappingProxyType({"": "Give equal initializers one name before the model is saved"}),
    ),
)
"""In the order in which they are made, whatever order they are asked for: later ones see earlier ones."""

KNOWN = MappingProxyType({rewrite.id: rewrite for rewrite in REWRITES})


def ordered(ids: Sequence[str]) -> tuple[Rewrite, ...]:
    """The rewrites of these ids, each once, in the order in which they are made.

    Raises:
        ScenarioError: an id that none has.
    """
    for name in ids:
        if name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, n=1)
            remedy = f"Did you mean {near[0]}?" if near else f"There are {', '.join(KNOWN)}"
            raise ScenarioError(f"as if {name!r}", "no such rewrite is known", remedy)
    return tuple(rewrite for rewrite in REWRITES if rewrite.id in ids)


def rewritten(model: Model, rewrites: Sequence[Rewrite]) -> Rewritten:
    """``model`` as if it were exported so.

    Raises:
        ScenarioError: one of them cannot be made exactly; names it and why.
    """
    notes: tuple[str, ...] = ()
    for rewrite in rewrites:
        made = rewrite.apply(model)
        if isinstance(made, Impossible):
            raise ScenarioError(
                f"planning as if {rewrite.id} ({rewrite.title})",
                made.reason,
                f"Plan it without {rewrite.id}",
                made.node,
            )
        model, notes = made.model, (*notes, *made.notes)
    why = Weights.AS_IF.value[0]
    problems = (*model.problems, f"{why[0].upper()}{why[1:]}", *notes)
    return Rewritten(replace(model, problems=problems) if rewrites else model, notes)

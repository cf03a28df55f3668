"""Reference CUDA scratch of attention, mixtures of experts and IndexShare, as pure functions."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from vramscope.errors import ModelGraphError, ShapeOverflowError
from vramscope.graph.dtypes import BYTES_LIMIT, ElementType, bit_width
from vramscope.ops.spec import NO_WORKSPACE, Lifetime, Region, WorkspaceRequirement
from vramscope.units import ALIGNMENT, align

if TYPE_CHECKING:
    from vramscope.graph.model import Node
    from vramscope.ops.spec import TensorMeta, WorkspaceQuery

GEMM_AREA = 32 * 1024 * 1024
"""The preference cap given to cuBLASLt, and the product area of com.microsoft's Attention: 32 MiB."""
FLOATS = (ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16)


def element_bytes(dtype: ElementType) -> int:
    """Bytes of one element of a byte-wide type."""
    return bit_width(dtype) // 8


def packed_regions(sizes: list[tuple[str, int]]) -> tuple[Region, ...]:
    """Regions in order, each starting at the next multiple of 256; a size of 0 takes nothing."""
    regions: list[Region] = []
    end = 0
    for name, size in sizes:
        if size:
            regions.append(Region(name, align(end), size))
            end = align(end) + size
    return tuple(regions)


def answer(formula: str, regions: tuple[Region, ...], total: int, lifetime: Lifetime) -> WorkspaceRequirement:
    """The requirement, NONE at 0 bytes.

    Raises:
        ShapeOverflowError: more than 2**63 - 1 bytes.
    """
    if total > BYTES_LIMIT:
        raise ShapeOverflowError(
            f"the reference workspace ({formula})",
            f"it takes {total:,} bytes, more than any device can address",
            "Lower the batch or the context",
        )
    if total == 0:
        return NO_WORKSPACE
    return WorkspaceRequirement(total, ALIGNMENT, lifetime, formula, regions)


def _end(regions: tuple[Region, ...]) -> int:
    return regions[-1].offset + regions[-1].size if regions else 0


# ---- com.microsoft::Attention (workspace formulas 3.2)


def is_fused(dtype: ElementType, extents: tuple[int, int, int], compute_major: int) -> bool:
    """Whether the fused kernel, which needs no scratch, takes ``extents`` (sq, sk, D)."""
    queries, keys, width = extents
    longest = max(queries, keys)
    if queries <= 1 or not 1 <= width <= 128:
        return False
    half = dtype is ElementType.FLOAT16 and width % 16 == 0 and longest <= 512 and compute_major >= 7
    return longest <= 128 or half


def contrib_attention(query: WorkspaceQuery, compute_major: int = 8) -> WorkspaceRequirement:
    """Scores padded to 256 and a 32 MiB product area; NONE where the fused kernel runs; saturates.

    Q and K (inputs 0 and 1) are [B, H, positions, D].
    """
    first, second = query.input(0), query.input(1)
    if len(first.shape) != 4 or len(second.shape) != 4 or first.dtype not in FLOATS:
        return NO_WORKSPACE
    batch, heads, queries, width = first.shape
    keys = second.shape[2]
    if heads != query.node.integer("num_heads", heads) or second.shape[1] != heads:
        return NO_WORKSPACE
    if is_fused(first.dtype, (queries, keys, width), compute_major):
        return NO_WORKSPACE
    scores = min(batch * heads * queries * keys * element_bytes(first.dtype), BYTES_LIMIT)
    total = min(align(scores) + GEMM_AREA, BYTES_LIMIT)
    regions = (Region("scores", 0, scores), Region("products", align(scores), GEMM_AREA))
    return WorkspaceRequirement(total, ALIGNMENT, Lifetime.STEP_SCOPED, "contrib attention 3.2", regions)


# ---- Attention of the default domain (3.3)


def attention(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Float32 scores, staged or scratch K and V, offsets and pad limits; not rounded at the end."""
    form = _attention_form(query)
    if form is None:
        return NO_WORKSPACE
    batch, heads, kv_heads, queries, keys, width, value_width = form
    past = query.input(4).shape[2] if query.input(4).present else 0
    total = past + keys
    size = element_bytes(query.input(0).dtype)
    key = max(batch * kv_heads * total * width * size, 1)
    value = max(batch * kv_heads * total * value_width * size, 1)
    staged = query.input(4).present and not _fixed_capacity(query)
    regions = packed_regions(
        [
            ("scores", max(batch * heads * queries * total, 1) * 4),
            ("staged keys", key if staged and query.outputs >= 2 else 0),
            ("staged values", value if staged and query.outputs >= 3 else 0),
            ("present keys", key if query.outputs < 2 else 0),
            ("present values", value if query.outputs < 3 else 0),
            ("offsets", max(batch, 1) * 8),
            ("pad limits", max(batch, 1) * 8),
        ]
    )
    single = batch == 1 and queries == 1
    lifetime = Lifetime.SESSION_PERSISTENT if single else Lifetime.STEP_SCOPED
    return answer("attention 3.3", regions, _end(regions), lifetime)


def _attention_form(query: WorkspaceQuery) -> tuple[int, int, int, int, int, int, int] | None:
    """B, Hq, Hkv, q, k, D, Dv; None where the metadata is unusable."""
    inputs = [query.input(index) for index in range(3)]
    split = [_heads_first(item, query.node, index == 0) for index, item in enumerate(inputs)]
    usable = inputs[0].dtype in (*FLOATS, ElementType.DOUBLE) and len({item.dtype for item in inputs}) == 1
    first, second, third = split
    if first is None or second is None or third is None or not usable:
        return None
    if second[:3] != third[:3] or second[0] != first[0] or query.input(4).present != query.input(5).present:
        return None
    return first[0], first[1], second[1], first[2], second[2], first[3], third[3]


def _heads_first(item: TensorMeta, node: Node, is_query: bool) -> tuple[int, ...] | None:
    if len(item.shape) == 4:
        return item.shape
    heads = node.integer("q_num_heads" if is_query else "kv_num_heads", 0)
    if len(item.shape) != 3 or heads <= 0 or item.shape[2] % heads:
        return None
    return (item.shape[0], heads, item.shape[1], item.shape[2] // heads)


def _fixed_capacity(query: WorkspaceQuery) -> bool:
    mask = query.input(3)
    if not mask.present or not mask.shape:
        return False
    return query.input(4).shape[2] == query.input(5).shape[2] == mask.shape[-1]


# ---- GroupQueryAttention (3.4)


def grouped(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Unpacked Q, K, V; transposed Q; transposed output; float32 reference scores, in this order."""
    form = _grouped_form(query)
    if form is None:
        return NO_WORKSPACE
    heads, kv_heads, width, packed = form
    batch, positions, _ = query.input(0).shape
    dtype = query.input(0).dtype
    row = batch * positions * width * element_bytes(dtype)
    queries, keys = align(row * heads), align(row * kv_heads)
    rotary = query.node.integer("do_rotary", 0) != 0
    unpacks = packed and dtype in FLOATS
    transposes = (positions != 1 or packed or rotary) and not (packed and positions == 1)
    past = query.input(3)
    current = positions if packed else query.input(1).shape[1]
    capacity = max(past.shape[2] if past.present and len(past.shape) == 4 else 0, current)
    scored = dtype is ElementType.FLOAT and not (positions == 1 and 1 <= width <= 512)
    scores = max(batch * heads * positions * capacity, 1) * 4
    regions = packed_regions(
        [
            ("packed queries", queries if unpacks else 0),
            ("packed keys", keys if unpacks else 0),
            ("packed values", keys if unpacks else 0),
            ("transposed queries", queries if transposes else 0),
            ("transposed output", queries if positions > 1 else 0),
            ("scores", scores if scored else 0),
        ]
    )
    return answer("grouped attention 3.4", regions, _end(regions), Lifetime.SESSION_PERSISTENT)


def _grouped_form(query: WorkspaceQuery) -> tuple[int, int, int, bool] | None:
    """H, Hkv, D, packed; None where the metadata is unusable."""
    heads, kv_heads = query.node.integer("num_heads", 0), query.node.integer("kv_num_heads", 0)
    shape = query.input(0).shape
    packed = not query.input(1).present and not query.input(2).present
    parts = heads + 2 * kv_heads if packed else heads
    if len(shape) != 3 or heads <= 0 or kv_heads <= 0 or shape[2] == 0 or shape[2] % parts:
        return None
    if not packed and len(query.input(1).shape) < 2:
        return None
    return heads, kv_heads, shape[2] // parts, packed


# ---- BlockQuantizedMoE (3.7) and IndexShare (3.8)


def mixture(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Routing, hidden and output rows of the selected experts.

    Raises:
        ModelGraphError: fused SwiGLU with an odd first projection.
    """
    source, router, first = query.input(0), query.input(1), query.input(2)
    rows = prod(source.shape[:-1])
    count = query.node.integer("k", 1)
    usable = len(source.shape) in (2, 3) and len(router.shape) == 2 and len(first.shape) == 4
    if not usable or router.shape[0] != rows or not 0 < count <= first.shape[0]:
        return NO_WORKSPACE
    hidden = source.shape[-1]
    if rows == 0 or hidden == 0:
        return NO_WORKSPACE
    inner = _inner(query.node, first.shape[1])
    routed = rows * count
    regions = packed_regions(
        [
            ("routed rows", 4 * routed),
            ("routed weights", 4 * routed),
            ("first projection", 4 * routed * first.shape[1]),
            ("gate projection", 4 * routed * inner if query.input(6).present else 0),
            ("activation", 4 * routed * inner),
            ("second projection", 4 * routed * hidden),
        ]
    )
    return answer("block-quantized mixture 3.7", regions, _end(regions), Lifetime.SESSION_PERSISTENT)


def _inner(node: Node, width: int) -> int:
    if node.integer("swiglu_fusion", 0) == 0:
        return width
    if width % 2:
        raise ModelGraphError(
            node.qualified,
            f"fused SwiGLU needs an even width, not {width}",
            "Export the model again",
            node.name,
        )
    return width // 2


def index_share(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Present scratch unless three outputs, selected scores, valid lengths; rounded up to 256."""
    first, key, chosen = query.input(0), query.input(1), query.input(5)
    if not len(first.shape) == len(key.shape) == len(chosen.shape) == 4 or first.dtype not in FLOATS:
        return NO_WORKSPACE
    batch, heads, queries, width = first.shape
    past = query.input(3).shape[2] if query.input(3).present else 0
    size = element_bytes(first.dtype)
    present = max(batch * key.shape[1] * (past + key.shape[2]) * width * size, 1)
    regions = packed_regions(
        [
            ("present keys", 0 if query.outputs == 3 else present),
            ("present values", 0 if query.outputs == 3 else present),
            ("scores", max(batch * heads * queries * chosen.shape[3] * 4, 1)),
            ("valid lengths", max(2 * batch * 8, 1) if query.input(6).present else 0),
        ]
    )
    return answer("index share 3.8", regions, align(_end(regions)), Lifetime.SESSION_PERSISTENT)

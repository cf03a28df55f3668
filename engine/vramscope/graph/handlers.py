"""Shapes of the operators that the inference library lacks or knows too little about.

Each rule has the library's own signature, (context, node), and stands in one table that the driver asks
before the library's registry: nothing is registered anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir
from onnx_shape_inference import registry

from vramscope.graph.unsettled import UNSETTLED_RULES, Rule, by_library
from vramscope.graph.walk import bodies_of, domain_of, input_of, integer_attribute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx_shape_inference import ShapeInferenceContext

Extent: TypeAlias = "int | ir.SymbolicDim"

_MICROSOFT = "com.microsoft"
_RUNTIME = "pkg.nxrt"
_DEFAULT_VERSION = 21


def rule_for(node: ir.Node, version: int) -> Rule | None:
    """Our rule for ``node``, else the library's for its operator set version, else None."""
    domain = domain_of(node)
    own = _RULES.get((domain, node.op_type))
    return own if own is not None else registry.get(domain, node.op_type, version=version)


def _dims(node: ir.Node, index: int) -> list[Extent] | None:
    value = input_of(node, index)
    return None if value is None or value.shape is None else list(value.shape)


def _type(node: ir.Node, index: int) -> ir.DataType | None:
    value = input_of(node, index)
    return None if value is None else value.dtype


def _set(
    context: ShapeInferenceContext,
    node: ir.Node,
    index: int,
    dims: Sequence[Extent] | None,
    dtype: ir.DataType | None,
) -> None:
    if index < len(node.outputs) and node.outputs[index].name:
        shape = None if dims is None else ir.Shape(list(dims))
        context.set_shape_and_dtype(node.outputs[index], shape, dtype)


def _like_first(context: ShapeInferenceContext, node: ir.Node) -> None:
    _set(context, node, 0, _dims(node, 0), _type(node, 0))


def _default(name: str) -> Rule:
    """The rule of the default domain's operator ``name``, applied to a contrib operator with its inputs."""

    def infer(context: ShapeInferenceContext, node: ir.Node) -> None:
        rule = registry.get("", name, version=_DEFAULT_VERSION)
        if rule is not None:
            rule(context, node)

    return infer


def _skip_normalization(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Outputs: normalised, mean and inverse deviation [..., 1] in float32, input + skip (operators 2.4)."""
    dims = _dims(node, 0)
    _set(context, node, 0, dims, _type(node, 0))
    _set(context, node, 3, dims, _type(node, 0))
    statistics = None if dims is None else [*dims[:-1], 1]
    for index in (1, 2):
        _set(context, node, index, statistics, ir.DataType.FLOAT)


def _maximum(left: Extent, right: Extent) -> Extent:
    if right in (left, 0):
        return left
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return ir.SymbolicDim(f"Max({left}, {right})")


def _grouped_attention(context: ShapeInferenceContext, node: ir.Node) -> None:
    """The library's rule, then present = [batch, kv heads, max(past extent, total length), head size].

    The operator's present extent is the greater of the two: the past's where one buffer serves as both and
    total_sequence_length (input 6) stays below it, the total where the cache grows. A windowed cache keeps
    its extent (operators 2.1).
    """
    library = registry.get(_MICROSOFT, "GroupQueryAttention", version=1)
    if library is not None:
        library(context, node)
    query, past = _dims(node, 0), _dims(node, 3)
    if query is None or len(query) != 3:
        return
    extent = _present_extent(context, node, query, past)
    heads = integer_attribute(node, "kv_num_heads", 0)
    stored = past[3] if past is not None and len(past) == 4 else None
    size = stored if isinstance(stored, int) else head_size(node) or stored
    if size is None or not heads:
        return
    dtype = _type(node, 3) or _type(node, 0)
    for index in (1, 2):
        _set(context, node, index, [query[0], heads, extent, size], dtype)


def _present_extent(
    context: ShapeInferenceContext, node: ir.Node, query: list[Extent], past: list[Extent] | None
) -> Extent:
    before: Extent = past[2] if past is not None and len(past) == 4 else 0
    if integer_attribute(node, "sliding_window_cache", 0):
        return before
    total = input_of(node, 6)
    known = None if total is None else context.get_symbolic_value(total)
    if known is not None and len(known) == 1:
        return _maximum(before, known[0])
    return query[1] + before


def _paged_attention(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Y [tokens, heads · head size]; outputs 1 and 2 are the caches themselves (operators 2.11)."""
    query, size = _dims(node, 0), head_size(node)
    if query is not None and len(query) == 2:
        width = query[1] if input_of(node, 1) is not None else None
        known = size * integer_attribute(node, "num_heads", 0) if size else width
        if known is not None:
            _set(context, node, 0, [query[0], known], _type(node, 0))
    for index in (1, 2):
        _set(context, node, index, _dims(node, index + 2), _type(node, index + 2))


def head_size(node: ir.Node) -> int | None:
    """Head size of a GroupQueryAttention or PagedAttention by its query's width; None where that is symbolic.

    Packed (no key input): width = (heads + 2·kv heads)·size; else width = heads·size.
    """
    query = _dims(node, 0)
    width = query[-1] if query else None
    heads = integer_attribute(node, "num_heads", 0)
    if input_of(node, 1) is None:
        heads += 2 * integer_attribute(node, "kv_num_heads", 0)
    if not isinstance(width, int) or heads <= 0 or width % heads:
        return None
    return width // heads


def _gather_block_quantized(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Rows of a block-quantised table: data[:axis] + indices + data[axis + 1:], unpacked (operators 2.3)."""
    data, indices = _dims(node, 0), _dims(node, 1)
    if data is None or indices is None or not data:
        return
    axis = integer_attribute(node, "gather_axis", 0) % len(data)
    packed = integer_attribute(node, "quantize_axis", 1) % len(data)
    if _type(node, 0) == ir.DataType.UINT8:
        data[packed] = data[packed] * (8 // integer_attribute(node, "bits", 4))
    _set(context, node, 0, [*data[:axis], *indices, *data[axis + 1 :]], _type(node, 2))


def _float_matmul(context: ShapeInferenceContext, node: ir.Node) -> None:
    """MatMul of quantised inputs whose result is float32."""
    _default("MatMul")(context, node)
    if node.outputs:
        node.outputs[0].dtype = ir.DataType.FLOAT


def _index_share(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Output [B,N,Sq,H]; present = past + current (operators 1.3); the binding decides the form."""
    _like_first(context, node)
    key, past = _dims(node, 1), _dims(node, 3)
    if key is None or len(key) != 4:
        return
    before: Extent = past[2] if past is not None and len(past) == 4 else 0
    for index in (1, 2):
        _set(context, node, index, [key[0], key[1], key[2] + before, key[3]], _type(node, 0))


def _block_matmul(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Y [..., N] (operators 1.4)."""
    dims, width = _dims(node, 0), integer_attribute(node, "N", 0)
    if dims and width:
        _set(context, node, 0, [*dims[:-1], width], _type(node, 0))


def _index_select(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Indices int64 [B, 1, S, top_k] (operators 1.5)."""
    query, count = _dims(node, 0), integer_attribute(node, "top_k", 0)
    if query is not None and len(query) == 4 and count:
        _set(context, node, 0, [query[0], 1, query[1], count], ir.DataType.INT64)


def _sparse_gather(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Rows [B, G, Q, K, D] of a cache (operators 1.5)."""
    cache, indices = _dims(node, 0), _dims(node, 1)
    if cache is not None and indices is not None and len(cache) == 4 and len(indices) == 4:
        _set(context, node, 0, [*indices, cache[3]], _type(node, 0))


def _fused_gemm(context: ShapeInferenceContext, node: ir.Node) -> None:
    _default("Gemm")(context, node)


def known_branch(context: ShapeInferenceContext, node: ir.Node) -> str:
    """The body that an If runs where its condition follows from shapes and constants; empty elsewhere."""
    condition = input_of(node, 0)
    known = None if condition is None else context.get_symbolic_value(condition)
    if known is None and condition is not None:
        tensor = ir.convenience.get_const_tensor(condition)
        known = [int(tensor.numpy().reshape(-1)[0])] if tensor is not None and tensor.size == 1 else None
    if not known or not isinstance(known[0], int):
        return ""
    return "then_branch" if known[0] else "else_branch"


def _forget_one_sided(node: ir.Node) -> None:
    """The library takes the branch it knows: what the other one gives may have another shape, even rank."""
    branches = [graph.outputs for _, graph in bodies_of(node)]
    for output, values in zip(node.outputs, zip(*branches, strict=False), strict=False):
        if any(value.shape is None for value in values):
            output.shape = None


def _if(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Both branches merged, or the only one that can run: the condition is known, or the other cannot."""
    bodies = dict(bodies_of(node))
    body = bodies.get(known_branch(context, node)) or (
        next(iter(bodies.values())) if len(bodies) == 1 else None
    )
    if body is None:
        by_library(context, node)
        _forget_one_sided(node)
        return
    for output, value in zip(node.outputs, body.outputs, strict=False):
        output.type = value.type
        output.shape = value.shape


def _sequence_construct(context: ShapeInferenceContext, node: ir.Node) -> None:
    """A sequence has its tensors' shape where that is the same for all."""
    by_library(context, node)
    found = [_dims(node, index) for index in range(len(node.inputs))]
    first = found[0] if found else None
    if first is not None and all(dims == first for dims in found):
        node.outputs[0].shape = ir.Shape(first)


def _sequence_at(context: ShapeInferenceContext, node: ir.Node) -> None:
    """A tensor of a sequence, of the shape that all of its tensors have."""
    by_library(context, node)
    dims = _dims(node, 0)
    if dims is not None:
        node.outputs[0].shape = ir.Shape(dims)


_RULES: Mapping[tuple[str, str], Rule] = {
    **UNSETTLED_RULES,
    ("", "SequenceConstruct"): _sequence_construct,
    ("", "SequenceAt"): _sequence_at,
    ("", "If"): _if,
    (_MICROSOFT, "GroupQueryAttention"): _grouped_attention,
    (_MICROSOFT, "PagedAttention"): _paged_attention,
    (_MICROSOFT, "SkipSimplifiedLayerNormalization"): _skip_normalization,
    (_MICROSOFT, "SkipLayerNormalization"): _skip_normalization,
    (_MICROSOFT, "GatherBlockQuantized"): _gather_block_quantized,
    (_MICROSOFT, "FusedMatMulBias"): _default("MatMul"),
    (_MICROSOFT, "FusedMatMulActivation"): _default("MatMul"),
    (_MICROSOFT, "FusedGemm"): _fused_gemm,
    (_MICROSOFT, "FusedConv"): _default("Conv"),
    (_MICROSOFT, "DynamicQuantizeMatMul"): _float_matmul,
    (_MICROSOFT, "MatMulIntegerToFloat"): _float_matmul,
    (_MICROSOFT, "QuantizeLinear"): _default("QuantizeLinear"),
    (_MICROSOFT, "DequantizeLinear"): _default("DequantizeLinear"),
    (_MICROSOFT, "BiasSoftmax"): _like_first,
    (_MICROSOFT, "Inverse"): _like_first,
    (_MICROSOFT, "Trilu"): _like_first,
    (_RUNTIME, "BlockQuantizedMoE"): _like_first,
    (_RUNTIME, "CompressedSparseAttention"): _like_first,
    (_RUNTIME, "VarlenAttention"): _like_first,
    (_RUNTIME, "PackedVarlenAttention"): _like_first,
    (_RUNTIME, "IndexShare"): _index_share,
    (_RUNTIME, "BlockQuantizedMatMul"): _block_matmul,
    (_RUNTIME, "DsaIndexSelect"): _index_select,
    (_RUNTIME, "SparseKvGather"): _sparse_gather,
}

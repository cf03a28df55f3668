"""Scratch that VRAMScope's own CUDA kernels take: one arithmetic, for planning and for launching."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import numpy_dtype
from vramscope.ops.cuda_mixture import cuda_mixture_workspace
from vramscope.ops.kernels.attention_form import attention_form
from vramscope.ops.kernels.grouped_form import grouped_form
from vramscope.ops.kernels.mixture import MIXTURES
from vramscope.ops.kernels.multihead import head_form
from vramscope.ops.kernels.paged_form import SHAPED_INPUTS, paged_form
from vramscope.ops.kernels.planned import lay_out
from vramscope.ops.kernels.projection import projected_form
from vramscope.ops.spec import NO_WORKSPACE, Lifetime, WorkspaceRequirement
from vramscope.units import ALIGNMENT, align

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.ops.kernels.multihead_core import HeadForm
    from vramscope.ops.kernels.paged_form import PagedForm
    from vramscope.ops.spec import Workspace, WorkspaceQuery

FEW_ROWS = 8
"""Activation rows up to which a product is computed row by row from the packed weight."""
DENSE_BYTES = 72 * 2**20
"""A packed weight is unpacked in parts of about this size at most for products with more rows."""
LIBRARY_BYTES = 16 * 2**20
"""Workspace that cuBLASLt may use for one product at most."""
LIBRARY_SPLITS = 8
"""Float32 partial results of a product that its workspace holds at most."""
MATRIX_TILE = 128
"""Rows and columns of one block of the matrix units' kernel."""
SPLIT_KEYS = 64
"""Keys that one block of a split attention takes at least."""
MOST_SPLITS = 32
"""Blocks that share the keys of one row at most."""


def dense_columns(columns: int, depth: int, itemsize: int) -> int:
    """Weight columns that are unpacked at once: all, or equal parts in whole tiles of the matrix units."""
    parts = -(-columns * depth * itemsize // DENSE_BYTES)
    if parts <= 1:
        return max(1, columns)
    return min(columns, align(-(-columns // parts), MATRIX_TILE))


def library_room(rows: int, columns: int, batch: int = 1) -> int:
    """Workspace for cuBLASLt: partial results of a split depth; none for a few rows, which have own kernels.

    The same with the library and without: a plan does not know whether it is installed.
    """
    if rows <= FEW_ROWS:
        return 0
    return align(min(LIBRARY_BYTES, 4 * LIBRARY_SPLITS * rows * columns * batch))


def matmul_room(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Workspace of a MatMul: rows of every batch entry count together where one matrix serves them all."""
    if min(len(left), len(right)) < 2:
        return 0
    if len(right) == 2:
        return library_room(prod(left[:-1]), right[1])
    batch = max(prod(left[:-2]), prod(right[:-2]))
    return library_room(left[-2], right[-1], batch)


def splits_of(keys: int) -> int:
    """Blocks that share the keys of one query row: fixed by the cache's capacity, not by its filling."""
    return max(1, min(MOST_SPLITS, -(-keys // SPLIT_KEYS)))


def partial_bytes(rows: int, splits: int, width: int) -> int:
    """Partial results of a split attention: maximum, sum and ``width`` numbers a row and split, float32."""
    return 0 if splits == 1 else 4 * rows * splits * (width + 2)


def matmul_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """What cuBLASLt may use."""
    return _requirement("cuda-matmul", matmul_room(query.input(0).shape, query.input(1).shape))


def gemm_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """What cuBLASLt may use."""
    turned = query.node.integer("transA", 0) != 0, query.node.integer("transB", 0) != 0
    rows, columns = query.input(0).shape[int(turned[0])], query.input(1).shape[int(not turned[1])]
    return _requirement("cuda-gemm", library_room(rows, columns))


def nbits_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """A dense part of the weight and what cuBLASLt may use, for more than a few activation rows or groups."""
    activation = query.input(0)
    rows, depth = prod(activation.shape[:-1]), query.node.integer("K", 0)
    if rows <= FEW_ROWS and not query.input(4).present:
        return NO_WORKSPACE
    itemsize = numpy_dtype(activation.dtype).itemsize
    columns = dense_columns(query.node.integer("N", 0), depth, itemsize)
    room = library_room(rows, columns)
    return _requirement("cuda-nbits-dense", align(columns * depth * itemsize) + room)


def grouped_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Partial results of a split decode; the window of a sliding cache; rows that no present takes."""
    shapes = [item.shape if item.present else None for item in map(query.input, range(5))]
    form = grouped_form(query.node, shapes)
    cache = query.input(3) if query.input(3).present else query.input(0)
    item = numpy_dtype(cache.dtype).itemsize
    keys = form.past + form.positions
    window = 0
    if form.sliding or query.outputs < 3:
        window = 2 * align(form.batch * form.kv_heads * keys * form.stored_width * item)
    partial = 0
    if form.positions == 1:
        partial = partial_bytes(form.batch * form.heads, splits_of(max(form.past, keys)), form.width)
    return _requirement("cuda-grouped-attention", window + align(partial))


def attention_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Valid lengths read out of a mask, partial results of a split decode, past and new rows together."""
    shapes = [item.shape if item.present else None for item in map(query.input, range(6))]
    form = attention_form(query.node, shapes)
    item = numpy_dtype(query.input(0).dtype).itemsize
    keys = form.past + form.keys
    partial = partial_bytes(form.batch * form.heads, splits_of(keys), form.width) if form.queries == 1 else 0
    joined = 0
    if query.input(4).present and query.outputs < 3:
        joined = 2 * align(form.batch * form.kv_heads * keys * form.width * item)
    return _requirement("cuda-attention", align(8 * form.batch) + align(partial) + joined)


def paged_splits(form: PagedForm) -> int:
    """Blocks that share a token's keys; 0 where tokens of a sequence are attended to in tiles."""
    return 0 if form.tokens > form.batch else splits_of(form.capacity)


def paged_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Partial results of a split decode, one row a token."""
    shapes = [item.shape if item.present else None for item in map(query.input, range(SHAPED_INPUTS))]
    form = paged_form(query.node, shapes)
    splits = paged_splits(form)
    size = partial_bytes(form.tokens * form.heads, splits, form.width) if splits else 0
    return _requirement("cuda-paged-attention", align(size))


def mask_extents(form: HeadForm, mask: tuple[int, ...], bias: tuple[int, ...] | None) -> tuple[int, int, int]:
    """Entries, heads and rows of the one additive mask that a key mask and a score bias become."""
    heads = bias[1] if bias is not None else 1
    rows = form.queries if bias is not None or len(mask) > 2 else 1
    return form.batch, heads, rows


def _mask_bytes(query: WorkspaceQuery, form: HeadForm, index: int, total: int) -> int:
    """Of the additive mask; nothing without a key mask, which is input ``index``."""
    mask, bias = query.input(index), query.input(5)
    if not mask.present:
        return 0
    extents = mask_extents(form, mask.shape, bias.shape if bias.present else None)
    return prod(extents) * total * numpy_dtype(query.input(0).dtype).itemsize


def projected_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """The projection; rows that no present takes; the additive mask; partial results; cuBLASLt's own."""
    past = query.input(4)
    shape = past.shape if past.present else None
    form = projected_form(query.node, query.input(0).shape, query.input(1).shape, shape)
    heads, item = form.heads, numpy_dtype(query.input(0).dtype).itemsize
    total = heads.past + heads.keys
    joined = heads.batch * heads.heads * total * item if past.present and query.outputs < 2 else 0
    partial = partial_bytes(heads.batch * heads.heads, splits_of(total), heads.width)
    sizes = {
        "projection": form.rows * form.width * item,
        "keys": joined * heads.width,
        "values": joined * heads.value_width,
        "mask": _mask_bytes(query, heads, 3, total),
        "partial": partial if heads.queries == 1 else 0,
        "product": library_room(form.rows, form.width),
    }
    return lay_out("cuda-projected-attention", sizes, Lifetime.STEP_SCOPED)


def multi_head_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Biased queries; rows that no present takes; the additive mask; partial results of one query row."""
    form = head_form(
        query.node, [item.shape if item.present else None for item in map(query.input, range(8))]
    )
    item = numpy_dtype(query.input(0).dtype).itemsize
    biased, total = query.input(3).present, form.past + form.keys
    joined = query.outputs < 3 and (biased or query.input(6).present)
    rows = form.batch * form.heads * item
    partial = partial_bytes(form.batch * form.heads, splits_of(total), form.width)
    sizes = {
        "queries": rows * form.queries * form.width if biased else 0,
        "keys": rows * total * form.width if joined else 0,
        "values": rows * total * form.value_width if joined else 0,
        "mask": _mask_bytes(query, form, 4, total),
        "partial": partial if form.queries == 1 else 0,
    }
    return lay_out("cuda-multi-head", sizes, Lifetime.STEP_SCOPED)


def index_share_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Valid rows of every entry, where the bias says them."""
    biased = query.input(3).present and query.input(6).present
    return lay_out(
        "cuda-index-share", {"valid": 4 * query.input(0).shape[0] if biased else 0}, Lifetime.STEP_SCOPED
    )


def _requirement(formula: str, size: int) -> WorkspaceRequirement:
    if size == 0:
        return NO_WORKSPACE
    return WorkspaceRequirement(size, ALIGNMENT, Lifetime.STEP_SCOPED, formula)


CUDA_WORKSPACE: Mapping[tuple[str, str], Workspace] = MappingProxyType(
    {
        ("", "MatMul"): matmul_workspace,
        ("", "Gemm"): gemm_workspace,
        ("com.microsoft", "MatMulNBits"): nbits_workspace,
        ("com.microsoft", "GroupQueryAttention"): grouped_workspace,
        ("com.microsoft", "PagedAttention"): paged_workspace,
        ("", "Attention"): attention_workspace,
        ("com.microsoft", "MultiHeadAttention"): multi_head_workspace,
        ("com.microsoft", "Attention"): projected_workspace,
        ("pkg.nxrt", "IndexShare"): index_share_workspace,
        **dict.fromkeys(MIXTURES, cuda_mixture_workspace),
    }
)
"""Who says how much scratch an operator's CUDA kernels take; operators that are not here take none."""

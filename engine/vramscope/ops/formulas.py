"""Reference CUDA scratch of every planned operator: matrix products, reductions, and the one table of all.

These are the bytes that *other* runtimes reserve; what our own kernels take is :attr:`OpSpec.workspace`.
cuBLASLt's and cuDNN's own figures are known on the device alone: without a probe they are given as a bound,
and the formula's name says "unknown here".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from vramscope.graph.dtypes import ElementType
from vramscope.ops.formulas_attention import (
    FLOATS,
    GEMM_AREA,
    attention,
    contrib_attention,
    grouped,
    index_share,
    mixture,
)
from vramscope.ops.spec import NO_WORKSPACE, Lifetime, WorkspaceQuery, WorkspaceRequirement
from vramscope.units import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.ops.spec import Workspace

UNKNOWN_PRODUCT = "cublaslt-heuristic (unknown here)"
UNKNOWN_PLAN = "cudnn-plan (unknown here)"
DENSE_WEIGHT_LIMIT = 1 << 30
"""MatMulNBits unpacks its weight to float16 for a long prompt only up to this many bytes."""


@dataclass(frozen=True, slots=True)
class Product:
    """One matrix product as cuBLASLt is asked about it: ``batch`` times M×K by K×N."""

    m: int
    k: int
    n: int
    dtype: ElementType
    batch: int = 1
    epilogue: bool = False


Heuristic: TypeAlias = Callable[[Product], int]
PlanBytes: TypeAlias = Callable[[WorkspaceQuery], int]


@dataclass(frozen=True, slots=True)
class ReferenceDevice:
    """What the formulas need to know of the card; None: not known.

    Attributes:
        heuristic: bytes that cuBLASLt picks for a product under the 32 MiB cap.
        plan: bytes of the cuDNN plan of a convolution or a reduction.
        multiprocessors: the card's SM count.
        compute_major: major compute capability.
        dense_prompts: MatMulNBits unpacks float16 weights for prompts of 8 rows and more.
    """

    heuristic: Heuristic | None = None
    plan: PlanBytes | None = None
    multiprocessors: int | None = None
    compute_major: int = 8
    dense_prompts: bool = True


UNKNOWN_DEVICE = ReferenceDevice()


def _products(products: list[Product], device: ReferenceDevice) -> WorkspaceRequirement:
    """The largest scratch of any of the products; all of them share one slot (3.1)."""
    asked = [item for item in products if item.m and item.k and item.n and item.batch]
    if not asked:
        return NO_WORKSPACE
    if device.heuristic is None:
        return WorkspaceRequirement(GEMM_AREA, ALIGNMENT, Lifetime.SESSION_PERSISTENT, UNKNOWN_PRODUCT)
    return _persistent(max(map(device.heuristic, asked)), "cublaslt-heuristic 3.1")


def _persistent(size: int, formula: str) -> WorkspaceRequirement:
    if size == 0:
        return NO_WORKSPACE
    return WorkspaceRequirement(size, ALIGNMENT, Lifetime.SESSION_PERSISTENT, formula)


def _present(query: WorkspaceQuery) -> int:
    return sum(item.present for item in query.inputs)


# ---- matrix products (3.1)


def matmul(query: WorkspaceQuery, device: ReferenceDevice = UNKNOWN_DEVICE) -> WorkspaceRequirement:
    """NONE for the dense matrix-vector product of one float16 or float32 row; else cuBLASLt's figure."""
    first, second = query.input(0), query.input(1)
    if _present(query) != 2 or first.dtype is not second.dtype or not first.shape or not second.shape:
        return NO_WORKSPACE
    if first.dtype not in (*FLOATS, ElementType.DOUBLE):
        return NO_WORKSPACE
    product, runs = _matmul_product(first.shape, second.shape, first.dtype)
    single = product.m == 1 and product.k > 0 and product.n > 0 and product.batch * runs == 1
    if single and first.dtype in (ElementType.FLOAT, ElementType.FLOAT16):
        return NO_WORKSPACE
    return _products([product] if runs else [], device)


def _matmul_product(
    first: tuple[int, ...], second: tuple[int, ...], dtype: ElementType
) -> tuple[Product, int]:
    """One batch run of a broadcast product, and how many runs of this length there are."""
    left = first if len(first) > 1 else (1, *first)
    right = second if len(second) > 1 else (*second, 1)
    run, runs = batch_runs(left[:-2], right[:-2])
    return Product(left[-2], left[-1], right[-1], dtype, run), runs


def batch_runs(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, int]:
    """Batches in one run and the number of runs; in a run both operands advance by constant strides.

    A broadcast axis advances its operand by 0. Neighbouring axes belong to one run when, for both operands,
    the outer one continues where the inner one ends.
    """
    rank = max(len(first), len(second))
    left = (1,) * (rank - len(first)) + first
    right = (1,) * (rank - len(second)) + second
    extents = [b if a == 1 else a for a, b in zip(left, right, strict=True)]
    axes = [
        (extent, one, two)
        for extent, one, two in zip(extents, _steps(left, extents), _steps(right, extents), strict=True)
        if extent != 1
    ]
    run = 1
    while axes:
        extent, one, two = axes.pop()
        run *= extent
        if not axes or axes[-1][1:] != (one * extent, two * extent):
            break
    return run, prod(extent for extent, _, _ in axes)


def _steps(shape: tuple[int, ...], extents: list[int]) -> list[int]:
    """How many matrices each axis advances an operand; 0 along a broadcast one."""
    steps: list[int] = []
    step = 1
    for extent, whole in zip(reversed(shape), reversed(extents), strict=True):
        steps.append(0 if extent == 1 and whole != 1 else step)
        step *= extent
    return steps[::-1]


def gemm(query: WorkspaceQuery, device: ReferenceDevice = UNKNOWN_DEVICE) -> WorkspaceRequirement:
    """Float32 A and B; the bias is added by a kernel of its own."""
    first, second = query.input(0), query.input(1)
    floats = first.dtype is ElementType.FLOAT and second.dtype is ElementType.FLOAT
    if _present(query) not in (2, 3) or not floats or len(first.shape) != 2 or len(second.shape) != 2:
        return NO_WORKSPACE
    rows, depth = first.shape[::-1] if query.node.integer("transA", 0) else first.shape
    columns = second.shape[0] if query.node.integer("transB", 0) else second.shape[1]
    return _products([Product(rows, depth, columns, first.dtype)], device)


def biased(query: WorkspaceQuery, device: ReferenceDevice = UNKNOWN_DEVICE) -> WorkspaceRequirement:
    """FusedMatMulBias and FusedGemm: three inputs, a bias of exactly [N], asked for with the epilogue."""
    first, second, bias = query.input(0), query.input(1), query.input(2)
    if _present(query) != 3 or not first.shape or not second.shape or first.dtype not in FLOATS:
        return NO_WORKSPACE
    product, runs = _matmul_product(first.shape, second.shape, first.dtype)
    if bias.shape != (product.n,) or not runs:
        return NO_WORKSPACE
    asked = Product(product.m, product.k, product.n, product.dtype, product.batch, epilogue=True)
    return _products([asked], device)


def matmul_nbits(query: WorkspaceQuery, device: ReferenceDevice = UNKNOWN_DEVICE) -> WorkspaceRequirement:
    """MatMulNBits: cuBLASLt's figure for the products that unpack the weight first, else NONE."""
    source, node = query.input(0), query.node
    depth, columns = node.integer("K", 0), node.integer("N", 0)
    if not source.shape or source.shape[-1] != depth:
        return NO_WORKSPACE
    rows = prod(source.shape[:-1])
    grouped_indices, bias = query.input(4).present, query.input(5).present
    if source.dtype is ElementType.FLOAT:
        integers = (node.integer("bits", 4), node.integer("accuracy_level", 0), node.integer("block_size", 0))
        if not grouped_indices and (rows == 1 or integers == (4, 4, 32)):
            return NO_WORKSPACE
        return _products([Product(rows, depth, columns, source.dtype, epilogue=bias)], device)
    dense = device.dense_prompts and rows >= 8 and depth * columns * 2 <= DENSE_WEIGHT_LIMIT
    if source.dtype not in FLOATS or grouped_indices or not dense:
        return NO_WORKSPACE
    plain = Product(rows, depth, columns, source.dtype)
    return _products([plain, Product(rows, depth, columns, source.dtype, epilogue=True)], device)


# ---- convolution and reductions (3.5, 3.6)


def convolution(query: WorkspaceQuery, device: ReferenceDevice = UNKNOWN_DEVICE) -> WorkspaceRequirement:
    """The bytes of the cuDNN plan; NONE without X or W, for rank 3, or for mixed or integer types."""
    given = [item for item in (query.input(0), query.input(1), query.input(2)) if item.present]
    if not query.input(0).present or not query.input(1).present:
        return NO_WORKSPACE
    kinds = {item.dtype for item in given}
    floats = kinds <= {*FLOATS, ElementType.DOUBLE}
    if len(kinds) != 1 or not floats or 3 in (len(query.input(0).shape), len(query.input(1).shape)):
        return NO_WORKSPACE
    return _plan(query, device)


def _plan(query: WorkspaceQuery, device: ReferenceDevice) -> WorkspaceRequirement:
    """CuDNN's figure. Where it is unknown the 32 MiB that other runtimes start from stand for it."""
    if device.plan is None:
        return WorkspaceRequirement(GEMM_AREA, ALIGNMENT, Lifetime.SESSION_PERSISTENT, UNKNOWN_PLAN)
    return _persistent(device.plan(query), "cudnn-plan 3.5")


def reduction(query: WorkspaceQuery, device: ReferenceDevice = UNKNOWN_DEVICE) -> WorkspaceRequirement:
    """ReduceSum and ReduceMean: cuDNN's figure where the block kernel does not run.

    Axes come from the attribute or a constant input; an unknown axes input counts as a full reduction.
    """
    shape = query.input(0).shape
    axes = _reduced_axes(query)
    if query.input(0).dtype is not ElementType.FLOAT or not shape or not axes:
        return NO_WORKSPACE
    reduced = prod(shape[axis] for axis in axes)
    kept = prod(extent for axis, extent in enumerate(shape) if axis not in axes)
    many = device.multiprocessors is not None and kept >= device.multiprocessors
    if many or reduced <= 256 or kept == 0:
        return NO_WORKSPACE
    return _plan(query, device)


def _reduced_axes(query: WorkspaceQuery) -> set[int]:
    rank = len(query.input(0).shape)
    given = query.node.integers("axes")
    constant = query.input(1).constant
    if constant is not None:
        given = tuple(int(item) for item in constant.reshape(-1).tolist())
    if given:
        return {axis % rank for axis in given} if rank else set()
    return set() if query.node.integer("noop_with_empty_axes", 0) else set(range(rank))


# ---- the table


def reference_table(device: ReferenceDevice = UNKNOWN_DEVICE) -> Mapping[tuple[str, str], Workspace]:
    """The reference estimators by (domain, operator) for one card."""
    contrib = "com.microsoft"
    return MappingProxyType(
        {
            ("", "MatMul"): partial(matmul, device=device),
            ("", "Gemm"): partial(gemm, device=device),
            ("", "Attention"): attention,
            ("", "Conv"): partial(convolution, device=device),
            ("", "ReduceSum"): partial(reduction, device=device),
            ("", "ReduceMean"): partial(reduction, device=device),
            (contrib, "Attention"): partial(contrib_attention, compute_major=device.compute_major),
            (contrib, "GroupQueryAttention"): grouped,
            (contrib, "MatMulNBits"): partial(matmul_nbits, device=device),
            (contrib, "FusedMatMulBias"): partial(biased, device=device),
            (contrib, "FusedGemm"): partial(biased, device=device),
            ("pkg.nxrt", "BlockQuantizedMoE"): mixture,
            ("pkg.nxrt", "IndexShare"): index_share,
        }
    )


REFERENCE_WORKSPACE: Mapping[tuple[str, str], Workspace] = reference_table()
"""The estimators for a card of which nothing is known."""

"""Host kernels: dense matrix products: MatMul, Gemm and the fused forms."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType, bit_width
from vramscope.ops.kernels.functors import functor
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.kernels.products import (
    HalfScratch,
    half_geometry,
    multiply_halves,
    product_operands,
    product_shape,
)
from vramscope.ops.kernels.widening import is_half, widen
from vramscope.ops.spec import NO_WORKSPACE, OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call, Tensor
    from vramscope.ops.kernels.products import Epilogue, Index
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

_HALF_TYPES = (ElementType.FLOAT16, ElementType.BFLOAT16)


@dataclass(frozen=True, slots=True)
class _Fusion:
    """What one row of this family adds to the bare product, read from the node."""

    flip_left: bool = False
    flip_right: bool = False
    batch_left: bool = False
    batch_right: bool = False
    alpha: float = 1.0
    beta: float = 1.0
    activation: str = ""


def _fusion(node: Node) -> _Fusion:
    """The attributes that matter to ``node``'s operator; FusedGemm without attributes is Relu(AB + bias)."""
    if node.operator in ("MatMul", "FusedMatMulBias"):
        return _Fusion()
    if node.operator == "FusedGemm" and "activation" not in node.attributes:
        return _bare_fused_gemm(node)
    return _Fusion(
        flip_left=bool(node.integer("transA", 0)),
        flip_right=bool(node.integer("transB", 0)),
        batch_left=bool(node.integer("transBatchA", 0)),
        batch_right=bool(node.integer("transBatchB", 0)),
        alpha=node.number("alpha", 1.0),
        beta=node.number("beta", 1.0),
        activation=node.text("activation", ""),
    )


def _bare_fused_gemm(node: Node) -> _Fusion:
    """Relu(AB + bias), whatever the rank; other attributes belong to the form that names its activation."""
    if node.attributes:
        raise ModelGraphError(
            f"operator {node.qualified}",
            f"it has {', '.join(sorted(node.attributes))} but no activation",
            "Give it the attribute activation, or none at all for Relu(A·B + bias)",
            node.name,
        )
    return _Fusion(activation="Relu")


def _operand_shape(shape: tuple[int, ...], *, flip: bool, batch: bool) -> tuple[int, ...]:
    """The shape that the product sees: transBatch moves axis 0 before the last, trans swaps the last two."""
    if len(shape) < 2:
        return shape
    if batch:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if flip else shape


def _operand(array: Array, *, flip: bool, batch: bool) -> Array:
    """A view of ``array`` in the shape :func:`_operand_shape` says; nothing is copied."""
    if array.ndim < 2:
        return array
    if batch:
        array = np.moveaxis(array, 0, -2)
    return array.swapaxes(-1, -2) if flip else array


def dense_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Scratch of a dense product.

    Half types: widened left rows, one tile of the right operand and its f32 result, as
    :class:`HalfGeometry` says. A bias that is scaled or of a half type: one widened copy. f32: nothing else.
    """
    fusion = _fusion(query.node)
    left, right, bias = query.input(0), query.input(1), query.input(2)
    sizes: dict[str, int] = {}
    half = left.dtype in _HALF_TYPES
    if half:
        shapes = (
            _operand_shape(left.shape, flip=fusion.flip_left, batch=fusion.batch_left),
            _operand_shape(right.shape, flip=fusion.flip_right, batch=fusion.batch_right),
        )
        sizes = half_geometry(*shapes).sizes()
    if bias.present and fusion.beta != 0 and (half or fusion.beta != 1):
        width = 4 if half else bit_width(bias.dtype) // 8
        sizes["bias"] = width * prod(bias.shape)
    return lay_out("host-dense-product", sizes) if sizes else NO_WORKSPACE


def dense_product(call: Call) -> None:
    """``Y = activation(alpha · op(A) @ op(B) + beta · C)``; every operator of this family is a case of it.

    Shapes as ``numpy.matmul``; C broadcasts to Y. Half types accumulate in f32 and round once.
    """
    memo = call.memo
    if isinstance(memo, _Prepared) and memo.inputs is call.inputs and memo.out is call.placed[0]:
        memo.run()
        return
    fusion = _fusion(call.node)
    left = _operand(call.array(0), flip=fusion.flip_left, batch=fusion.batch_left)
    right = _operand(call.array(1), flip=fusion.flip_right, batch=fusion.batch_right)
    out = call.output(0, product_shape(call.node, left.shape, right.shape))
    bias = _scaled_bias(call, fusion, out)
    if is_half(left.dtype):
        _half_product(call, fusion, (left, right, out), bias)
        return
    made = _Prepared(call.inputs, out, product_operands(left, right, out), _epilogue(call.node, fusion, bias))
    if bias is None:
        call.memo = made
    made.run()


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A product whose operands are views in hand: valid while the call's inputs and output are the same."""

    inputs: tuple[Tensor | None, ...]
    out: Array
    operands: tuple[Array, Array, Array]
    epilogue: Epilogue | None

    def run(self) -> None:
        """Multiplies again."""
        left, right, target = self.operands
        np.matmul(left, right, out=target)
        if self.epilogue is not None:
            self.epilogue(self.out, ())


def _half_product(
    call: Call, fusion: _Fusion, arrays: tuple[Array, Array, Array], bias: Array | None
) -> None:
    left, right, out = arrays
    geometry = half_geometry(left.shape, right.shape)
    requirement = dense_workspace(query_of(call))
    parts = [region_of(call, requirement, name, (size // 4,)) for name, size in geometry.sizes().items()]
    if left.ndim == 1:
        left, out = left[np.newaxis], np.expand_dims(out, out.ndim - (right.ndim > 1))
        bias = bias if bias is None or right.ndim == 1 else np.expand_dims(bias, -2)
    if right.ndim == 1:
        right, out = right[:, np.newaxis], out[..., np.newaxis]
        bias = None if bias is None else bias[..., np.newaxis]
    flat = bias is None or bias.strides[:-1] == (0,) * (bias.ndim - 1)
    if right.ndim == 2 and left.ndim > 2 and left.flags.c_contiguous and flat and left.size:
        left, out = left.reshape(-1, left.shape[-1]), out.reshape(-1, right.shape[-1])
        bias = None if bias is None else np.broadcast_to(bias[(0,) * (bias.ndim - 1)], out.shape)
    scratch = HalfScratch(geometry, *parts)
    multiply_halves(left, right, out, scratch, _epilogue(call.node, fusion, bias))


def _epilogue(node: Node, fusion: _Fusion, bias: Array | None) -> Epilogue | None:
    """What follows the product, on blocks of it; ``bias`` has the shape of the whole."""
    if bias is None and fusion.alpha == 1 and not fusion.activation:
        return None
    activation, alpha, beta = functor(fusion.activation or "affine", node.name)
    alpha = node.number("activation_alpha", alpha)
    beta = node.number("activation_beta", beta)

    def finish(block: Array, index: Index) -> None:
        if fusion.alpha != 1:
            np.multiply(block, fusion.alpha, out=block, casting="unsafe")
        if bias is not None:
            np.add(block, bias[index], out=block)
        if fusion.activation:
            activation(block, alpha, beta)

    return finish


def _scaled_bias(call: Call, fusion: _Fusion, out: Array) -> Array | None:
    """C as it is added, broadcast to Y: untouched where the types allow it, else widened and scaled."""
    if not call.has(2) or fusion.beta == 0:
        return None
    bias = call.array(2)
    half = is_half(bias.dtype)
    if half or fusion.beta != 1:
        dtype = np.float32 if half else bias.dtype
        scaled = region_of(call, dense_workspace(query_of(call)), "bias", bias.shape, dtype)
        widen(bias, scaled) if half else np.copyto(scaled, bias)
        np.multiply(scaled, fusion.beta, out=scaled, casting="unsafe")
        bias = scaled
    return np.broadcast_to(bias, out.shape)


SPECS: tuple[OpSpec, ...] = tuple(
    OpSpec(domain, name, dense_product, workspace=dense_workspace)
    for domain, name in (
        ("", "MatMul"),
        ("", "Gemm"),
        ("com.microsoft", "FusedMatMul"),
        ("com.microsoft", "FusedMatMulBias"),
        ("com.microsoft", "FusedGemm"),
        ("pkg.nxrt", "FusedMatMulBias"),
        ("pkg.nxrt", "FusedGemm"),
    )
)

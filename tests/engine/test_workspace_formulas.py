"""The reference workspace formulas: the golden vectors, region layouts, and what is honestly unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from workspace_questions import (
    CONTRIB,
    F16,
    F32,
    I64,
    SP,
    SS,
    U8,
    Shape,
    ask,
    contrib,
    experts,
    group,
    metas,
    shared,
    standard,
)

from vramscope.errors import ModelGraphError, ShapeOverflowError
from vramscope.graph.dtypes import BYTES_LIMIT, ElementType
from vramscope.ops.formulas import (
    REFERENCE_WORKSPACE,
    UNKNOWN_PLAN,
    UNKNOWN_PRODUCT,
    Product,
    ReferenceDevice,
    batch_runs,
)
from vramscope.ops.spec import (
    NO_WORKSPACE,
    Lifetime,
    TensorMeta,
    WorkspaceRequirement,
)

if TYPE_CHECKING:
    from collections.abc import Callable

QWEN = (14, 2, 64)
GOLDEN: dict[str, tuple[Callable[[], WorkspaceRequirement], int, Lifetime]] = {
    "contrib attention f16 B2 H4 sq128 sk96": (lambda: contrib(F16, 2, 4, 128, 96), 33_751_040, SS),
    "contrib attention f16 B1 H8 512x512": (lambda: contrib(F16, 1, 8, 512, 512), 37_748_736, SS),
    "attention f32 prefill 2048": (lambda: standard(F32, (1, 32, 32, 2048, 128)), 536_871_176, SS),
    "attention f16 decode growing": (lambda: standard(F16, (1, 32, 8, 1, 128), 2048), 8_655_368, SP),
    "attention f16 decode capacity": (
        lambda: standard(F16, (1, 32, 8, 1, 128), 2048, mask=2048),
        262_664,
        SP,
    ),
    "attention f16 decode one output": (
        lambda: standard(F16, (1, 32, 8, 1, 128), 2048, outputs=1),
        8_655_368,
        SP,
    ),
    "attention f32 B2 q8 past 128": (lambda: standard(F32, (2, 32, 8, 8, 128), 128), 2_507_024, SS),
    "grouped f32 S8 cap 256": (lambda: group(F32, (4, 2, 64, 8), 256), 49_152, SP),
    "grouped f16 S8 cap 256": (lambda: group(F16, (4, 2, 64, 8), 256), 8_192, SP),
    "grouped f32 S1": (lambda: group(F32, (4, 2, 64, 1), 256), 0, SS),
    "grouped f16 packed S32": (lambda: group(F16, (8, 2, 64, 32), 256, packed=1), 114_688, SP),
    "grouped f32 packed S32": (lambda: group(F32, (8, 2, 64, 32), 256, packed=1), 491_520, SP),
    "grouped f16 unpacked S32": (lambda: group(F16, (8, 2, 64, 32), 256), 65_536, SP),
    "grouped f16 packed S1": (lambda: group(F16, (8, 2, 64, 1), 256, packed=1), 1_536, SP),
    "qwen decode": (lambda: group(F16, (*QWEN, 1), 1024, packed=1, do_rotary=1), 2_304, SP),
    "qwen prefill 512": (lambda: group(F16, (*QWEN, 512), 1024, packed=1, do_rotary=1), 3_014_656, SP),
    "experts 1,1,128,256": (lambda: experts(1, 1, 128, 256), 2_560, SP),
    "experts 17,2,512,1024": (lambda: experts(17, 2, 512, 1024), 279_040, SP),
    "experts 4096,8,2048,6144": (lambda: experts(4096, 8, 2048, 6144), 1_476_657_152, SP),
    "experts no rows": (lambda: experts(0, 1, 128, 256), 0, SS),
    "index share one output": (lambda: shared(1, bias=False), 768, SP),
    "index share three outputs and bias": (lambda: shared(3, bias=True), 512, SP),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_vector(case: str) -> None:
    estimate, size, lifetime = GOLDEN[case]
    need = estimate()
    assert need.bytes == size
    assert need.lifetime is lifetime
    assert need.alignment == (256 if size else 1)
    ends = [region.offset + region.size for region in need.regions]
    starts = [region.offset for region in need.regions]
    assert all(start % 256 == 0 for start in starts)
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert max(ends, default=0) <= need.bytes


def test_scores_come_first() -> None:
    scores = contrib(F16, 2, 4, 128, 96).regions[0]
    assert (scores.name, scores.offset, scores.size) == ("scores", 0, 196_608)
    assert standard(F32, (1, 32, 32, 2048, 128)).regions[0].size == 536_870_912


def fused(width: int, queries: int, keys: int, dtype: ElementType, major: int = 8) -> bool:
    shapes = [(1, 8, length, width) for length in (queries, keys, keys)]
    device = ReferenceDevice(compute_major=major)
    need = ask((CONTRIB, "Attention"), metas(dtype, *shapes), device=device, num_heads=8)
    return need is NO_WORKSPACE


def test_fused_contrib_attention_needs_nothing() -> None:
    assert fused(64, 128, 128, F32)
    assert not fused(64, 1, 128, F32)
    assert not fused(64, 129, 128, F32)
    assert fused(64, 512, 512, F16)
    assert not fused(64, 512, 512, F16, major=6)
    assert not fused(72, 512, 512, F16)
    assert not fused(64, 513, 512, F16)


def test_contrib_attention_saturates_and_the_others_overflow() -> None:
    assert contrib(F16, 2**31, 2**20, 2**20, 2**20).bytes == BYTES_LIMIT
    with pytest.raises(ShapeOverflowError, match="more than any device"):
        standard(F32, (2**20, 2**20, 2**20, 2**20, 64))


def test_unusable_metadata_needs_nothing() -> None:
    assert ask(("", "Attention"), metas(F32, (1, 2, 8), (1, 2, 8), (1, 2, 8))) is NO_WORKSPACE
    assert (
        ask((CONTRIB, "GroupQueryAttention"), metas(F32, (1, 8)), num_heads=2, kv_num_heads=1) is NO_WORKSPACE
    )
    assert ask(("", "MatMul"), (*metas(F32, (2, 3)), *metas(F16, (3, 4)))) is NO_WORKSPACE


def test_odd_fused_width_is_an_error() -> None:
    with pytest.raises(ModelGraphError, match="even width, not 255"):
        experts(1, 1, 128, 255)


# ---- cuBLASLt


def asked(device_bytes: int, asked_for: list[Product]) -> ReferenceDevice:
    def heuristic(product: Product) -> int:
        asked_for.append(product)
        return device_bytes if product.epilogue else device_bytes // 2

    return ReferenceDevice(heuristic=heuristic)


def test_unknown_heuristic_is_a_labelled_bound() -> None:
    need = ask(("", "MatMul"), metas(F32, (4, 8), (8, 16)))
    assert (need.bytes, need.formula, need.lifetime) == (33_554_432, UNKNOWN_PRODUCT, SP)


def test_matrix_vector_product_needs_nothing() -> None:
    assert ask(("", "MatMul"), metas(F32, (1, 1, 8), (8, 16))) is NO_WORKSPACE
    assert ask(("", "MatMul"), metas(F16, (8,), (8, 16))) is NO_WORKSPACE
    assert ask(("", "MatMul"), metas(ElementType.BFLOAT16, (1, 8), (8, 16))).bytes == 33_554_432
    assert ask(("", "MatMul"), metas(F32, (2, 1, 8), (2, 8, 16))).bytes == 33_554_432
    assert ask(("", "MatMul"), metas(F32, (0, 8), (8, 16))) is NO_WORKSPACE


def test_matmul_asks_for_one_batch_run() -> None:
    products: list[Product] = []
    device = asked(96, products)
    need = ask(("", "MatMul"), metas(F32, (2, 3, 4, 8), (3, 8, 16)), device=device)
    assert (need.bytes, need.formula) == (48, "cublaslt-heuristic 3.1")
    assert products == [Product(4, 8, 16, F32, 3)]
    assert ask(("", "MatMul"), metas(F32, (4, 8), (8, 16)), device=asked(0, [])) is NO_WORKSPACE


def test_batch_runs() -> None:
    assert batch_runs((), ()) == (1, 1)
    assert batch_runs((2, 3), (2, 3)) == (6, 1)
    assert batch_runs((2, 3), (3,)) == (3, 2)
    assert batch_runs((2, 3), (1,)) == (6, 1)
    assert batch_runs((2, 1), (2, 3)) == (3, 2)
    assert batch_runs((5, 1, 3), (5, 1, 3)) == (15, 1)


def test_gemm_is_float32_alone() -> None:
    products: list[Product] = []
    device = asked(64, products)
    ask(("", "Gemm"), metas(F32, (8, 4), (16, 8), (16,)), device=device, transA=1, transB=1)
    assert products == [Product(4, 8, 16, F32)]
    assert ask(("", "Gemm"), metas(F16, (4, 8), (8, 16))) is NO_WORKSPACE


@pytest.mark.parametrize("name", ["FusedMatMulBias", "FusedGemm"])
def test_biased_products_need_a_bias_of_the_columns(name: str) -> None:
    products: list[Product] = []
    need = ask((CONTRIB, name), metas(F16, (4, 8), (8, 16), (16,)), device=asked(64, products))
    assert need.bytes == 64
    assert products == [Product(4, 8, 16, F16, epilogue=True)]
    assert ask((CONTRIB, name), metas(F16, (4, 8), (8, 16), (1, 16))) is NO_WORKSPACE
    assert ask((CONTRIB, name), metas(F16, (4, 8), (8, 16))) is NO_WORKSPACE


def nbits(dtype: ElementType, rows: int, extra: Shape = None, **attributes: int) -> WorkspaceRequirement:
    inputs = (*metas(dtype, (1, rows, 64)), *metas(U8, (32, 2, 16)), *metas(dtype, (32, 2), None, extra))
    values = {"K": 64, "N": 32, "bits": 4, "block_size": 32, **attributes}
    return ask((CONTRIB, "MatMulNBits"), inputs, device=asked(64, []), **values)


def test_nbits() -> None:
    assert nbits(F32, 1) is NO_WORKSPACE
    assert nbits(F32, 1, extra=(64,)).bytes == 32
    assert nbits(F32, 2).bytes == 32
    assert nbits(F32, 2, accuracy_level=4) is NO_WORKSPACE
    assert nbits(F32, 2, accuracy_level=4, block_size=64).bytes == 32
    assert nbits(F32, 2, K=32) is NO_WORKSPACE
    assert nbits(F16, 7) is NO_WORKSPACE
    assert nbits(F16, 8).bytes == 64
    assert nbits(F16, 8, extra=(64,)) is NO_WORKSPACE
    assert nbits(F16, 8, N=1 << 24) is NO_WORKSPACE


# ---- cuDNN


def test_convolution() -> None:
    shapes = metas(F32, (1, 3, 8, 8), (4, 3, 3, 3))
    assert ask(("", "Conv"), shapes).formula == UNKNOWN_PLAN
    assert ask(("", "Conv"), shapes, device=ReferenceDevice(plan=lambda _: 4096)).bytes == 4096
    assert ask(("", "Conv"), metas(F32, (1, 3, 8), (4, 3, 3))) is NO_WORKSPACE
    assert ask(("", "Conv"), (*shapes, *metas(F16, (4,)))) is NO_WORKSPACE


def test_reduction() -> None:
    device = ReferenceDevice(plan=lambda _: 512, multiprocessors=108)
    wide = metas(F32, (64, 1024))
    assert ask(("", "ReduceSum"), wide, device=device).bytes == 512
    assert ask(("", "ReduceMean"), wide, device=device, axes=(1,)).bytes == 512
    assert ask(("", "ReduceMean"), metas(F32, (108, 1024)), device=device, axes=(-1,)) is NO_WORKSPACE
    assert ask(("", "ReduceMean"), metas(F32, (64, 256)), device=device, axes=(1,)) is NO_WORKSPACE
    assert ask(("", "ReduceSum"), wide, device=device, noop_with_empty_axes=1) is NO_WORKSPACE
    assert ask(("", "ReduceSum"), metas(F32, ()), device=device) is NO_WORKSPACE
    assert ask(("", "ReduceSum"), metas(F16, (64, 1024)), device=device) is NO_WORKSPACE
    given = (*wide, TensorMeta(I64, (1,), constant=np.array([0])))
    assert ask(("", "ReduceSum"), given, device=device) is NO_WORKSPACE
    assert ask(("", "ReduceSum"), wide).formula == UNKNOWN_PLAN


def test_every_planned_operator_has_an_estimator() -> None:
    assert len(REFERENCE_WORKSPACE) == 13

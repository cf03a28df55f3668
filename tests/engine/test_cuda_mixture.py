"""Mixtures of experts on the CUDA device without a GPU: launches, planned scratch, refused forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda_calls import Bench, meta_of, node
from mixture_truth import block_rows

from vramscope.devices.cuda.table import BUILDERS
from vramscope.devices.cuda.work import NoKernelError, Work
from vramscope.ops.cuda_workspace import CUDA_WORKSPACE
from vramscope.ops.spec import ABSENT_META, WorkspaceQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuda_twin import Twin

    from vramscope.graph.model import Node

CONTRIB, RUNTIME = "com.microsoft", "pkg.nxrt"
HIDDEN, INNER, EXPERTS = 32, 16, 6


def dense(rows: int) -> list[np.ndarray[Any, Any] | None]:
    shapes = ((rows, HIDDEN), (rows, EXPERTS), (EXPERTS, 2 * INNER, HIDDEN), None, (EXPERTS, HIDDEN, INNER))
    return [None if shape is None else np.ones(shape, np.float16) for shape in shapes]


SWIGLU = node("MoE", CONTRIB, k=2, activation_type="swiglu", swiglu_fusion=1)


def run(bench: Bench, operator: Node, given: Sequence[np.ndarray[Any, Any] | None]) -> None:
    first = given[0]
    assert first is not None
    bench.run(operator, given, [(first.shape, first.dtype)])


def test_few_tokens_go_slot_by_slot_and_many_by_expert(made: tuple[Bench, Twin]) -> None:
    bench, twin = made
    run(bench, SWIGLU, dense(3))
    assert [launch.function for launch in twin.launches] == ["route", "first", "second", "combine"]
    assert twin.launches[1].grid == (INNER // 8, 3 * 2, 1)
    twin.launches.clear()
    run(bench, SWIGLU, dense(4))
    assert [launch.function for launch in twin.launches] == ["route", "group", "first", "second", "combine"]
    assert twin.launches[2].grid == (INNER // 8, EXPERTS, 1)
    assert "#define TILE 8" in twin.launches[2].source.text


def test_scratch_is_what_the_plan_says_and_not_a_byte_less() -> None:
    given = dense(5)
    query = WorkspaceQuery(SWIGLU, tuple(ABSENT_META if item is None else meta_of(item) for item in given), 1)
    need = CUDA_WORKSPACE[CONTRIB, "MoE"](query)
    sizes = {region.name: region.size for region in need.regions}
    slots = 5 * 2
    assert sizes == {
        "chosen": 4 * slots,
        "share": 4 * slots,
        "order": 4 * slots,
        "start": 4 * (EXPERTS + 1),
        "hidden": 4 * slots * INNER,
        "part": 4 * slots * HIDDEN,
    }
    assert need.bytes == need.regions[-1].offset + sizes["part"]


@pytest.mark.parametrize(
    ("name", "why"), [("iq3_s", "code book"), ("mxfp4", "")], ids=["with a code book", "without"]
)
def test_formats_with_a_code_book_are_the_hosts(made: tuple[Bench, Twin], name: str, why: str) -> None:
    bench, _ = made
    packed, _ = block_rows(np.random.default_rng(1), name, 8, count=1)
    depth = 256 if name == "iq3_s" else 32
    operator = node("BlockQuantizedMatMul", RUNTIME, K=depth, N=8, format=name)
    call = bench.call(operator, [np.ones((2, depth), np.float32), packed], [((2, 8), np.float32)])
    if why:
        with pytest.raises(NoKernelError, match=why):
            BUILDERS[RUNTIME, "BlockQuantizedMatMul"](Work(call, bench.device))
    else:
        (launch,) = BUILDERS[RUNTIME, "BlockQuantizedMatMul"](Work(call, bench.device))
        assert launch.function == "project"
        assert launch.grid == (1, 1, 1)

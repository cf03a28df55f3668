"""PagedAttention on the CUDA device without a GPU: launches by form, arguments, scratch, refused forms."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda_calls import Bench, meta_of, node
from paged_truth import Paged, inputs_of

from vramscope.devices.cuda.launch import Launch
from vramscope.devices.cuda.table import BUILDERS
from vramscope.devices.cuda.work import NoKernelError, Work
from vramscope.ops.cuda_workspace import CUDA_WORKSPACE, partial_bytes, splits_of
from vramscope.ops.spec import ABSENT_META, WorkspaceQuery
from vramscope.units import align

if TYPE_CHECKING:
    from cuda_twin import Twin

KEY = ("com.microsoft", "PagedAttention")
PREFILL = Paged(past=(0, 3), new=(70, 5), block_size=16, table=8, cosines=8).having(do_rotary=1)
DECODE = replace(PREFILL, past=(9, 100), new=(1, 1))
LONG = replace(DECODE, past=(9, 5000), block_size=64, table=100)


def operator(case: Paged) -> Any:  # noqa: ANN401 - a node
    return node(KEY[1], KEY[0], 1, num_heads=case.heads, kv_num_heads=case.kv_heads, **case.attributes)


def launches(made: tuple[Bench, Twin], case: Paged, kind: Any = np.float16) -> list[Launch]:  # noqa: ANN401 - a type
    bench, twin = made
    twin.launches.clear()
    inputs = inputs_of(case, kind)
    bench.run(operator(case), inputs, [((inputs[0].shape[0], case.heads * case.width), kind), 3, 4])
    return [item for item in twin.launches if isinstance(item, Launch)]


def names(found: list[Launch]) -> list[str]:
    return [item.function for item in found]


def test_a_prompt_is_appended_and_attended_to_in_tiles(made: tuple[Bench, Twin]) -> None:
    append, attend = launches(made, PREFILL)
    assert (append.function, append.grid) == ("append_paged", (75, 2, 1))
    assert (attend.function, attend.grid) == (
        "attend_flash",
        (2, 4, 2),
    )  # tiles for all tokens, heads, sequences
    assert names(launches(made, replace(PREFILL, width=40, cosines=20))) == ["append_paged", "attend_tiled"]
    assert names(launches(made, PREFILL, np.float32)) == ["append_paged", "attend_tiled"]
    assert "#define PAGED 1" in attend.source.text


def test_a_step_is_a_row_a_token_whose_keys_a_cluster_shares(made: tuple[Bench, Twin]) -> None:
    append, attend = launches(made, replace(DECODE, width=64, cosines=32))
    assert (append.function, append.grid) == ("append_paged", (2, 2, 1))
    assert (attend.function, attend.grid, attend.cluster) == ("attend_decode", (1, 2, 2), 1)
    wide = launches(made, replace(DECODE, block_size=64, table=32))[1]
    assert (wide.function, wide.grid, wide.cluster) == ("attend_split", (8, 2, 2), 8)
    many = launches(made, replace(DECODE, heads=32))
    assert names(many) == [
        "append_paged",
        "attend_split",
        "combine",
    ]  # more heads than a block of a cluster takes


def test_a_long_cache_is_shared_by_more_blocks(made: tuple[Bench, Twin]) -> None:
    found = launches(made, LONG)
    assert names(found) == ["append_paged", "attend_split", "combine"]
    assert found[1].grid == (splits_of(6400), 2, 2)
    assert found[2].grid == (4, 2, 1)


def test_the_kernels_get_the_block_table_and_the_lengths(made: tuple[Bench, Twin]) -> None:
    append, attend = launches(made, PREFILL)
    for launch, kind in ((append, 5), (attend, 4)):
        table, width, block, blocks, batch = struct.unpack("<Q4q", launch.arguments[0][-40:])
        assert (width, block, blocks, batch) == (8, 16, PREFILL.blocks, 2)
        assert table
        lengths = 7 * 8 + 9 * 8 if launch is append else 32 * 8
        values = struct.unpack("<qQQ6q", launch.arguments[0][lengths : lengths + 72])
        assert (values[0], values[3], values[4]) == (kind, 75, 128)
        assert values[1] != values[2]


def question(case: Paged) -> WorkspaceQuery:
    metas = [ABSENT_META if item is None else meta_of(item) for item in inputs_of(case, np.float16)]
    return WorkspaceQuery(operator(case), tuple(metas), 3)


def test_scratch_is_for_the_shares_of_single_rows() -> None:
    estimate = CUDA_WORKSPACE[KEY]
    assert estimate(question(PREFILL)).bytes == 0
    assert estimate(question(LONG)).bytes == align(partial_bytes(2 * 4, splits_of(6400), 16))


def build(bench: Bench, case: Paged, **changed: Any) -> None:  # noqa: ANN401 - inputs by number
    inputs = inputs_of(case, np.float16)
    for index, value in changed.items():
        inputs[int(index[1:])] = value
    shape = (inputs[0].shape[0], case.heads * (case.value_width or case.width))
    call = bench.call(operator(case), inputs, [(shape, np.float16), 3, None if case.latent else 4])
    BUILDERS[KEY](Work(call, bench.device))


def test_what_only_the_host_has_is_refused_by_name(made: tuple[Bench, Twin]) -> None:
    bench, _ = made
    latent = Paged(packed=False, kv_heads=1, value_width=8, cosines=4, width=16)
    latent = latent.having(kv_cache_layout="LATENT", v_head_size=8, do_rotary=1)
    with pytest.raises(NoKernelError, match="latent"):
        build(bench, latent)
    with pytest.raises(NoKernelError, match="rotation begins"):
        build(bench, replace(PREFILL, cosines=4).having(rotary_offset=8))
    codes = replace(PREFILL, quantised="PER_TENSOR").having(
        k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR"
    )
    with pytest.raises(NoKernelError, match="quantised"):
        build(bench, codes)
    with pytest.raises(NoKernelError, match="input 5 is int64"):
        build(bench, PREFILL, i5=np.array([0, 70, 75]))
    with pytest.raises(NoKernelError, match="cos and sin"):
        build(bench, PREFILL, i8=np.ones((128, 8), np.float32))
    call = bench.call(operator(PREFILL), inputs_of(PREFILL, np.float16), [((75, 64), np.float16), 3, 3])
    with pytest.raises(NoKernelError, match="in place"):
        BUILDERS[KEY](Work(call, bench.device))

"""PagedAttention on the host against float64: ragged batches, blocks in any order, every attribute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_calls import Operator, run_kernel, workspace_of
from paged_truth import Paged, inputs_of, truth

from vramscope.errors import BindingError, ModelGraphError, UnsupportedOperatorError

Tensors = np.ndarray[Any, Any]
ROTARY = Paged(cosines=8).having(do_rotary=1)
UNPACKED = replace(ROTARY, packed=False)
LATENT = Paged(packed=False, kv_heads=1, value_width=8, cosines=4, width=24).having(
    kv_cache_layout="LATENT", v_head_size=8, scale=0.2, do_rotary=1, rotary_offset=8
)
CASES = {
    "plain": Paged(),
    "rotary": ROTARY,
    "unpacked": UNPACKED,
    "interleaved": ROTARY.having(rotary_interleaved=1),
    "part of the head rotated": replace(ROTARY, cosines=3),
    "rotated from channel 8 on": replace(ROTARY, cosines=4).having(rotary_offset=8),
    "scale": ROTARY.having(scale=0.7),
    "softcap": ROTARY.having(softcap=2.0),
    "window": ROTARY.having(local_window_size=3),
    "not causal": ROTARY.having(is_causal=0),
    "not causal, window": ROTARY.having(is_causal=0, local_window_size=3),
    "sink": replace(ROTARY, sink=True),
    "norms": replace(ROTARY, norms=True).having(qk_norm_epsilon=1e-4),
    "norms without rotary": replace(Paged(), norms=True),
    "one token a sequence": replace(ROTARY, past=(0, 7, 15), new=(1, 1, 1)),
    "one sequence": replace(ROTARY, past=(3,), new=(9,)),
    "a sequence without new tokens": replace(ROTARY, new=(2, 0, 3)),
    "tokens of nobody": replace(ROTARY, trailing=3),
    "slots": replace(ROTARY, slots=True),
    "slots and tokens of nobody": replace(ROTARY, slots=True, trailing=2),
    "a block that is not there": replace(ROTARY, holes=((0, 0), (2, 1))),
    "the last block is not there": replace(ROTARY, holes=((0, 1), (1, 0))),
    "blocks of one position": replace(ROTARY, block_size=1, table=16),
    "one block a sequence": replace(ROTARY, block_size=16, table=1),
    "codes": replace(ROTARY, quantised="PER_TENSOR").having(
        k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", k_cache_dtype="int8"
    ),
    "codes with a scale a channel": replace(ROTARY, quantised="PER_CHANNEL").having(
        k_quant_type="PER_CHANNEL", v_quant_type="PER_CHANNEL"
    ),
    "latent": LATENT,
}


def operator(case: Paged) -> Operator:
    attributes = {"num_heads": case.heads, "kv_num_heads": case.kv_heads, **case.attributes}
    return Operator("PagedAttention", "com.microsoft", 2 if case.latent else 3, attributes=attributes)


def in_place(inputs: list[Any], case: Paged) -> list[Any]:
    """Outputs placed over the pools themselves."""
    return [None, inputs[3]] if case.latent else [None, inputs[3], inputs[4]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_against_float64(name: str, dtype: Any) -> None:  # noqa: ANN401 - any float type
    case = CASES[name]
    inputs = inputs_of(case, dtype)
    expected, pools = truth(case, inputs)
    output, *held = run_kernel(operator(case), inputs, in_place(inputs, case))
    limit = {np.float32: 1e-5, np.float16: 2e-3}.get(dtype, 1e-2)
    error = np.linalg.norm(output.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < limit
    for index, (pool, into) in enumerate(zip(pools, held, strict=True)):
        assert into is inputs[3 + index]
        np.testing.assert_allclose(decoded(case, inputs, 3 + index), pool, rtol=2 * limit, atol=2 * limit)


def decoded(case: Paged, inputs: list[Any], index: int) -> Tensors:
    """A pool in float64."""
    pool: Tensors = inputs[index].astype(np.float64)
    scale = inputs[index + 11]
    return pool if scale is None else pool * (scale if scale.size == 1 else scale.reshape(case.kv_heads, -1))


def test_a_long_sequence_goes_through_the_room_in_parts() -> None:
    case = replace(ROTARY, past=(700, 3), new=(300, 1), block_size=16, table=64)
    inputs = inputs_of(case, np.float16)
    expected, pools = truth(case, inputs)
    output = run_kernel(operator(case), inputs, in_place(inputs, case))[0]
    assert np.linalg.norm(output - expected) / np.linalg.norm(expected) < 2e-3
    np.testing.assert_allclose(inputs[3].astype(np.float64), pools[0], rtol=4e-3, atol=4e-3)


def test_blocks_that_follow_each_other_are_read_where_they_lie() -> None:
    inputs = inputs_of(ROTARY, np.float32)
    inputs[7] = np.arange(inputs[7].size, dtype=np.int32).reshape(inputs[7].shape)
    inputs[3], inputs[4] = (np.nan_to_num(inputs[index]) for index in (3, 4))
    expected, _ = truth(ROTARY, inputs)
    output = run_kernel(operator(ROTARY), inputs, in_place(inputs, ROTARY))[0]
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)


def test_caches_that_are_not_bound_in_place_are_copied_and_the_inputs_stay() -> None:
    inputs = inputs_of(ROTARY, np.float32)
    before = [inputs[index].copy() for index in (3, 4)]
    copies = [np.full_like(inputs[index], 7) for index in (3, 4)]
    run_kernel(operator(ROTARY), inputs, [None, *copies])
    _, pools = truth(ROTARY, inputs)
    for index in (0, 1):
        np.testing.assert_array_equal(inputs[3 + index], before[index])
        np.testing.assert_allclose(copies[index], pools[index], rtol=1e-4, atol=1e-5)


def test_a_cache_that_nobody_asks_for_is_written_where_it_is() -> None:
    inputs = inputs_of(ROTARY, np.float32)
    expected, pools = truth(ROTARY, inputs)
    output = run_kernel(operator(ROTARY).giving(1), inputs)[0]
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(inputs[3], pools[0], rtol=1e-4, atol=1e-5)


def test_the_workspace_grows_with_the_block_table_and_not_with_the_lengths() -> None:
    inputs = inputs_of(ROTARY, np.float16)
    one = workspace_of(operator(ROTARY), inputs).bytes
    inputs[6] = np.array([0, 0, 0], np.int32)
    assert workspace_of(operator(ROTARY), inputs).bytes == one
    wide = replace(ROTARY, table=400)
    assert workspace_of(operator(wide), inputs_of(wide, np.float16)).bytes > one


def changed(index: int, value: object) -> list[Any]:
    inputs = inputs_of(ROTARY, np.float32)
    inputs[index] = value
    return inputs


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (changed(5, np.array([0, 3, 2, 7], np.int32)), "start"),
        (changed(5, np.array([1, 2, 3, 7], np.int32)), "start"),
        (changed(5, np.array([0, 1, 5, 8], np.int32)), "start"),
        (changed(6, np.array([0, -1, 0], np.int32)), "positions"),
        (changed(6, np.array([16, 0, 0], np.int32)), "4 blocks of 4"),
        (changed(10, np.full(7, 60, np.int32)), "slot_mapping"),
        (changed(10, np.full(7, -2, np.int32)), "slot_mapping"),
        (changed(8, np.ones((10, 8), np.float32)), "cos/sin"),
    ],
)
def test_starts_lengths_and_slots_are_refused_by_name(inputs: list[Any], words: str) -> None:
    with pytest.raises(BindingError, match=words):
        run_kernel(operator(ROTARY), inputs, in_place(inputs, ROTARY))


@pytest.mark.parametrize(
    ("case", "inputs", "words"),
    [
        (ROTARY.having(num_heads=3), None, "multiple of kv_num_heads"),
        (ROTARY.having(local_window_size=0), None, "local_window_size"),
        (ROTARY.having(v_head_size=8), None, "LATENT"),
        (ROTARY.having(kv_cache_layout="LATENT"), None, "LATENT"),
        (ROTARY.having(rotary_offset=8), None, "channel 8"),
        (ROTARY, changed(9, None), "cos_cache"),
        (ROTARY, changed(0, np.zeros((7, 100), np.float32)), "multiple of 8 heads"),
        (ROTARY, changed(4, np.zeros((15, 4, 1, 16), np.float32)), "input 4"),
        (ROTARY, changed(4, None), "value_cache"),
        (ROTARY, changed(7, np.zeros((2, 4), np.int32)), "block_table has 2 rows"),
        (ROTARY, changed(5, np.zeros(3, np.int32)), "cumulative_sequence_length"),
        (CASES["codes"], [*inputs_of(CASES["codes"], np.float32)[:14], *[None] * 3], "input 14"),
    ],
)
def test_forms_that_the_operator_does_not_allow(case: Paged, inputs: list[Any] | None, words: str) -> None:
    given = inputs or inputs_of(case, np.float32)
    with pytest.raises(ModelGraphError, match=words):
        run_kernel(operator(case), given, [None, given[3], given[4]])


@pytest.mark.parametrize(
    "attributes",
    [{"k_cache_dtype": "int4"}, {"v_cache_dtype": "float8e4m3fn"}, {"k_quant_type": "PER_TENSOR"}],
)
def test_a_cache_of_another_kind_is_unsupported_by_name(attributes: dict[str, str]) -> None:
    case = ROTARY.having(**attributes)
    inputs = inputs_of(case, np.float32)
    with pytest.raises(UnsupportedOperatorError, match="no kernel here has that form"):
        run_kernel(operator(case), inputs, in_place(inputs, case))

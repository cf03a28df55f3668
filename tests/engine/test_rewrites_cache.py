"""Caches kept otherwise: shared in one buffer, in 8 or 4 bits, against graphs written so by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rewritten_models import (
    BIASED,
    GROUPED,
    MASKED,
    MULTIHEAD,
    NOT_CAUSAL,
    RUNTIMES,
    SCATTERED,
    SCATTERED_HEADER,
    SLOPED,
    SMALL,
    UNMASKED,
    arenas,
    as_if,
    hand_made,
    parts,
    refusal,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rewritten_models import Weights


def test_multihead_attention_shares_its_cache_as_grouped_attention_does(tmp_path: Path) -> None:
    planner = hand_made(tmp_path, MULTIHEAD)
    plain, made = planner.plan(SMALL), as_if(planner, "shared-kv")
    cache = 2 * 2 * 2 * 64 * 4 * 4
    assert (plain.kv.bytes, made.kv.bytes) == (2 * cache, cache)
    wanted = hand_made(tmp_path, GROUPED).plan(SMALL)
    assert parts(made) == parts(wanted)
    assert arenas(made) == arenas(wanted)
    assert made.phases[1].workspace.bytes == wanted.phases[1].workspace.bytes


def test_a_shared_cache_can_be_kept_in_8_bits_too(tmp_path: Path) -> None:
    planner = hand_made(tmp_path, MULTIHEAD)
    assert "MultiHeadAttention keeps this one" in refusal(planner, "kv8").why
    assert as_if(planner, "kv8", "shared-kv").kv.bytes == 2 * 2 * 2 * 64 * 4


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (NOT_CAUSAL, "it is not causal"),
        (SLOPED, "its bias is made of 'slopes' as well, not of the mask alone"),
        (MULTIHEAD.replace("value, , , , past", "value, bias, , , past"), "it has a bias"),
        (MULTIHEAD.replace("int64[B,T] attention_mask, ", ""), "there is no attention mask"),
    ],
)  # fmt: skip
def test_multihead_attention_that_is_no_grouped_one_stays(tmp_path: Path, graph: str, why: str) -> None:
    more: Weights = {"slopes": (1, 2, 1, 1)} if "slopes" in graph else {"bias": (24,)}
    found = refusal(hand_made(tmp_path, graph, more), "shared-kv")
    assert found.why.startswith(why)
    assert found.node


def test_a_bias_out_of_the_attention_mask_is_what_grouped_attention_does_itself(tmp_path: Path) -> None:
    planner = hand_made(tmp_path, BIASED)
    made = as_if(planner, "shared-kv")
    wanted = hand_made(tmp_path, GROUPED).plan(SMALL)
    assert parts(made) == parts(wanted)
    assert "Mul" not in {row.operator for row in made.phases[0].nodes}, "the bias is computed no more"


def test_attention_without_a_mask_shares_a_cache_that_is_scattered_into(tmp_path: Path) -> None:
    planner = hand_made(tmp_path, UNMASKED, header=SCATTERED_HEADER)
    wanted = hand_made(tmp_path, SCATTERED, header=SCATTERED_HEADER).plan(SMALL)
    made = as_if(planner, "shared-kv")
    assert made.kv.bytes * 2 == planner.plan(SMALL).kv.bytes
    assert parts(made) == parts(wanted)
    assert arenas(made) == arenas(wanted)
    masked = hand_made(tmp_path, MASKED, header=SCATTERED_HEADER)
    assert "this one has a mask of its own" in refusal(masked, "shared-kv").why


def test_a_cache_that_another_node_reads_stays_and_says_why(tmp_path: Path) -> None:
    graph = MULTIHEAD.replace("  logits =", "  spy = ReduceSum(past_key_0)\n  logits =").replace(
        "=> (float", "=> (float[1,1,1,1] spy, float"
    )
    found = refusal(hand_made(tmp_path, graph), "shared-kv")
    assert "MultiHeadAttention returns past and new rows" in found.why


@pytest.mark.parametrize(("bits", "rewrite"), [(8, "kv8"), (4, "kv4")])
def test_a_narrow_cache_is_the_operator_s_own_form(tmp_path: Path, bits: int, rewrite: str) -> None:
    cache = "int8[B,2,P,4]" if bits == 8 else "uint8[B,2,P,2]"
    graph = (
        GROUPED.replace("float[B,2,P,4]", cache)
        .replace("float[B,2,Q,4]", cache.replace("P", "Q"))
        .replace("kv_num_heads=2>", f'kv_num_heads=2, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", '
                 f"kv_cache_bit_width={bits}>")
        .replace("valid, total)", "valid, total, , , , , , k_scale, v_scale)")
    )  # fmt: skip
    wanted = hand_made(tmp_path, graph, {"k_scale": (1,), "v_scale": (1,)})
    planner = hand_made(tmp_path, GROUPED)
    for runtime in RUNTIMES:
        scenario = replace(SMALL, runtime=runtime)
        made = as_if(planner, rewrite, scenario=scenario)
        assert parts(made) == parts(wanted.plan(scenario))
        assert made.kv.bytes == 2 * 2 * 2 * 64 * 4 * bits // 8
    assert made.weights.bytes == planner.plan(SMALL).weights.bytes + 2 * 4
    assert "is kept in 8 bits" in refusal(planner, "kv8", "kv4").why
    assert "is kept in 8 bits" in refusal(wanted, "kv8").why


def test_an_odd_head_size_has_no_two_codes_a_byte(tmp_path: Path) -> None:
    graph = GROUPED.replace("[B,2,P,4]", "[B,2,P,3]").replace("[B,2,Q,4]", "[B,2,Q,3]")
    planner = hand_made(tmp_path, graph, {"q": (8, 6), "k": (8, 6), "v": (8, 6), "head": (6, 16)})
    assert "the head size is 3" in refusal(planner, "kv4").why
    assert as_if(planner, "kv8").kv.bytes == 2 * 2 * 2 * 64 * 3

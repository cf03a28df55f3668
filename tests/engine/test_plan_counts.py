"""What is counted of a cache, of weights and of axes at their borders, to the byte."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from planned_models import opened, planner_of

from vramscope.api import Planner, Scenario, make_plan, open_path
from vramscope.errors import ScenarioError
from vramscope.graph.model import DecoderContract, KvForm, Limit, Minted
from vramscope.plan.axes import _refusal, _short_source
from vramscope.plan.components import plan_components
from vramscope.plan.kv import plan_kv, resolve_context
from vramscope.plan.prefill import check_chunk
from vramscope.plan.types import BucketPolicy, Certainty, ComponentName, Figure, KvPlan, PhasePlan

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import KvPair, Model
    from vramscope.plan.types import AxisRow

PER_TOKEN = 4 * 2 * 16 * 4
"""Four pairs of two heads of 16 float32 numbers."""


@pytest.fixture(scope="module")
def llama(shared_models: Path) -> Model:
    return open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")


def contract_of(model: Model) -> DecoderContract:
    assert model.contract is not None
    return model.contract


def cached(model: Model, pairs: tuple[KvPair, ...], scenario: Scenario) -> KvPlan:
    """The cache of these pairs at a capacity of 64 tokens."""
    return plan_kv(replace(model, contract=replace(contract_of(model), kv=pairs)), scenario, 64)


# ------------------------------------------------------------------------------------ the cache


@pytest.mark.parametrize(
    ("minimum", "growing", "first", "transient"),
    [
        (16, True, 16, 32),
        (31, True, 31, 32),
        (32, True, 32, 32),
        (33, True, 33, 33),
        (63, True, 63, 63),
        (64, True, 64, 0),
        (65, True, 64, 0),
        (16, False, 64, 0),
    ],
)
def test_a_growing_cache_holds_the_last_smaller_bucket_beside_it(
    llama: Model, minimum: int, growing: bool, first: int, transient: int
) -> None:
    scenario = Scenario(batch=3, prompt=8, bucket=BucketPolicy(minimum, growing=growing))
    found = cached(llama, contract_of(llama).kv, scenario)
    assert (found.bytes, found.bytes_per_token, found.capacity) == (3 * 64 * PER_TOKEN, PER_TOKEN, 64)
    assert (found.first, found.transient) == (3 * first * PER_TOKEN, 3 * transient * PER_TOKEN)


@pytest.mark.parametrize(
    ("prompt", "capacity", "transient"),
    [
        (255, 300, 256),
        (256, 300, 0),
        (8, 257, 256),
        (8, 256, 128),
        (8, 255, 128),
        (511, 1024, 512),
        (512, 1024, 0),
    ],
)
def test_the_last_bucket_before_a_limit_is_held_beside_it(
    llama: Model, prompt: int, capacity: int, transient: int
) -> None:
    scenario = Scenario(prompt=prompt, bucket=BucketPolicy(16, growing=True))
    assert plan_kv(llama, scenario, capacity).transient == transient * PER_TOKEN


def test_a_static_and_a_sliding_cache_do_not_grow_and_a_window_costs_nothing_a_token(llama: Model) -> None:
    fixed, sliding, *others = contract_of(llama).kv
    pairs = (replace(fixed, fixed_capacity=64), replace(sliding, window=16), *others)
    scenario = Scenario(prompt=8, bucket=BucketPolicy(16, growing=True))
    assert cached(llama, pairs, scenario).transient == 2 * 32 * PER_TOKEN // 4
    assert cached(llama, pairs, scenario).bytes_per_token == PER_TOKEN * 3 // 4
    apart = cached(llama, tuple(replace(pair, form=KvForm.GROW) for pair in pairs[2:]), scenario)
    assert (apart.bytes, apart.transient) == (64 * PER_TOKEN, 32 * PER_TOKEN)
    assert [row.shared for row in apart.rows] == [False, False]


@pytest.mark.parametrize(
    ("limit", "context", "found"),
    [
        (Limit(300, "file"), 0, (300, 300, 300, "file")),
        (Limit(300, "file"), 300, (300, 300, 300, "scenario")),
        (Limit(300, "file"), 100, (100, 100, 300, "scenario")),
        (None, 0, (2048, 2048, 2048, "no limit is stated: default")),
        (None, 100, (100, 100, 100, "scenario")),
    ],
)
def test_where_the_context_comes_from(
    llama: Model, limit: Limit | None, context: int, found: tuple[int, int, int, str]
) -> None:
    contract = replace(contract_of(llama), context_limit=limit)
    made = resolve_context(contract, Scenario(prompt=100, context=context))
    assert (made.tokens, made.capacity, made.limit, made.source) == found
    grown = resolve_context(contract, Scenario(context=context, bucket=BucketPolicy(16, growing=True)))
    power = {100: 128, 300: 300, 2048: 2048}[made.tokens]
    assert grown.capacity == min(power, made.limit)


def test_a_context_of_the_limit_and_a_prompt_of_the_context_are_the_largest(llama: Model) -> None:
    contract = replace(contract_of(llama), context_limit=Limit(300, "file"))
    with pytest.raises(ScenarioError, match="the model's limit is 300"):
        resolve_context(contract, Scenario(context=301))
    with pytest.raises(ScenarioError, match="does not fit a context of 100"):
        resolve_context(contract, Scenario(prompt=101, context=100))


def test_passes_are_refused_where_one_pair_s_length_is_a_shape(llama: Model) -> None:
    contract = contract_of(llama)
    one = replace(contract, kv=(replace(contract.kv[0], form=KvForm.APPEND), *contract.kv[1:]))
    check_chunk(contract, Scenario(prefill_chunk=1))
    check_chunk(one, Scenario())
    for chunk in (1, 16):
        with pytest.raises(ScenarioError, match="length of this graph's cache is a shape"):
            check_chunk(one, Scenario(prefill_chunk=chunk))
        with pytest.raises(ScenarioError, match="length of this graph's cache is a shape"):
            check_chunk(replace(contract, pads_mask=False), Scenario(prefill_chunk=chunk))


# ------------------------------------------------------------------------------------ weights


def test_equal_weights_name_the_first_and_others_none(tmp_path: Path) -> None:
    text = """g (float[2,4] x) => (float[2,4] y)
    <float[4] a = {1, 2, 3, 4}, float[4] b = {1, 2, 3, 4}, float[4] c = {1, 2, 3, 5}>
    { p = Add(x, a) q = Add(p, b) y = Add(q, c) }"""
    weights = make_plan(opened(tmp_path, text), Scenario()).weights
    assert [(row.name, row.bytes, row.users, row.duplicate_of) for row in weights.rows] == [
        ("a", 16, 1, ""),
        ("b", 16, 1, "a"),
        ("c", 16, 1, ""),
    ]
    assert (weights.bytes, weights.duplicate_bytes, weights.tied_savings) == (48, 16, 0)


def test_a_folded_result_keeps_its_shape_and_is_no_duplicate(tmp_path: Path) -> None:
    text = """g (float[2,4] x) => (float[2,4] y) <float[2,4] a = {1,2,3,4,5,6,7,8}, float[1] b = {2}>
    { c = Mul(a, b) y = Add(x, c) }"""
    planner = planner_of(tmp_path, text)
    (row,) = planner.plan(Scenario()).weights.rows
    assert (row.name, row.shape, row.bytes, row.users, row.duplicate_of) == ("c", (2, 4), 32, 1, "")


# ------------------------------------------------------------------------------------ components


def test_the_parts_say_what_is_shared_stored_twice_and_grows(llama: Model) -> None:
    scenario = Scenario(prompt=8, context=64, bucket=BucketPolicy(16, growing=True))
    plan = Planner(llama).plan(scenario)
    weights = replace(plan.weights, tied_savings=1234, duplicate_bytes=0)

    def details(kv: KvPlan, phases: tuple[PhasePlan, ...]) -> dict[ComponentName, str]:
        made = plan_components(weights, kv, phases, plan.bindings, scenario)
        return {item.name: item.detail for item in made}

    stored = f"{len(weights.rows)} stored tensors"
    found = details(plan.kv, plan.phases)
    assert found[ComponentName.WEIGHTS] == f"{stored}, 1,234 B saved by sharing"
    assert found[ComponentName.KV_CACHE] == (
        "8,192 B at first, grows to 64 tokens, 512 B a token a sequence; "
        "16,384 B of it only while the bucket grows"
    )
    whole = replace(plan.kv, first=plan.kv.bytes, transient=0)
    found = details(whole, plan.phases)
    assert found[ComponentName.KV_CACHE] == "64 tokens, 512 B a token a sequence"
    cache = plan.component(ComponentName.KV_CACHE).figure
    assert cache == Figure(32_768 + 16_384, Certainty.GROWING)
    quiet = tuple(
        replace(item, workspace=replace(item.workspace, blame=dict.fromkeys(item.workspace.blame, "")))
        for item in plan.phases
    )
    host = "scratch of VRAMScope's host kernels, not a GPU runtime's"
    assert details(whole, quiet)[ComponentName.WORKSPACE] == host
    weights = replace(plan.weights, tied_savings=0, duplicate_bytes=8)
    assert details(whole, quiet)[ComponentName.WEIGHTS] == f"{stored}, 8 B stored twice"


# ------------------------------------------------------------------------------------ axes


def axis(rows: tuple[AxisRow, ...]) -> dict[str, tuple[int, int | None, Certainty, str, int, str]]:
    """Interval, certainty, source, uses and first node of each symbol, in the rows' order."""
    return {
        row.symbol: (row.low, row.high, row.certainty, row.source, row.uses, row.first_node) for row in rows
    }


def test_an_axis_spans_both_phases(llama: Model) -> None:
    rows = Planner(llama).plan(Scenario(prompt=8, context=64, batch=4)).axes
    attention = "/model/layers.0/attn/GroupQueryAttention"
    embedding = "/model/embed_tokens/Gather"
    mask = "/model/attn_mask_reformat/attn_mask_subgraph/ReduceSum"
    exact = Certainty.EXACT
    past = "input past_key_values.0.key, axis 2"
    assert axis(rows) == {
        "batch_size": (4, 4, exact, "input input_ids, axis 0", 41, embedding),
        "past_sequence_length": (64, 64, exact, past, 8, attention),
        "sequence_length": (1, 8, exact, "input input_ids, axis 1", 29, embedding),
        "total_sequence_length": (64, 64, exact, "input attention_mask, axis 1", 5, mask),
    }
    last = {row.symbol: row.derivation for row in rows}
    assert last["sequence_length"] == ("sequence_length in [1, 1]: input input_ids, axis 1",)


def test_what_nothing_bounds_comes_first_and_is_unknown(tmp_path: Path) -> None:
    text = """g (float[N,2] b, float[K,4] x, float[L,4] z) => (float[N,2] c, float[K,4] y, float[L,4] w)
    { c = Relu(b) y = Relu(x) w = Relu(z) }"""
    rows = planner_of(tmp_path, text).plan(Scenario(batch=3, maxima={"K": 5})).axes
    assert list(axis(rows).items()) == [
        ("L", (0, None, Certainty.UNKNOWN, "", 2, "Relu_2")),
        ("K", (0, 5, Certainty.BOUND, "declared maximum 5", 2, "Relu_1")),
        ("N", (3, 3, Certainty.EXACT, "input b, axis 0", 2, "Relu_0")),
    ]
    assert [(row.kind, row.editable) for row in rows] == [
        ("", True),
        ("ConfiguredMax", True),
        ("Binding", False),
    ]
    assert rows[0].refused == "no input, capacity or declared maximum bounds L"
    assert (rows[1].refused, rows[2].refused) == ("", "")


def test_what_a_node_decides_is_told_with_its_ceiling(tmp_path: Path) -> None:
    text = "g (float[4,3] x) => (float[M,2] y) { i = NonZero(x) t = Transpose(i) y = Cast <to = 1> (t) }"
    plan = planner_of(tmp_path, text).plan(Scenario())
    minted = [row for row in plan.axes if row.symbol != "M"]
    assert [(row.low, row.high, row.certainty) for row in minted] == [(0, 12, Certainty.BOUND)]
    assert minted[0].refused == ""
    name = minted[0].symbol
    assert minted[0].derivation == (f"{name} in [0, 12]: NonZero at : at most 12 = 12",)


def test_sources_that_differ_are_told_by_phase() -> None:
    assert _short_source(["prefill: a", "decode: a"], "a") == "a"
    assert _short_source(["prefill: a", "decode: b"], "b") == "prefill: a; decode: b"
    assert _short_source(["prefill: a: 1", "decode: a: 2"], "b") == "prefill: a: 1; decode: a: 2"
    assert _short_source([], "") == ""


def test_what_a_node_decides_says_why() -> None:
    origin = Minted("k", "cut", "Compress", None)
    assert _refusal("k", origin) == "Compress at cut decides k while it runs: its extent depends on data"
    why = replace(origin, reason="its input is data")
    assert _refusal("k", why) == "Compress at cut decides k while it runs: its input is data"

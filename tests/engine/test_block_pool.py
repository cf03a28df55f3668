"""The pool of a paged cache: what it plans, what it refuses, and how sequences take blocks of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramscope.api import make_plan, open_path
from vramscope.decode.blocks import UNMAPPED, BlockTables, BlockUse
from vramscope.errors import InputError, ScenarioError
from vramscope.graph.model import Limit
from vramscope.plan.options import binding_option
from vramscope.plan.planner import Planner
from vramscope.plan.pool import DEFAULT_BLOCK_SIZE, BlockPool, block_pool
from vramscope.plan.suggest import suggestions
from vramscope.plan.types import BucketPolicy, ComponentName, Figure, Phase, Scenario, VerdictKind

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model
    from vramscope.plan.types import Plan

ROW = 2 * 2 * 2 * 16 * 2
"""Bytes of one position: layers × (key, value) × heads × head size × bytes of float16."""


@pytest.fixture
def paged(shared_models: Path) -> Model:
    return open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda-paged")


def cache(plan: Plan) -> Figure:
    return plan.component(ComponentName.KV_CACHE).figure


@pytest.mark.parametrize(
    ("batch", "context", "size", "blocks", "expected"),
    [
        (1, 64, 0, 0, BlockPool(1, 256, 1)),  # the model's own blocks are larger than the context
        (3, 64, 16, 0, BlockPool(12, 16, 4)),
        (3, 65, 16, 0, BlockPool(15, 16, 5)),
        (2, 200, 16, 20, BlockPool(20, 16, 13)),
        (2, 200, 1, 0, BlockPool(400, 1, 200)),
        (2, 256, 256, 5, BlockPool(5, 256, 1)),
    ],
)
def test_the_pool_is_planned_to_the_byte(
    paged: Model, batch: int, context: int, size: int, blocks: int, expected: BlockPool
) -> None:
    scenario = Scenario(batch, 8, context, block_size=size, kv_blocks=blocks)
    plan = make_plan(paged, scenario)
    assert plan.kv.pool == expected
    assert cache(plan) == Figure.exact(expected.blocks * expected.block_size * ROW)
    assert {row.shape for row in plan.kv.rows} == {(expected.blocks, expected.block_size, 2, 16)}
    assert plan.total.bytes == Planner(paged).total_bytes(scenario)
    ranges = {row.symbol: row.high for row in plan.axes}
    names = ("num_tokens", "num_blocks", "block_size", "max_num_blocks", "batch_size")
    assert [ranges[name] for name in names] == [
        8 * batch,
        expected.blocks,
        expected.block_size,
        expected.table,
        batch,
    ]


def test_the_last_block_is_told_apart_from_what_is_used(paged: Model) -> None:
    plan = make_plan(paged, Scenario(3, 8, 65, block_size=16))
    detail = plan.component(ComponentName.KV_CACHE).detail
    assert "15 blocks of 16 tokens, 195 of 240 held tokens used when every sequence is full" in detail
    one = make_plan(paged, Scenario(1, 8, 65)).component(ComponentName.KV_CACHE).detail
    assert "1 block of 256 tokens, 65 of 256 held" in one
    short = make_plan(paged, Scenario(3, 8, 65, block_size=16, kv_blocks=7))
    assert "112 of 112 held" in short.component(ComponentName.KV_CACHE).detail
    (note,) = [note for note in short.notes if "full sequences need 15 blocks" in note]
    assert "7 blocks hold 112 tokens" in note


def test_a_pool_that_holds_every_full_sequence_exactly_says_nothing(paged: Model) -> None:
    for blocks, told in ((15, 0), (14, 1)):
        plan = make_plan(paged, Scenario(3, 8, 65, block_size=16, kv_blocks=blocks))
        assert len([note for note in plan.notes if "full sequences need" in note]) == told


def test_the_models_own_block_size_comes_before_the_usual_one(paged: Model) -> None:
    contract = paged.contract
    assert contract is not None
    own = replace(contract, block_size=Limit(48, "the model's"))
    unsaid = replace(contract, block_size=None)
    sizes = [block_pool(item, Scenario(), 100).block_size for item in (own, unsaid)]
    assert sizes == [48, DEFAULT_BLOCK_SIZE]
    assert block_pool(own, Scenario(block_size=8), 100) == BlockPool(13, 8, 13)


def test_a_pool_that_holds_neither_context_nor_prompts_is_refused_by_name(paged: Model) -> None:
    with pytest.raises(
        ScenarioError, match="a context of 200 tokens: it takes 13 blocks of 16 tokens"
    ) as refusal:
        make_plan(paged, Scenario(1, 8, 200, block_size=16, kv_blocks=12))
    assert "--kv-blocks" in refusal.value.remedy
    with pytest.raises(ScenarioError, match="a prompt of 40 tokens in 3 sequences: it takes 9 blocks"):
        make_plan(paged, Scenario(3, 40, 64, block_size=16, kv_blocks=8))
    with pytest.raises(ScenarioError, match="a growing KV cache"):
        make_plan(paged, Scenario(1, 8, 64, bucket=BucketPolicy(growing=True)))
    with pytest.raises(ScenarioError, match="a block size of -1"):
        make_plan(paged, Scenario(1, 8, 64, block_size=-1))
    with pytest.raises(ScenarioError, match="a number of KV blocks of -1"):
        make_plan(paged, Scenario(1, 8, 64, kv_blocks=-1))


def test_blocks_of_a_cache_that_has_none_change_nothing_and_that_is_said(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda")
    plain, given_blocks = (make_plan(model, Scenario(context=64, kv_blocks=count)) for count in (0, 5))
    assert given_blocks.total == plain.total
    assert plain.notes == ()
    (note,) = given_blocks.notes
    assert "not paged" in note


def test_the_largest_context_and_batch_count_whole_blocks(paged: Model) -> None:
    whole = make_plan(paged, Scenario(2, 8, 96, block_size=32))
    scenario = replace(whole.scenario, budget=whole.total.known)
    fits = make_plan(paged, scenario)
    assert fits.verdict.kind is VerdictKind.FITS
    assert (fits.verdict.largest_context, fits.verdict.largest_batch) == (96, 2)
    less = make_plan(paged, replace(scenario, budget=whole.total.known - 1))
    assert less.verdict.kind is VerdictKind.SHORT
    assert less.verdict.largest_context == 64  # the next whole block less
    assert make_plan(paged, replace(scenario, kv_blocks=5)).verdict.largest_context == 160


def test_smaller_blocks_are_suggested_with_what_they_save(paged: Model) -> None:
    planner = Planner(paged)
    plan = planner.plan(Scenario(4, 8, 65))
    (found,) = [
        item for item in suggestions(planner, plan) if item.title == "Blocks of 16 tokens instead of 256"
    ]
    assert found.change == {"block_size": 16}
    after = planner.plan(replace(plan.scenario, block_size=16))
    assert found.saves == plan.total.known - after.total.known > 0
    for scenario in (Scenario(4, 8, 65, block_size=16), Scenario(4, 8, 65, kv_blocks=8)):
        titles = [item.title for item in suggestions(planner, planner.plan(scenario))]
        assert not any("Blocks of" in title for title in titles)


# ------------------------------------------------------------------------------------ block tables


def test_sequences_take_blocks_as_they_grow_and_only_then() -> None:
    tables = BlockTables(BlockPool(8, 4, 4), 2)
    tables.restart([3, 6])
    assert tables.hold(6)
    assert tables.table().tolist() == [[0, -1, -1, -1], [1, 2, -1, -1]]
    assert tables.use(6) == BlockUse(block_size=4, blocks=8, taken=3, held=12, used=9)
    assert not tables.hold(7)  # 4 and 7 positions: both fit into what is held
    assert tables.hold(8)  # the shorter one has 5 now
    assert tables.table().tolist() == [[0, 3, -1, -1], [1, 2, -1, -1]]
    tables.restart([1, 1])
    assert tables.use(0) == BlockUse(block_size=4, blocks=8, taken=0, held=0, used=0)
    assert tables.table().tolist() == [[UNMAPPED] * 4] * 2


def test_a_pool_without_a_free_block_refuses_and_gives_nothing() -> None:
    tables = BlockTables(BlockPool(3, 4, 4), 2)
    tables.restart([4, 4])
    tables.hold(4)
    before = tables.table().tolist()
    assert (tables.room(16), tables.fits(4), tables.fits(5)) == (4, True, False)
    with pytest.raises(
        InputError, match="2 more blocks of 4 tokens, and of the KV pool's 3 blocks 1 are free"
    ):
        tables.hold(5)
    assert tables.table().tolist() == before


def test_no_sequence_outgrows_its_table() -> None:
    tables = BlockTables(BlockPool(100, 4, 2), 1)
    tables.restart([1])
    assert (tables.room(50), tables.fits(8), tables.fits(9)) == (8, True, False)


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.integers(0, 30),
)
def test_blocks_are_never_shared_and_always_enough(
    size: int, spare: int, lengths: list[int], steps: int
) -> None:
    longest = max(lengths)
    whole = -(-(longest + steps) // size)
    pool = BlockPool(whole * len(lengths) + spare, size, whole)
    tables = BlockTables(pool, len(lengths))
    tables.restart(lengths)
    for position in range(longest, longest + steps + 1):
        earlier = tables.table()
        tables.hold(position)
        table = tables.table()
        taken = table[table != UNMAPPED]
        assert len(set(taken.tolist())) == taken.size
        assert np.array_equal(table[earlier != UNMAPPED], earlier[earlier != UNMAPPED])  # nothing moves
        for row, length in zip(table, lengths, strict=True):
            tokens = position - longest + length
            assert int((row != UNMAPPED).sum()) == -(-tokens // size)
        use = tables.use(position)
        assert use.taken == taken.size
        assert 0 <= use.held - use.used < len(lengths) * size


def test_each_axis_of_a_paged_model_names_the_option_that_sets_it(paged: Model) -> None:
    scenario = Scenario(2, 8, 64, block_size=16)
    told = {
        (phase.phase, name): binding_option(paged, scenario, phase.phase, name, extent)
        for phase in make_plan(paged, scenario).phases
        for name, extent in phase.symbols.items()
    }
    for phase, tokens in ((Phase.PREFILL, "--prompt-tokens"), (Phase.DECODE, "--batch")):
        assert told[phase, "num_tokens"] == tokens
        assert told[phase, "num_blocks"] == "--kv-blocks"
        assert told[phase, "block_size"] == "--block-size"
        assert told[phase, "batch_size"] == "--batch"

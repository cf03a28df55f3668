"""The pool of blocks that a paged KV cache is: how large, and what sequences of some length take of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.model import DecoderContract
    from vramscope.plan.types import Scenario

DEFAULT_BLOCK_SIZE = 256
"""Positions of a block where nothing says how many: as onnxruntime-genai's builder writes."""


@dataclass(frozen=True, slots=True)
class BlockPool:
    """Blocks that all sequences share.

    Attributes:
        blocks: of the whole pool.
        block_size: positions of one block.
        table: blocks that one sequence has at most: the width of the block table.
    """

    blocks: int
    block_size: int
    table: int

    def count(self, tokens: int) -> int:
        """Blocks that ``tokens`` positions of one sequence take: the last one may be used in part."""
        return -(-tokens // self.block_size)

    def filled(self, batch: int, tokens: int) -> tuple[int, int]:
        """Positions used and held when each of ``batch`` sequences has ``tokens``, or the pool ends.

        What is held and not used is the rest of each sequence's last block.
        """
        held = min(batch * self.count(tokens), self.blocks) * self.block_size
        return min(batch * tokens, held), held


NO_POOL = BlockPool(0, 0, 0)
"""Of a cache that is not paged."""


def block_pool(contract: DecoderContract, scenario: Scenario, capacity: int) -> BlockPool:
    """The pool for sequences of ``capacity`` positions.

    The scenario's block size, else the model's own, else :data:`DEFAULT_BLOCK_SIZE`; the scenario's number of
    blocks, else as many as every sequence needs to become full.
    """
    if not contract.paged:
        return NO_POOL
    stated = contract.block_size.value if contract.block_size is not None else DEFAULT_BLOCK_SIZE
    size = scenario.block_size or stated
    table = -(-capacity // size)
    return BlockPool(scenario.kv_blocks or scenario.batch * table, size, table)


def check_pool(contract: DecoderContract, scenario: Scenario, tokens: int) -> None:
    """Passes where a paged cache can be what the scenario says; anything does for another cache.

    Raises:
        ScenarioError: the cache is to grow, or the pool holds neither one whole context nor the prompts.
    """
    if not contract.paged:
        return
    if scenario.bucket.growing:
        raise ScenarioError(
            "a growing KV cache",
            "this model's is a pool of blocks, reserved at once; sequences grow by blocks inside it",
            "Leave out --growing; a smaller pool is --kv-blocks",
        )
    pool = block_pool(contract, scenario, tokens)
    needs = {
        f"a context of {tokens:,} tokens": pool.table,
        f"a prompt of {scenario.prompt:,} tokens in {scenario.batch:,} sequences": scenario.batch
        * pool.count(scenario.prompt),
    }
    for what, blocks in needs.items():
        if blocks > pool.blocks:
            why = f"it takes {blocks:,} blocks of {pool.block_size:,} tokens and the pool has {pool.blocks:,}"
            raise ScenarioError(what, why, f"Plan at least {blocks:,} with --kv-blocks, or fewer tokens")


def pool_notes(contract: DecoderContract, scenario: Scenario, tokens: int) -> Iterator[str]:
    """What a user should know of the pool: that it is given for nothing, or ends before the contexts do."""
    if not contract.paged:
        if scenario.block_size or scenario.kv_blocks:
            yield "Block size and number of KV blocks change nothing: this model's cache is not paged"
        return
    pool = block_pool(contract, scenario, tokens)
    wanted = scenario.batch * pool.table
    if wanted > pool.blocks:
        yield (
            f"The pool's {pool.blocks:,} blocks hold {pool.blocks * pool.block_size:,} tokens, and "
            f"{scenario.batch:,} full sequences need {wanted:,} blocks: a step that finds no free block ends "
            "the run"
        )

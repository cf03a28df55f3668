"""The KV cache: capacity in tokens, physical buffers, what a grown bucket holds twice for a moment."""

from __future__ import annotations

from dataclasses import dataclass

from vramscope.errors import ScenarioError
from vramscope.graph.dtypes import tensor_bytes
from vramscope.graph.model import DecoderContract, KvForm, KvPair, Model, Value
from vramscope.plan.pool import NO_POOL, BlockPool, block_pool, check_pool, pool_notes
from vramscope.plan.prefill import check_chunk
from vramscope.plan.sizes import value_bytes
from vramscope.plan.symbols import Extents, pair_capacity, physical_shape
from vramscope.plan.types import KvPlan, KvRow, Scenario

DEFAULT_CONTEXT = 2048
"""Planned when neither the scenario nor the model says how long a context is."""

NO_KV = KvPlan(capacity=0, bytes_per_token=0, bytes=0, rows=())


@dataclass(frozen=True, slots=True)
class Context:
    """Tokens planned for, the cache's capacity, where the limit comes from, and the pool of a paged cache."""

    tokens: int
    capacity: int
    limit: int
    source: str
    pool: BlockPool = NO_POOL

    @property
    def room(self) -> tuple[int, BlockPool]:
        """What sequences have room in: positions of each, and the pool."""
        return self.capacity, self.pool


def context_notes(contract: DecoderContract, scenario: Scenario) -> tuple[str, ...]:
    """What a user should know of the cache beside its size; raises as :func:`resolve_context` does."""
    return tuple(pool_notes(contract, scenario, resolve_context(contract, scenario).tokens))


def resolve_context(contract: DecoderContract, scenario: Scenario) -> Context:
    """The context to plan and the cache capacity for it.

    Raises:
        ScenarioError: a context beyond the model's limit, a prompt that does not fit the context, a prompt in
            passes that the graph cannot take, or a pool of blocks that holds neither.
    """
    check_chunk(contract, scenario)
    limit = contract.context_limit
    if limit is not None and scenario.context > limit.value:
        raise ScenarioError(
            f"a context of {scenario.context:,} tokens",
            f"the model's limit is {limit.value:,} ({limit.source})",
            f"Plan a context of at most {limit.value:,}",
        )
    tokens = scenario.context or (limit.value if limit else DEFAULT_CONTEXT)
    source = "scenario" if scenario.context else (limit.source if limit else "no limit is stated: default")
    if scenario.prompt > tokens:
        raise ScenarioError(
            f"a prompt of {scenario.prompt:,} tokens",
            f"it does not fit a context of {tokens:,}",
            "Shorten the prompt or raise the context",
        )
    check_pool(contract, scenario, tokens)
    ceiling = limit.value if limit else tokens
    capacity = scenario.bucket.capacity(tokens, ceiling) if scenario.bucket.growing else tokens
    return Context(tokens, capacity, ceiling, source, block_pool(contract, scenario, capacity))


def plan_kv(model: Model, scenario: Scenario, capacity: int) -> KvPlan:
    """Every KV buffer at its physical shape, exact to the byte.

    bytes/token = Σ over pairs of heads × head size × element bytes (semantics 2.9).
    """
    contract = model.contract
    if contract is None or not contract.kv:
        return NO_KV
    values = {model.program.values[item].name: model.program.values[item] for item in model.program.inputs}
    pool = block_pool(contract, scenario, capacity)
    rows = _rows(contract, values, Extents(scenario.batch, 0, 0, capacity, pool))
    first = first_capacity(scenario, capacity)
    per_token = sum(
        tensor_bytes(pair.dtype, (pair.heads, pair.head_size)) for pair in contract.kv if not pair.window
    )
    begin = rows if first == capacity else _rows(contract, values, Extents(scenario.batch, 0, 0, first))
    return KvPlan(
        capacity=capacity,
        bytes_per_token=per_token,
        bytes=sum(row.bytes for row in rows),
        rows=rows,
        transient=_transient(contract, values, scenario, capacity),
        first=sum(row.bytes for row in begin),
        pool=pool,
    )


def first_capacity(scenario: Scenario, capacity: int) -> int:
    """Tokens of capacity that a session begins with: all of it, or the bucket of the prompt and one token."""
    bucket = scenario.bucket
    return bucket.capacity(scenario.prompt + 1, capacity) if bucket.growing else capacity


def _rows(contract: DecoderContract, values: dict[str, Value], extents: Extents) -> tuple[KvRow, ...]:
    return tuple(_row(pair, values[pair.input], extents) for pair in contract.kv)


def _row(pair: KvPair, value: Value, extents: Extents) -> KvRow:
    shape = physical_shape(pair, value, extents)
    one = value_bytes(value, shape)
    shared = pair.form is not KvForm.GROW
    return KvRow(
        pair.layer,
        pair.role,
        pair.input,
        pair.output,
        shape,
        one if shared else 2 * one,
        pair.form.value,
        pair.reason,
        shared,
    )


def _transient(contract: DecoderContract, values: dict[str, Value], scenario: Scenario, capacity: int) -> int:
    """Bytes of the previous bucket, alive beside the new one while the cache grows (semantics 2.9).

    A cache that begins at its capacity never grows; a static or a sliding pair keeps its buffers.
    """
    if first_capacity(scenario, capacity) == capacity:
        return 0
    previous = max(scenario.bucket.minimum, 1 << (capacity - 1).bit_length() - 1)
    return sum(
        _row(pair, values[pair.input], Extents(scenario.batch, 0, 0, previous)).bytes
        for pair in contract.kv
        if pair_capacity(pair, previous) != pair_capacity(pair, capacity)
    )

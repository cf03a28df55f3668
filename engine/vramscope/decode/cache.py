"""The KV cache's buffers: allocated at a capacity, moved to a larger one as a transaction (semantics 2.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.decode.blocks import hold_blocks
from vramscope.graph.dtypes import numpy_dtype, tensor_bytes
from vramscope.graph.model import Array, KvForm, KvPair, Model, Value
from vramscope.plan.pool import NO_POOL
from vramscope.plan.symbols import Extents, kv_shape, pair_capacity, physical_shape
from vramscope.plan.types import ComponentName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.decode.feeds import Feeds
    from vramscope.decode.session_state import RunState
    from vramscope.devices.base import Buffer
    from vramscope.graph.model import DecoderContract
    from vramscope.plan.pool import BlockPool
    from vramscope.run.runner import Runner


def allocate_cache(model: Model, runner: Runner, batch: int, capacity: int) -> None:
    """Allocates and clears every KV buffer.

    Raises:
        OutOfBudgetError: the budget does not hold one of them; those made before stay in the session.
    """
    _allocate(runner, kv_buffer_bytes(model, batch, capacity, runner.plan.kv.pool))


def _allocate(runner: Runner, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        buffer = runner.memory.take(ComponentName.KV_CACHE, name, size)
        buffer.bytes[:] = 0
        runner.memory.kv[name] = buffer


def ready_cache(runner: Runner, feeds: Feeds, run: RunState, tokens: int) -> None:
    """Sees to it that a pass may follow: blocks for so many ``tokens``, and every earlier row in the past.

    Raises:
        InputError: a paged pool has too few free blocks; nothing changed.
    """
    hold_blocks(runner, feeds, run, tokens)
    contract = runner.planner.model.contract
    if contract is not None and any(pair.form is KvForm.GROW for pair in contract.kv):
        _carry(runner, contract, run)


def _carry(runner: Runner, contract: DecoderContract, run: RunState) -> None:
    """Copies what the passes since the last one added to present buffers into the past ones beside them."""
    program, batch = runner.planner.model.program, runner.plan.scenario.batch
    values = {program.values[item].name: program.values[item] for item in program.inputs}
    start = min(run.carried, run.position)
    for pair in contract.kv:
        if pair.form is not KvForm.GROW:
            continue
        value = values[pair.input]
        past, present = (
            kv_prefix(pair, runner.memory.kv[name].bytes, value, batch, run.capacity, run.position)
            for name in (pair.input, pair.output)
        )
        newest = (*(slice(None) for _ in range(_positions_axis(pair, past))), slice(start, None))
        runner.device.copy(past[newest], present[newest])
    run.carried = run.position


def grow_cache(model: Model, runner: Runner, batch: int, capacities: tuple[int, int], length: int) -> None:
    """Allocates larger buffers, copies the valid prefix, rebinds, releases the old ones.

    A static or a sliding cache has its size at every capacity: its buffers stay. The others are alive twice
    for a moment: the plan's transient. It is claimed before anything is allocated.

    Args:
        model: the decoder.
        runner: of the session.
        batch: sequences.
        capacities: old and new, in tokens.
        length: valid tokens.

    Raises:
        OutOfBudgetError: the governor's limit, or the device, does not hold both; the cache is as it was.
    """
    old, new = (sum(kv_buffer_bytes(model, batch, capacity).values()) for capacity in capacities)
    moved = sum(_larger(model, batch, capacities).values())
    with runner.device.ledger.phase("growing"):
        leases = runner.memory.leases
        leases.pledge({ComponentName.KV_CACHE.value: old + moved})
        try:
            _move(model, runner, batch, capacities, length)
        except BaseException:
            leases.pledge({ComponentName.KV_CACHE.value: old})
            raise
        leases.pledge({ComponentName.KV_CACHE.value: new})


def _larger(model: Model, batch: int, capacities: tuple[int, int]) -> dict[str, int]:
    """New bytes of each KV buffer whose size depends on the capacity."""
    old, new = (kv_buffer_bytes(model, batch, capacity) for capacity in capacities)
    return {name: size for name, size in new.items() if size != old[name]}


def _move(model: Model, runner: Runner, batch: int, capacities: tuple[int, int], length: int) -> None:
    assert model.contract is not None
    old_capacity, new_capacity = capacities
    sizes = _larger(model, batch, capacities)
    previous = {name: runner.memory.kv[name] for name in sizes}
    try:
        _allocate(runner, sizes)
    except BaseException:
        _undo(runner, previous)
        raise
    values = {model.program.values[item].name: model.program.values[item] for item in model.program.inputs}
    for pair in model.contract.kv:
        for name in {pair.input, pair.output} & previous.keys():
            value = values[pair.input]
            old = kv_prefix(pair, previous[name].bytes, value, batch, old_capacity, length)
            new = kv_prefix(pair, runner.memory.kv[name].bytes, value, batch, new_capacity, length)
            runner.device.copy(new, old)
    for buffer in previous.values():
        runner.memory.give(buffer)


def _undo(runner: Runner, previous: Mapping[str, Buffer]) -> None:
    for name, buffer in previous.items():
        if runner.memory.kv[name] is not buffer:
            runner.memory.give(runner.memory.kv[name])
            runner.memory.kv[name] = buffer


def kv_buffer_bytes(model: Model, batch: int, capacity: int, pool: BlockPool = NO_POOL) -> dict[str, int]:
    """Bytes of every KV buffer; ``pool``: of a paged cache.

    One a pair, two where past and present cannot share (named by their own names).
    """
    assert model.contract is not None
    values = {model.program.values[item].name: model.program.values[item] for item in model.program.inputs}
    sizes: dict[str, int] = {}
    for pair in model.contract.kv:
        shape = physical_shape(pair, values[pair.input], Extents(batch, 0, 0, capacity, pool))
        size = tensor_bytes(pair.dtype, shape)
        sizes[pair.input] = size
        if pair.form is KvForm.GROW:
            sizes[pair.output] = size
    return sizes


def kv_prefix(pair: KvPair, buffer: Array, value: Value, batch: int, capacity: int, length: int) -> Array:
    """The valid prefix of a KV buffer, as a view in its physical strides."""
    shape = kv_shape(pair, value, batch, pair_capacity(pair, capacity))
    kind = numpy_dtype(pair.dtype)
    whole = buffer[: tensor_bytes(pair.dtype, shape)].view(kind).reshape(shape)
    axis = _positions_axis(pair, whole)
    index = [slice(None)] * len(shape)
    index[axis] = slice(0, min(length, shape[axis]))
    return whole[tuple(index)]


def _positions_axis(pair: KvPair, buffer: Array) -> int:
    """Which axis of a KV buffer holds positions."""
    return 1 if buffer.ndim == 3 else pair.sequence_axis % buffer.ndim

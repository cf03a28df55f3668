"""The KV cache's buffers: allocated at a capacity, moved to a larger one as a transaction (semantics 2.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.dtypes import numpy_dtype, tensor_bytes
from vramscope.graph.model import Array, KvForm, KvPair, Model, Value
from vramscope.plan.symbols import kv_shape, pair_capacity
from vramscope.plan.types import ComponentName

if TYPE_CHECKING:
    from vramscope.devices.base import Buffer
    from vramscope.run.runner import Runner


def allocate_cache(model: Model, runner: Runner, batch: int, capacity: int) -> None:
    """Allocates and clears every KV buffer.

    Raises:
        OutOfBudgetError: the budget does not hold one of them; those made before stay in the session.
    """
    for name, size in kv_buffer_bytes(model, batch, capacity).items():
        buffer = runner.memory.take(ComponentName.KV_CACHE, name, size)
        buffer.bytes[:] = 0
        runner.memory.kv[name] = buffer


def grow_cache(model: Model, runner: Runner, batch: int, capacities: tuple[int, int], length: int) -> None:
    """Allocates new buffers, copies the valid prefix, rebinds, releases the old ones.

    Both sets are alive for a moment: the plan's transient. It is claimed before anything is allocated.

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
    with runner.device.ledger.phase("growing"):
        leases = runner.memory.leases
        leases.pledge({ComponentName.KV_CACHE.value: old + new})
        try:
            _move(model, runner, batch, capacities, length)
        except BaseException:
            leases.pledge({ComponentName.KV_CACHE.value: old})
            raise
        leases.pledge({ComponentName.KV_CACHE.value: new})


def _move(model: Model, runner: Runner, batch: int, capacities: tuple[int, int], length: int) -> None:
    assert model.contract is not None
    old_capacity, new_capacity = capacities
    previous = dict(runner.memory.kv)
    try:
        allocate_cache(model, runner, batch, new_capacity)
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


def _undo(runner: Runner, previous: dict[str, Buffer]) -> None:
    for name, buffer in runner.memory.kv.items():
        if previous.get(name) is not buffer:
            runner.memory.give(buffer)
    runner.memory.kv.clear()
    runner.memory.kv.update(previous)


def kv_buffer_bytes(model: Model, batch: int, capacity: int) -> dict[str, int]:
    """Bytes of every KV buffer.

    One a pair, two where past and present cannot share (named by their own names).
    """
    assert model.contract is not None
    values = {model.program.values[item].name: model.program.values[item] for item in model.program.inputs}
    sizes: dict[str, int] = {}
    for pair in model.contract.kv:
        shape = kv_shape(pair, values[pair.input], batch, pair_capacity(pair, capacity))
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
    axis = 1 if len(shape) == 3 else pair.sequence_axis % len(shape)
    index = [slice(None)] * len(shape)
    index[axis] = slice(0, min(length, shape[axis]))
    return whole[tuple(index)]

"""The memory of one session.

Weights, KV, arena, workspace and bindings, allocated from the plan to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.ledger import Site
from vramscope.graph.dtypes import ElementType, is_packed, numpy_dtype
from vramscope.graph.model import ABSENT, Array, Step, Value, WeightSource
from vramscope.graph.weights import read_weight
from vramscope.ops.call import Call, Packed, Tensor
from vramscope.ops.spec import Lifetime
from vramscope.plan.index import body_captures
from vramscope.plan.types import ComponentName, Plan
from vramscope.plan.weights import body_weights, resident_roots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.base import Buffer, Device
    from vramscope.plan.index import PlanningIndex
    from vramscope.run.events import CancelCheck, Progress

_COPY_CHUNK = 32 * 2**20
"""Bytes copied between two cancel checks."""


@dataclass(slots=True, eq=False)
class SessionMemory:
    """Every buffer a session holds, and the tensors of its weights by value id."""

    device: Device
    weights: dict[int, Tensor] = field(default_factory=dict)
    weight_buffers: dict[str, Buffer] = field(default_factory=dict)
    io: dict[str, Buffer] = field(default_factory=dict)
    kv: dict[str, Buffer] = field(default_factory=dict)
    arena: Buffer | None = None
    workspace: dict[Lifetime, Buffer] = field(default_factory=dict)

    def clear(self) -> None:
        """Forgets every buffer, in place: whoever holds this memory sees it empty."""
        for held in (self.weights, self.weight_buffers, self.io, self.kv, self.workspace):
            held.clear()
        self.arena = None

    def arena_view(self, offset: int, size: int) -> Array:
        """Bytes ``[offset, offset + size)`` of the arena."""
        if self.arena is None:
            return np.empty(0, np.uint8)
        return self.arena.bytes[offset : offset + size]


def site(component: ComponentName, name: str) -> Site:
    """A ledger site of a plan's component."""
    return Site(component.value, name)


def load_weights(
    memory: SessionMemory, index: PlanningIndex, progress: Progress, cancel: CancelCheck
) -> None:
    """Copies every weight into device memory, runs the constant steps, drops what only they needed.

    Raises:
        OutOfBudgetError: the budget does not hold the weights.
        ModelFileError: a weight's file changed since the model was opened.
        CancelledError: the user asked to stop.
    """
    program = index.program
    resident = resident_roots(index)
    needed = dict.fromkeys(
        [value for value in program.weights if value in resident]
        + [
            value
            for step in program.steps[: program.constant_steps]
            for value in (*step.inputs, *body_captures(step))
            if value != ABSENT
        ]
    )
    sources = [value for value in needed if value in program.weights]
    inner = body_weights(program)
    total = sum(program.weights[value].size for value in sources)
    total += sum(source.size for _, source in inner.values())
    done = 0
    for value in sources:
        cancel()
        done += _load_one(memory, index, value, cancel)
        progress("loading weights", done, total)
    for name, source in inner.values():
        cancel()
        _load_source(memory, name, source, cancel)
        done += source.size
        progress("loading weights", done, total)
    for step in program.steps[: program.constant_steps]:
        cancel()
        _run_constant(memory, index, step, resident)
    _drop_unneeded(memory, index, resident)


def _load_one(memory: SessionMemory, index: PlanningIndex, value: int, cancel: CancelCheck) -> int:
    source = index.program.weights[value]
    _load_source(memory, index.program.values[value].name, source, cancel)
    memory.weights[value] = stored_tensor(memory, source)
    return source.size


def _load_source(memory: SessionMemory, name: str, source: WeightSource, cancel: CancelCheck) -> None:
    if source.identity in memory.weight_buffers or source.dtype is ElementType.STRING:
        return
    buffer = memory.device.allocate(site(ComponentName.WEIGHTS, name), source.size)
    memory.weight_buffers[source.identity] = buffer
    _copy(memory.device, buffer.bytes, read_weight(source), cancel)


def stored_tensor(memory: SessionMemory, source: WeightSource) -> Tensor:
    """A loaded weight under its own type and shape; text is no device memory and comes as objects."""
    if source.dtype is ElementType.STRING:
        return read_weight(source)
    raw = memory.weight_buffers[source.identity].bytes
    if is_packed(source.dtype):
        return Packed(raw, source.dtype, source.shape)
    return raw.view(numpy_dtype(source.dtype)).reshape(source.shape)


def _copy(device: Device, target: Array, weight: Array, cancel: CancelCheck) -> None:
    raw = np.ascontiguousarray(weight).reshape(-1).view(np.uint8)
    for start in range(0, raw.size, _COPY_CHUNK):
        cancel()
        device.upload(target[start : start + _COPY_CHUNK], raw[start : start + _COPY_CHUNK])


def _run_constant(
    memory: SessionMemory, index: PlanningIndex, step: Step, resident: Mapping[int, int]
) -> None:
    spec = index.specs[step.index]
    outputs = tuple(index.program.values[value].dtype for value in step.outputs if value != ABSENT)
    call = Call(
        node=step.node,
        inputs=tuple(None if value == ABSENT else memory.weights[value] for value in step.inputs),
        placed=[None] * len(step.outputs),
        wanted=tuple(value != ABSENT for value in step.outputs),
        output_types=outputs,
    )
    if spec.strided_view and memory.device.owns(call.inputs[0]):
        call.placed[0] = call.array(0).transpose(step.node.integers("perm") or None)
    else:
        memory.device.kernel(step.node, spec)(call)
    for value, result in zip(step.outputs, call.placed, strict=True):
        if value != ABSENT and result is not None:
            memory.weights[value] = _keep(memory, index.program.values[value], result, value in resident)


def _keep(memory: SessionMemory, value: Value, result: Tensor, resident: bool) -> Tensor:
    """A constant step's own result moves into a buffer of its exact size; a view stays a view."""
    if not resident or isinstance(result, Packed | list) or not memory.device.owns(result):
        return result
    buffer = memory.device.allocate(site(ComponentName.WEIGHTS, value.name), result.nbytes)
    memory.weight_buffers[f"folded:{value.name}"] = buffer
    kept = buffer.bytes.view(result.dtype).reshape(result.shape)
    memory.device.copy(kept, result)
    return kept


def _drop_unneeded(memory: SessionMemory, index: PlanningIndex, resident: Mapping[int, int]) -> None:
    program = index.program
    keep = {program.weights[value].identity for value in resident if value in program.weights}
    keep.update(body_weights(program))
    for value, source in program.weights.items():
        if source.identity not in keep and source.identity in memory.weight_buffers:
            memory.device.release(memory.weight_buffers.pop(source.identity))
            memory.weights.pop(value, None)


def reserve(memory: SessionMemory, plan: Plan) -> bool:
    """Makes the arena and the workspace slots at least as large as the plan's; True when anything moved.

    A slot never shrinks; the old one is released before the new one is acquired (semantics 1.8).
    """
    moved = False
    need = max(phase.arena.bytes for phase in plan.phases)
    if memory.arena is None or memory.arena.size < need:
        if memory.arena is not None:
            memory.device.release(memory.arena)
            memory.arena = None
        memory.arena = memory.device.allocate(site(ComponentName.ACTIVATIONS, "arena"), need)
        moved = True
    for lifetime in Lifetime:
        size = max(phase.workspace.bytes[lifetime] for phase in plan.phases)
        moved = reserve_slot(memory, lifetime, size) or moved
    return moved


def reserve_slot(memory: SessionMemory, lifetime: Lifetime, size: int) -> bool:
    """Makes one workspace slot at least ``size`` bytes; True when it was replaced (semantics 1.8)."""
    held = memory.workspace.get(lifetime)
    if size == 0 or (held is not None and held.size >= size):
        return False
    if held is not None:
        memory.device.release(memory.workspace.pop(lifetime))
    memory.workspace[lifetime] = memory.device.allocate(site(ComponentName.WORKSPACE, lifetime.value), size)
    return True


def bind_io(memory: SessionMemory, plan: Plan) -> bool:
    """Allocates the input and output buffers of the plan's rows, growing those that are too small."""
    moved = False
    for row in plan.bindings:
        size = row.figure.known
        held = memory.io.get(row.name)
        if held is not None and held.size >= size:
            continue
        if held is not None:
            memory.device.release(memory.io.pop(row.name))
        memory.io[row.name] = memory.device.allocate(site(ComponentName.BINDINGS, row.name), size)
        memory.io[row.name].bytes[:] = 0
        moved = True
    return moved

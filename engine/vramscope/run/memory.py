"""The memory of one session.

Weights, KV, arena, workspace and bindings, allocated from the plan to the byte and leased by a governor.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.governor_release import DeferredReleases, Quarantine
from vramscope.devices.ledger import Site
from vramscope.errors import VramscopeError
from vramscope.graph.dtypes import ElementType, is_packed, numpy_dtype
from vramscope.graph.weights import read_weight
from vramscope.ops.call import Packed, Tensor
from vramscope.ops.spec import Lifetime
from vramscope.plan.types import ComponentName, Plan
from vramscope.run.workspace import peak_of, reserve_slot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.devices.base import Buffer, Device
    from vramscope.devices.governor_growth import MappedZone
    from vramscope.graph.model import Array, WeightSource
    from vramscope.run.children import ChildExecutors
    from vramscope.run.leases import SessionLeases
    from vramscope.run.paging import WeightPager


@dataclass(slots=True, eq=False)
class SessionMemory:
    """Every buffer a session holds, and the tensors of its weights by value id."""

    device: Device
    leases: SessionLeases
    weights: dict[int, Tensor] = field(default_factory=dict)
    weight_buffers: dict[str, Buffer] = field(default_factory=dict)
    io: dict[str, Buffer] = field(default_factory=dict)
    kv: dict[str, Buffer] = field(default_factory=dict)
    arena: Buffer | None = None
    pager: WeightPager | None = None
    """Brings weights in that a budget does not hold; None where all are resident."""
    workspace: dict[Lifetime, Buffer] = field(default_factory=dict)
    alignments: dict[Lifetime, int] = field(default_factory=dict)
    """What each workspace slot is aligned to at least."""
    children: dict[str, ChildExecutors] = field(default_factory=dict)
    """Prepared bodies, by the path of their node."""
    returns_step: bool = False
    """Whether the step slot goes back after every run, so that its memory is kept for the next one."""
    zone: MappedZone | None = None
    """Where virtual memory is mapped; made when it is first needed."""
    quarantine: Quarantine = field(default_factory=Quarantine)
    """Bindings whose graph could not be retired: they stay charged."""
    releases: DeferredReleases = field(default_factory=DeferredReleases)
    """What was given back and is not freed yet."""
    _out: dict[int, Buffer] = field(default_factory=dict)

    def take(self, component: ComponentName, name: str, size: int) -> Buffer:
        """A new buffer, charged to its purpose's lease. A refused one changes nothing.

        Raises:
            LedgerSealedError: a graph is being captured or replayed.
            OutOfBudgetError: the governor's limit, or the device, does not hold it.
        """
        transient = self.returns_step and _is_step_slot(component, name)
        where = site(component, name, transient=transient)
        self.device.ledger.require_unsealed(where, size)
        self.leases.charge(where, size)
        try:
            buffer = self.device.allocate(where, size)
        except BaseException:
            self.leases.refund(where, size)
            raise
        self._out[buffer.lease.number] = buffer
        return buffer

    def give(self, buffer: Buffer) -> None:
        """Gives a buffer back, exactly once: at once, or behind the recording that is going on.

        Raises:
            VramscopeError: it was given back before.
        """
        if self._out.pop(buffer.lease.number, None) is None:
            raise VramscopeError(f"a buffer of {buffer.lease.site}", "it was given back already")
        self.releases.retire(buffer.lease.site, buffer.size, _ready, partial(self._free, buffer))
        self.releases.poll()

    def _free(self, buffer: Buffer) -> None:
        self.device.release(buffer)
        self.leases.refund(buffer.lease.site, buffer.size)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Held around a capture: what is given back inside is freed behind it (semantics 2.1)."""
        try:
            with self.releases.held():
                yield
        finally:
            self.releases.poll()

    def close(self) -> None:
        """Gives back every buffer and every lease; whoever holds this memory sees it empty."""
        self.quarantine.retry()
        for buffer in tuple(self._out.values()):
            self.give(buffer)
        for held in (self.weights, self.weight_buffers, self.io, self.kv, self.workspace):
            held.clear()
        self.children.clear()
        self.arena = self.pager = None
        self.leases.close()

    def weight_bytes(self, identity: str) -> Array:
        """A loaded weight's bytes, or the place of a streamed one in the window."""
        place = None if self.pager is None else self.pager.place(identity)
        return self.weight_buffers[identity].bytes if place is None else place

    def arena_view(self, offset: int, size: int) -> Array:
        """Bytes ``[offset, offset + size)`` of the arena."""
        if self.arena is None:
            return np.empty(0, np.uint8)
        return self.arena.bytes[offset : offset + size]


def _ready() -> bool:
    """A device's own release waits for the work that may use the buffer."""
    return True


def site(component: ComponentName, name: str, *, transient: bool = False) -> Site:
    """A ledger site of a plan's component."""
    return Site(component.value, name, transient=transient)


def _is_step_slot(component: ComponentName, name: str) -> bool:
    return component is ComponentName.WORKSPACE and name == Lifetime.STEP_SCOPED.value


def stored_tensor(memory: SessionMemory, source: WeightSource) -> Tensor:
    """A loaded weight under its own type and shape; text is no device memory and comes as objects."""
    if source.dtype is ElementType.STRING:
        return read_weight(source)
    raw = memory.weight_bytes(source.identity)
    if is_packed(source.dtype):
        return Packed(raw, source.dtype, source.shape)
    return raw.view(numpy_dtype(source.dtype)).reshape(source.shape)


def reserve(memory: SessionMemory, plan: Plan) -> bool:
    """Makes the arena and the workspace slots at least as large as the plan's; True when anything moved.

    A slot never shrinks; the old one is released before the new one is acquired (semantics 1.8).
    """
    moved = False
    need = max(phase.arena.bytes for phase in plan.phases)
    if memory.arena is None or memory.arena.size < need:
        replace_arena(memory, need)
        moved = True
    scratch = peak_of([phase.workspace for phase in plan.phases])
    for lifetime in Lifetime:
        moved = reserve_slot(memory, lifetime, scratch) or moved
    return moved


def replace_arena(memory: SessionMemory, size: int) -> None:
    """Gives the arena back, then takes one of ``size`` bytes."""
    if memory.arena is not None:
        memory.give(memory.arena)
        memory.arena = None
    memory.arena = memory.take(ComponentName.ACTIVATIONS, "arena", size)


def bind_io(memory: SessionMemory, plan: Plan) -> bool:
    """Allocates the input and output buffers of the plan's rows, growing those that are too small."""
    moved = False
    for row in plan.bindings:
        size = row.figure.known
        held = memory.io.get(row.name)
        if held is not None and held.size >= size:
            continue
        if held is not None:
            memory.give(memory.io.pop(row.name))
        memory.io[row.name] = memory.take(ComponentName.BINDINGS, row.name, size)
        memory.io[row.name].bytes[:] = 0
        moved = True
    return moved

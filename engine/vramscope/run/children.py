"""Prepared bodies of control-flow nodes: kernels looked up once for given formal inputs (semantics 2.7).

A node keeps the few it used last, by the types and shapes of its formal inputs; the one that was not used for
longest goes first, and nothing else does.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import ABSENT
from vramscope.ops.table import spec_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.base import Device
    from vramscope.graph.model import Program, Step
    from vramscope.ops.call import Tensor
    from vramscope.ops.spec import Kernel, OpSpec

KEPT_CHILDREN = 4
"""How many each node keeps."""

FormalKey: TypeAlias = tuple[int, tuple[tuple[object, tuple[int, ...]], ...]]
"""Which body, and type and shape of each of its formal inputs."""


@dataclass(frozen=True, slots=True)
class ChildStep:
    """One step of a body, ready to be given its inputs."""

    step: Step
    spec: OpSpec
    kernel: Kernel
    wanted: tuple[bool, ...]
    output_types: tuple[ElementType, ...]


@dataclass(frozen=True, slots=True)
class ChildStatistics:
    """How often a prepared body was found, made, and given up for another."""

    entries: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0


class ChildExecutors:
    """The prepared bodies of one node."""

    def __init__(self, kept: int = KEPT_CHILDREN) -> None:
        """Nothing is prepared yet."""
        self._kept = kept
        self._held: OrderedDict[FormalKey, tuple[ChildStep, ...]] = OrderedDict()
        self._hits = self._misses = self._evictions = 0

    @property
    def statistics(self) -> ChildStatistics:
        """The counts as they are now."""
        return ChildStatistics(len(self._held), self._hits, self._misses, self._evictions)

    def keys(self) -> tuple[FormalKey, ...]:
        """What is prepared, the one used longest ago first."""
        return tuple(self._held)

    def get(self, device: Device, body: Program, inputs: Sequence[Tensor]) -> tuple[ChildStep, ...]:
        """The steps of ``body``, prepared for these formal inputs."""
        key = id(body), tuple([_formal(value) for value in inputs])
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
            self._hits += 1
            return found
        self._misses += 1
        made = tuple(_prepared(device, body, step) for step in body.steps)
        self._held[key] = made
        if len(self._held) > self._kept:
            self._held.popitem(last=False)
            self._evictions += 1
        return made


def _formal(value: Tensor) -> tuple[object, tuple[int, ...]]:
    return ("sequence", ()) if isinstance(value, list) else (value.dtype, value.shape)


def _prepared(device: Device, body: Program, step: Step) -> ChildStep:
    spec = spec_for(step.node)
    return ChildStep(
        step,
        spec,
        device.kernel(step.node, spec),
        tuple(value != ABSENT for value in step.outputs),
        tuple(
            ElementType.UNDEFINED if value == ABSENT else body.values[value].dtype for value in step.outputs
        ),
    )

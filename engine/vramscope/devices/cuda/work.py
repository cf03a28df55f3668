"""One node's call as a kernel builder sees it: device tensors, planned scratch, values on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from vramscope.devices.cuda.array import on_device
from vramscope.errors import VramscopeError
from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.ops.call import Packed
from vramscope.ops.spec import ABSENT_META, TensorMeta, WorkspaceQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.library_form import AnyLaunch
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import WorkspaceRequirement

    Builder: TypeAlias = Callable[["Work"], Sequence[AnyLaunch]]


@dataclass(eq=False)
class NoKernelError(Exception):
    """This form of the node has no kernel on the device; it runs on the host instead."""

    why: str


class Mirror(Protocol):
    """Host copies of small constants that live on the device."""

    @property
    def clusters(self) -> bool:
        """Whether the card runs clusters of blocks."""

    @property
    def library(self) -> bool:
        """Whether cuBLASLt is there for products of many rows."""

    def constant(self, value: DeviceArray) -> Array | None:
        """The constant at this address; None when it is none, or too large to be kept."""

    def fetch(self, value: DeviceArray) -> Array:
        """A download, which a recording refuses."""


@dataclass(slots=True, eq=False)
class Work:
    """A call whose tensors all are on the device.

    ``volatile`` becomes True once a builder looked at a value that may change from run to run.
    """

    call: Call
    mirror: Mirror
    volatile: bool = False

    @property
    def node(self) -> Node:
        """The node."""
        return self.call.node

    @property
    def query(self) -> WorkspaceQuery:
        """The question a planner would have asked about exactly this call."""
        metas = tuple(
            TensorMeta(self.element(index), self.shape(index)) if self.has(index) else ABSENT_META
            for index in range(len(self.call.inputs))
        )
        return WorkspaceQuery(self.node, metas, sum(self.call.wanted))

    def has(self, index: int) -> bool:
        """Whether input ``index`` is given."""
        return self.call.has(index)

    def wants(self, index: int) -> bool:
        """Whether somebody reads output ``index``."""
        return self.call.wants(index)

    def input(self, index: int) -> DeviceArray:
        """Input ``index``; a packed type as its bytes.

        Raises:
            NoKernelError: it is missing or no tensor.
        """
        value = self.call.inputs[index] if index < len(self.call.inputs) else None
        found = on_device(value.data if isinstance(value, Packed) else value)
        if found is None:
            raise NoKernelError(f"input {index} is not a tensor on the device")
        return found

    def optional(self, index: int) -> DeviceArray | None:
        """Input ``index``, None when it is left out."""
        return self.input(index) if self.has(index) else None

    def element(self, index: int) -> ElementType:
        """The element type of input ``index``."""
        value = self.call.inputs[index]
        return value.dtype if isinstance(value, Packed) else from_numpy(self.input(index).dtype)

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of input ``index`` in elements, packed types too."""
        value = self.call.inputs[index]
        return value.shape if isinstance(value, Packed) else self.input(index).shape

    def output(self, index: int, shape: tuple[int, ...] | None = None) -> DeviceArray:
        """Where output ``index`` goes.

        Raises:
            VramscopeError: the plan placed it with another shape than ``shape``.
            NoKernelError: the plan could not place it.
        """
        placed = on_device(self.call.placed[index])
        if placed is None:
            raise NoKernelError(f"the shape of output {index} is data")
        if shape is not None and placed.shape != shape:
            raise VramscopeError(
                f"output {index} of {self.node.qualified}",
                f"the plan says {placed.shape}, the kernel computes {shape}",
                "This is a fault of shape inference: please report the model",
                self.node.name,
            )
        return placed

    def host(self, index: int) -> Array:
        """The values of input ``index`` on the host: a constant's copy, else a download."""
        value = self.input(index)
        found = self.mirror.constant(value)
        if found is None:
            self.volatile = True
            found = self.mirror.fetch(value)
        return found

    def host_integers(self, index: int) -> tuple[int, ...]:
        """The values of an integer input, flat."""
        return tuple(int(item) for item in np.asarray(self.host(index)).reshape(-1))

    def scratch(self, size: int, offset: int = 0) -> int:
        """The address of ``size`` planned bytes at ``offset`` of the workspace.

        Raises:
            VramscopeError: the plan reserved less ("undersized slot", semantics 1.11).
        """
        room = on_device(self.call.scratch_bytes)
        have = 0 if room is None else room.nbytes
        if room is None or offset + size > have:
            raise VramscopeError(
                f"workspace of {self.node.qualified}",
                f"the kernel needs {offset + size:,} bytes and {have:,} are prepared",
                "Prepare the session for this shape first",
                self.node.name,
            )
        return room.address + offset

    def regions(self, need: WorkspaceRequirement) -> dict[str, int]:
        """Addresses of the planned regions by name; none where nothing is needed.

        Raises:
            VramscopeError: the plan reserved less.
        """
        base = self.scratch(need.bytes) if need.bytes else 0
        return {part.name: base + part.offset for part in need.regions}

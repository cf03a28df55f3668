"""The host device: real NumPy buffers under a byte budget, counted like a card's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.base import Action, Buffer, Replay
from vramscope.devices.ledger import Ledger, Site
from vramscope.errors import RecordingError, VramscopeError
from vramscope.ops.reference import run_reference

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from vramscope.graph.model import Array, Node
    from vramscope.ops.spec import Kernel, OpSpec

ALIGNMENT = 256
"""Address alignment of every buffer, as cudaMalloc gives it."""


class HostDevice:
    """Buffers in host memory. The budget stands for the memory of the card that is being tried."""

    def __init__(self, budget: int | None = None) -> None:
        """``budget``: bytes that may be out at once; None for no limit."""
        self._ledger = Ledger(budget)
        self._open: dict[int, Buffer] = {}

    @property
    def name(self) -> str:
        """``host``."""
        return "host"

    @property
    def ledger(self) -> Ledger:
        """Counts what is out."""
        return self._ledger

    def allocate(self, site: Site, size: int) -> Buffer:
        """A new buffer of exactly ``size`` bytes, aligned; its contents are undefined.

        Raises:
            OutOfBudgetError: the budget does not hold it.
            LedgerSealedError: a graph is being captured or replayed.
        """
        lease = self._ledger.take(site, size)
        raw = np.empty(size + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        view = raw[start : start + size]
        buffer = Buffer(lease, view, view.ctypes.data)
        self._open[lease.number] = buffer
        return buffer

    def release(self, buffer: Buffer) -> None:
        """Gives a buffer back.

        Raises:
            VramscopeError: it was given back before.
        """
        self._ledger.give_back(buffer.lease)
        del self._open[buffer.lease.number]

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        """The operator's own host kernel, else the reference evaluator."""
        del node
        return spec.kernel or run_reference

    def capture_refusal(self, node: Node, spec: OpSpec) -> str:
        """The reference evaluator allocates as it likes, so only own kernels are recorded."""
        del node
        if spec.kernel is None:
            return "it has no kernel of its own and runs through the reference evaluator"
        return spec.capture_refusal

    def owns(self, value: object) -> bool:
        """Whether it is a NumPy array."""
        return isinstance(value, np.ndarray)

    def upload(self, target: Array, source: Array) -> None:
        """Copies bytes."""
        np.copyto(target, source, casting="unsafe")

    def download(self, source: Array) -> Array:
        """A copy."""
        return np.array(source)

    def copy(self, target: Array, source: Array) -> None:
        """Copies elements."""
        np.copyto(target, source, casting="unsafe")

    def running(self) -> AbstractContextManager[None]:
        """Kernels compute with infinities and NaN as ONNX says, without warnings."""
        return np.errstate(all="ignore")

    def record(self, actions: Sequence[Action]) -> Replay:
        """Runs the actions with the ledger sealed and keeps them: a replay runs the same list again.

        Raises:
            RecordingError: an action failed or allocated.
        """
        for position, (name, action) in enumerate(actions):
            try:
                with self._ledger.sealed(f"the recording of {name}"):
                    action()
            except VramscopeError as error:
                raise RecordingError(
                    what="recording a graph",
                    why=str(error),
                    remedy="The operator runs eagerly from now on",
                    node=name,
                    action=position,
                ) from error
        frozen = tuple(action for _, action in actions)

        def replay() -> None:
            with self._ledger.sealed("a replay"):
                for action in frozen:
                    action()

        return replay

    def synchronize(self) -> None:
        """Host work is done when its call returns."""

    def close(self) -> None:
        """Gives back everything that is still out."""
        for buffer in tuple(self._open.values()):
            self.release(buffer)

"""The host device: real NumPy buffers under a byte budget, counted like a card's memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.base import (
    Action,
    Behind,
    BoundLaunch,
    Buffer,
    FeedWrite,
    FusionFacts,
    GraphFacts,
    Groups,
    NoRoomError,
    Pending,
    Replay,
    unwatched,
)
from vramscope.devices.blas import BlasThreads
from vramscope.devices.buffers import DeviceBuffers
from vramscope.devices.latch import ErrorLatch
from vramscope.devices.pages import HostMemory
from vramscope.devices.sampling import GREEDY, choose
from vramscope.devices.stopwatch import HostStopwatch
from vramscope.errors import CancelledError, RecordingError, VramscopeError
from vramscope.ops.reference import run_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from vramscope.devices.governor_pool import PoolOptions
    from vramscope.devices.ledger import AllocationCounts, Ledger, Site
    from vramscope.devices.sampling import Sampling
    from vramscope.graph.model import Array, Node
    from vramscope.ops.spec import Kernel, OpSpec

ALIGNMENT = 512
"""Address alignment of every buffer, as cudaMalloc gives it in practice (it promises 256)."""


class HostDevice:
    """Buffers in host memory. The budget stands for the memory of the card that is being tried."""

    def __init__(
        self, budget: int | None = None, threads: int | None = None, pool: PoolOptions | None = None
    ) -> None:
        """Nothing is allocated.

        Args:
            budget: bytes that may be out at once, None for no limit.
            threads: of BLAS, None to measure.
            pool: how scratch is kept between runs.
        """
        self._blas = BlasThreads(threads)
        memory = HostMemory(ALIGNMENT)
        self.buffers = DeviceBuffers(budget, memory, memory.view, pool)
        self._recording = False
        self._deferred: list[Buffer] = []
        self._closed = 0
        self._latch = ErrorLatch()

    @property
    def latch(self) -> ErrorLatch:
        """Flags that kernels raise for the request to find after it has waited."""
        return self._latch

    @property
    def name(self) -> str:
        """``host``."""
        return "host"

    @property
    def ledger(self) -> Ledger:
        """Counts what is out."""
        return self.buffers.ledger

    @property
    def allocation_counts(self) -> AllocationCounts:
        """Requests of memory from the operating system."""
        return self.buffers.allocation_counts

    @property
    def runtime(self) -> str:
        """The host kernels'."""
        return "vramscope"

    def allocate(self, site: Site, size: int) -> Buffer:
        """A new buffer of exactly ``size`` bytes, aligned; its contents are undefined.

        Raises:
            OutOfBudgetError: the budget does not hold it.
            LedgerSealedError: a graph is being captured or replayed.
            MemoryError: the operating system refused; nothing stays counted.
        """
        try:
            return self.buffers.allocate(site, size)
        except NoRoomError as error:
            raise MemoryError(error.why) from error

    def release(self, buffer: Buffer) -> None:
        """Gives a buffer back; inside a recording it is given back after it.

        Raises:
            VramscopeError: it was given back before.
        """
        if self._recording:
            self._deferred.append(buffer)
            return
        self.buffers.release(buffer)

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        """The operator's own host kernel, else the reference evaluator."""
        del node
        return spec.kernel or run_reference

    def fuse(self, launches: Sequence[BoundLaunch], roots: Mapping[int, int], facts: FusionFacts) -> Groups:
        """Host kernels stay one a node."""
        del launches, roots, facts
        return ()

    def stopwatch(self) -> HostStopwatch:
        """The host's clock."""
        return HostStopwatch()

    @property
    def commits_on_demand(self) -> bool:
        """The operating system maps a page when it is first touched."""
        return True

    @property
    def generation(self) -> int:
        """How often it was closed."""
        return self._closed

    def finalise(self, launches: Sequence[BoundLaunch]) -> tuple[Pending, ...]:
        """Host kernels need nothing that a recording forbids."""
        del launches
        return ()

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
        """A copy.

        Raises:
            VramscopeError: a graph is being recorded: the host cannot read what has not run.
        """
        self._refuse_recording("a copy to the host")
        return np.array(source)

    def copy(self, target: Array, source: Array) -> None:
        """Copies elements."""
        np.copyto(target, source, casting="unsafe")

    def feed_action(self, writes: Sequence[FeedWrite]) -> Callable[[], None]:
        """Writes feed after feed."""
        every = [_feed(item) for item in writes]

        def advance() -> None:
            for write in every:
                write()

        return advance

    def choose_action(
        self,
        logits: Array,
        token: Array,
        length: Array,
        sampling: Sampling = GREEDY,
        ring: Array | None = None,
    ) -> Callable[[], None]:
        """Chooses in float32."""
        sequences = np.arange(token.size)

        def chosen() -> None:
            np.add(length, 1, out=length)
            token[:] = choose(sampling, logits, length)
            if ring is not None:
                ring[length % len(ring), sequences] = token

        return chosen

    def running(self) -> AbstractContextManager[None]:
        """Kernels compute with infinities and NaN as ONNX says, without warnings."""
        return self._computing()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with np.errstate(all="ignore"), self._blas.held():
            yield

    def record(self, actions: Sequence[Action], behind: Behind = unwatched) -> Replay:
        """Runs the actions with the ledger sealed and keeps them: a replay runs the same list again.

        Raises:
            RecordingError: an action failed, allocated, read on the host or waited; nothing stays recorded.
        """
        if self._recording:
            raise VramscopeError("recording a graph", "another graph is being recorded", "End it first")
        self._recording = True
        try:
            for position, (name, action) in enumerate(actions):
                self._record_one(position, name, action)
                behind()
        finally:
            self._end_recording()
        return HostGraph(tuple(action for _, action in actions), self.ledger)

    def relaunch(self, replay: Replay, behind: Behind) -> None:
        """Runs the list again, telling ``behind`` action by action."""
        if isinstance(replay, HostGraph):
            replay.watched(behind)
        else:
            replay()

    def _record_one(self, position: int, name: str, action: Callable[[], None]) -> None:
        try:
            with self.ledger.sealed(f"the recording of {name}"):
                action()
        except CancelledError:
            raise
        except Exception as error:  # whatever a kernel raises ends the recording
            raise RecordingError.of(name, position, error) from error

    def _end_recording(self) -> None:
        self._recording = False
        deferred, self._deferred = self._deferred, []
        for buffer in deferred:
            self.release(buffer)

    def _refuse_recording(self, what: str) -> None:
        if self._recording:
            raise VramscopeError(
                what, "a graph is being recorded, and nothing in it has run", "Do it between two segments"
            )

    def graph_facts(self, replay: Replay) -> GraphFacts | None:
        """None: a list of actions is no device graph."""
        del replay
        return None

    def synchronize(self) -> None:
        """Host work is done when its call returns.

        Raises:
            VramscopeError: a graph is being recorded.
        """
        self._refuse_recording("waiting for the device")

    def close(self) -> None:
        """Gives back everything that is still out."""
        self._closed += 1
        self.buffers.close()


class HostGraph:
    """Actions kept in their order: a call runs them again, with the ledger sealed."""

    __slots__ = ("_actions", "_ledger")

    def __init__(self, actions: tuple[Callable[[], None], ...], ledger: Ledger) -> None:
        """``ledger``: the device's."""
        self._actions = actions
        self._ledger = ledger

    def __call__(self) -> None:
        """Runs them."""
        with self._ledger.sealed("a replay"):
            for action in self._actions:
                action()

    def watched(self, behind: Behind) -> None:
        """Runs them, telling ``behind`` of each."""
        with self._ledger.sealed("a replay"):
            for action in self._actions:
                action()
                behind()


def _feed(write: FeedWrite) -> Callable[[], None]:
    target, source, offset = write.target, write.source, write.offset
    if source is None:

        def fill() -> None:
            target[...] = offset

        return fill
    rows = np.arange(source.size)
    if write.kind == "mark":

        def mark() -> None:
            target[rows, source] = 1

        return mark

    def copy() -> None:
        np.add(source, offset, out=target, casting="unsafe")

    return copy

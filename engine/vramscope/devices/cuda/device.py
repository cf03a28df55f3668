"""The CUDA device: memory straight from the driver and counted, one stream, thread-local graph capture."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vramscope.devices.base import Buffer, NoRoomError, unwatched
from vramscope.devices.buffers import DeviceBuffers
from vramscope.devices.card import Outside
from vramscope.devices.cuda.array import DeviceArray, at_address, contiguous_runs, need_device
from vramscope.devices.cuda.fallback import run_on_host
from vramscope.devices.cuda.fusing import fuse_program
from vramscope.devices.cuda.layout import copy_launches
from vramscope.devices.cuda.pages import RuntimeMemory, page_of
from vramscope.devices.cuda.platform import Platform, open_platform
from vramscope.devices.cuda.prepared import Prepared, finalise_all, no_kernel, node_kernel
from vramscope.devices.cuda.recording import RecordedGraph, Recorder
from vramscope.devices.cuda.staging import STAGED_BYTES
from vramscope.devices.cuda.stepping import advance_launch, choose_launch
from vramscope.devices.cuda.stopwatch import EventStopwatch
from vramscope.devices.cuda.table import BUILDERS
from vramscope.devices.cuda.work import NoKernelError, Work
from vramscope.devices.sampling import GREEDY
from vramscope.errors import (
    AllocationFailedError,
    UnsupportedOperatorError,
    VramscopeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from vramscope.devices.base import (
        Action,
        Behind,
        BoundLaunch,
        FeedWrite,
        FusionFacts,
        GraphFacts,
        Groups,
        Pending,
        Replay,
    )
    from vramscope.devices.cuda.library_form import AnyLaunch
    from vramscope.devices.cuda.platform import Issue
    from vramscope.devices.cuda.work import Builder
    from vramscope.devices.ledger import AllocationCounts, Ledger, Site
    from vramscope.devices.sampling import Sampling
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel, OpSpec

MIRRORED_BYTES = 4096
"""Constants up to this size keep a copy on the host: shapes, axes, bounds."""
WEIGHTS = "weights"
"""The component whose buffers hold constants."""


class CudaDevice:
    """One GPU. Every byte of it that a session uses comes from the driver and is in the ledger."""

    def __init__(self, budget: int | None = None, index: int = 0, platform: Platform | None = None) -> None:
        """Opens GPU ``index``; its context is made here.

        Args:
            budget: bytes that may be out at once; None for what the card has.
            index: the GPU.
            platform: what stands for CUDA; left out, CuPy and the driver.

        Raises:
            InputError: CuPy or the driver is missing, or there is no GPU.
        """
        self._platform = platform or open_platform(index)
        self._runtime: Any = self._platform.runtime
        self._stream: Any = self._platform.stream
        self._index = index
        memory = self._platform.memory or RuntimeMemory(self._runtime)
        self.buffers = DeviceBuffers(budget, memory, self._bytes)
        free, total = self.card_memory()
        self.outside = Outside(total - free, page_of(memory))
        """What was in use before the first buffer: the driver's context, and other programs."""
        self._constants: dict[int, Array] = {}
        self._refusals: dict[int, str] = {}
        self._recorder = Recorder(self._platform, self.buffers.ledger)
        self._closed = 0
        self.fusing = True

    @property
    def clusters(self) -> bool:
        """Whether the card has clusters, and lets a kernel begin while the one before it ends."""
        return self._platform.hopper

    @property
    def recorded(self) -> list[Issue]:
        """What the graph that was recorded last launches, in order."""
        return self._recorder.issues

    @property
    def library(self) -> bool:
        """Whether cuBLASLt is there for products of many rows."""
        return self._platform.library

    @property
    def stream(self) -> Any:  # noqa: ANN401 - CuPy has no types
        """The stream of all work."""
        return self._stream

    @property
    def name(self) -> str:
        """``cuda:0``."""
        return f"cuda:{self._index}"

    @property
    def ledger(self) -> Ledger:
        """Counts what is out."""
        return self.buffers.ledger

    @property
    def runtime(self) -> str:
        """Plans count the scratch of the CUDA kernels."""
        return "cuda"

    @property
    def allocation_counts(self) -> AllocationCounts:
        """Calls of the driver's allocator."""
        return self.buffers.allocation_counts

    def card_memory(self) -> tuple[int, int]:
        """Bytes of the card: free, and in all."""
        return cast("tuple[int, int]", self._runtime.memGetInfo())

    def allocate(self, site: Site, size: int) -> Buffer:
        """A new buffer of exactly ``size`` bytes; its contents are undefined.

        Raises:
            OutOfBudgetError: the budget does not hold it.
            LedgerSealedError: a graph is being captured or replayed.
            AllocationFailedError: the card has no room.
        """
        try:
            return self.buffers.allocate(site, size)
        except NoRoomError as error:
            free, total = self._runtime.memGetInfo()
            raise AllocationFailedError(
                what=f"{size:,} bytes for {site}",
                why=f"{free:,} of {total:,} bytes of {self.name} are free ({error.why})",
                remedy="Lower the context or the batch, or free memory on the card",
                requested=size,
                used=total - free,
            ) from error

    def _bytes(self, address: int, size: int) -> Array:
        return cast("Array", at_address(self, address, size))

    def release(self, buffer: Buffer) -> None:
        """Gives a buffer back, once the work that may use it is done."""
        self._stream.synchronize()
        self.buffers.release(buffer)
        self._constants = {
            start: value
            for start, value in self._constants.items()
            if not buffer.address <= start < buffer.address + max(buffer.size, 1)
        }

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        """The node's kernels on the card where there are some, else its host kernel on copies.

        Raises:
            UnsupportedOperatorError: neither exists.
        """
        return node_kernel(self, BUILDERS.get((node.domain, node.operator), no_kernel), node, spec)

    @property
    def commits_on_demand(self) -> bool:
        """The driver backs a buffer when it is taken."""
        return False

    @property
    def generation(self) -> int:
        """How often it was closed."""
        return self._closed

    def finalise(self, launches: Sequence[BoundLaunch]) -> tuple[Pending, ...]:
        """Makes every launch: code compiled and loaded, products' algorithms chosen, constants read."""
        return finalise_all(launches)

    def fuse(self, launches: Sequence[BoundLaunch], roots: Mapping[int, int], facts: FusionFacts) -> Groups:
        """Norms, products, biases, residuals and gated activations become one launch a group."""
        return fuse_program(self, launches, roots, facts) if self.fusing else ()

    def stopwatch(self) -> EventStopwatch:
        """Events on the stream."""
        return EventStopwatch(self._runtime, self._stream)

    def builds(self, call: Call) -> bool:
        """Whether a call's kernels can be made; they are, and wait in its memo."""
        return not self.prepare(BUILDERS[call.node.domain, call.node.operator], call.node, call).refusal

    def launching(self, launch: AnyLaunch) -> Callable[[], None]:
        """A call that issues the launch, and notes it while a graph is recorded."""
        return self._noted([self._bind(launch)])

    def prepare(self, builder: Builder, node: Node, call: Call) -> Prepared:
        """Makes a call's launches; they wait in its memo unless they hang on what may change."""
        work = Work(call, self)
        try:
            made = Prepared(call.inputs, tuple(self._bind(item) for item in builder(work)))
            self._refusals.pop(id(node), None)
        except NoKernelError as refusal:
            made = Prepared(call.inputs, (), refusal.why)
            self._refusals[id(node)] = refusal.why
        call.memo = None if work.volatile else made
        return made

    def issue(self, launch: AnyLaunch) -> None:
        """Launches once."""
        self._bind(launch)()

    def _bind(self, launch: AnyLaunch) -> Issue:
        return self._platform.loader.bind(launch, self._stream.ptr, overlap=self.clusters)

    def run_on_host(self, node: Node, spec: OpSpec, call: Call, why: str) -> None:
        """Runs the host kernel on copies.

        Raises:
            UnsupportedOperatorError: a graph is being recorded.
        """
        if self._recorder.node:
            raise UnsupportedOperatorError(node.qualified, f"it runs on the host: {why}", "", node.name)
        memo = call.memo
        run_on_host(self, spec, call)
        call.memo = memo

    def capture_refusal(self, node: Node, spec: OpSpec) -> str:
        """Nodes that run on the host, and those that can never be recorded."""
        if spec.capture_refusal:
            return spec.capture_refusal
        if (node.domain, node.operator) not in BUILDERS:
            return "it has no CUDA kernel and runs on the host"
        why = self._refusals.get(id(node))
        return f"it runs on the host: {why}" if why else ""

    def owns(self, value: object) -> bool:
        """Whether it is an array of a CUDA device."""
        return isinstance(value, DeviceArray)

    def upload(self, target: Array, source: Array) -> None:
        """Copies a host array into device memory; small constants are remembered."""
        into = need_device(target)
        values = np.asarray(source)
        if values.shape != into.shape:
            values = values.reshape(into.shape)
        self.write(into, np.ascontiguousarray(values.astype(into.dtype, copy=False)))
        if into.nbytes <= MIRRORED_BYTES and self._is_weight(into.address):
            self._constants[into.address] = np.frombuffer(values.tobytes(), np.uint8)

    def _is_weight(self, address: int) -> bool:
        weights = (item for item in self.buffers.held if item.lease.site.component == WEIGHTS)
        return any(item.address == address for item in weights)

    def download(self, source: Array) -> Array:
        """A host copy."""
        return self.read(need_device(source))

    def constant(self, value: DeviceArray) -> Array | None:
        """The host copy of a small constant."""
        raw = self._constants.get(value.address)
        if raw is None or raw.size != value.nbytes or not value.contiguous:
            return None
        return cast("Array", raw.view(value.dtype).reshape(value.shape))

    def fetch(self, value: DeviceArray) -> Array:
        """A download that names the node while a graph is recorded."""
        if self._recorder.node:
            raise VramscopeError(
                "reading a value on the host", "a graph is being recorded", "", self._recorder.node
            )
        return self.read(value)

    def read(self, source: DeviceArray) -> Array:
        """A host copy; waits for the stream."""
        found = np.empty(source.shape, source.dtype)
        if source.contiguous and source.size:
            host = found.__array_interface__["data"][0]
            self._copy(host, source.address, source.nbytes, self._runtime.memcpyDeviceToHost)
        elif source.size:
            for where, device in contiguous_runs(source):
                part = found[where]
                self._copy(part.ctypes.data, device.address, device.nbytes, self._runtime.memcpyDeviceToHost)
        self._stream.synchronize()
        return found

    def write(self, target: DeviceArray, source: Array) -> None:
        """Copies host elements of the same shape and type; waits until they are read."""
        if not target.size:
            return
        staging = self._platform.staging
        for where, device in contiguous_runs(target):
            host = np.ascontiguousarray(source[where])
            if staging is not None and host.nbytes >= STAGED_BYTES:
                staging.copy(device.address, host)
                continue
            self._copy(device.address, host.ctypes.data, device.nbytes, self._runtime.memcpyHostToDevice)
            self._stream.synchronize()

    def _copy(self, target: int, source: int, size: int, kind: int) -> None:
        self._runtime.memcpyAsync(target, source, size, kind, self._stream.ptr)

    def clear(self, target: DeviceArray) -> None:
        """Sets every byte of a contiguous array to 0."""
        if target.nbytes:
            self._runtime.memsetAsync(target.address, 0, target.nbytes, self._stream.ptr)

    def copy(self, target: Array, source: Array) -> None:
        """Copies within the device; shapes are equal, types may differ."""
        for launch in copy_launches(need_device(source), need_device(target)):
            self._bind(launch)()

    def feed_action(self, writes: Sequence[FeedWrite]) -> Callable[[], None]:
        """One kernel that moves every feed on by one token."""
        return self._noted([self._bind(advance_launch(writes))])

    def choose_action(
        self,
        logits: Array,
        token: Array,
        length: Array,
        sampling: Sampling = GREEDY,
        ring: Array | None = None,
    ) -> Callable[[], None]:
        """One kernel that writes the token chosen from every row and adds 1 to every length."""
        rows, into, count = (need_device(item) for item in (logits, token, length))
        kept = None if ring is None else need_device(ring)
        launch = choose_launch(rows, (into, count, kept), sampling, clusters=self.clusters)
        return self._noted([self._bind(launch)])

    def _noted(self, issues: Sequence[Issue]) -> Callable[[], None]:
        def issue_all() -> None:
            for issue in issues:
                issue()
            self._recorder.note(issues)

        return issue_all

    def note(self, launches: Sequence[Issue]) -> None:
        """Remembers what was issued while a graph is recorded."""
        self._recorder.note(launches)

    def running(self) -> AbstractContextManager[None]:
        """Nothing to hold: every launch names its stream."""
        return nullcontext()

    def record(self, actions: Sequence[Action], behind: Behind = unwatched) -> Replay:
        """Captures the actions as one graph, thread-locally, and launches it once.

        Raises:
            RecordingError: an action failed, allocated, or read on the host.
        """
        return self._recorder.record(actions, behind)

    def relaunch(self, replay: Replay, behind: Behind) -> None:
        """One launch of all: there is nothing between its actions to tell of."""
        del behind
        replay()

    def graph_facts(self, replay: Replay) -> GraphFacts | None:
        """Nodes and drawing of a graph that was recorded here."""
        return replay.facts if isinstance(replay, RecordedGraph) else None

    def synchronize(self) -> None:
        """Waits until all launched work is done."""
        self._stream.synchronize()

    def close(self) -> None:
        """Gives back everything that is still out."""
        self._closed += 1
        self._stream.synchronize()
        self.buffers.close()
        self._constants.clear()
        self._platform.loader.close()
        if self._platform.staging is not None:
            self._platform.staging.close()
        self._refusals.clear()

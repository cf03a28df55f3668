"""What a device offers: buffers under a ledger, kernels, copies, and the recording of graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vramscope.devices.sampling import GREEDY

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from vramscope.devices.ledger import AllocationCounts, Lease, Ledger, Site
    from vramscope.devices.sampling import Sampling
    from vramscope.devices.stopwatch import Stopwatch
    from vramscope.graph.model import Array, Node, Step
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel, OpSpec

Replay: TypeAlias = Callable[[], None]
"""Launches a recorded graph once."""

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Launches that became one, group by group, each in order."""

Action: TypeAlias = tuple[str, Callable[[], None]]
"""Work to record, and the name of the node it belongs to (for errors)."""

Behind: TypeAlias = Callable[[], None]
"""Told behind each of several actions."""


def unwatched() -> None:
    """For actions that nobody watches."""


@dataclass(frozen=True, slots=True)
class FeedWrite:
    """One tensor moved on by a token, for every sequence ``b`` of the batch, on the device.

    Attributes:
        kind: ``copy``: target[b] = source[b] + offset; ``mark``: target[b, source[b]] = 1; ``fill``:
            target[b] = offset.
        target: what is written; [batch], or [batch, columns] for ``mark``.
        source: int64 [batch]; None for ``fill``.
        offset: added, or filled in.
    """

    kind: str
    target: Array
    source: Array | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """A recorded graph as the device itself has it: how many nodes, and all of it in Graphviz' language."""

    nodes: int
    dot: str


@dataclass(frozen=True, slots=True)
class FusionFacts:
    """What a device must know to fuse: which values are weights, and which are read outside the program."""

    constants: frozenset[int]
    kept: frozenset[int]


@dataclass(frozen=True, slots=True)
class Pending:
    """A step of the program for which something is not final, and why."""

    step: int
    why: str


class BoundLaunch(Protocol):
    """A launch of a program as the runner binds it; its kernel may be exchanged."""

    step: Step
    kernel: Kernel
    call: Call
    late_inputs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Device memory.

    ``bytes`` is a flat uint8 array of exactly the leased size, ``address`` where it starts.
    """

    lease: Lease
    bytes: Array
    address: int

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.lease.size


@dataclass(eq=False)
class NoRoomError(Exception):
    """The memory underneath has no room, in its own words."""

    why: str


class Memory(Protocol):
    """Where a device's buffers come from."""

    def malloc(self, size: int) -> int:
        """The address of ``size`` new bytes; raises NoRoomError."""

    def free(self, address: int) -> None:
        """Takes them back, once nothing on the device uses them."""

    def close(self) -> None:
        """Gives everything back."""


class Device(Protocol):
    """One device. Every byte it gives out is in its ledger; one thread owns it."""

    @property
    def name(self) -> str:
        """A short name: ``host`` or ``cuda:0``."""

    @property
    def ledger(self) -> Ledger:
        """Counts what is out."""

    @property
    def runtime(self) -> str:
        """Whose kernels' scratch a plan for this device counts: a scenario's ``runtime``."""

    @property
    def allocation_counts(self) -> AllocationCounts:
        """Calls of the memory underneath so far; scratch that was kept since the last run costs none."""

    def allocate(self, site: Site, size: int) -> Buffer:
        """A new buffer of exactly ``size`` bytes; raises OutOfBudgetError or LedgerSealedError."""

    def release(self, buffer: Buffer) -> None:
        """Gives a buffer back, exactly once."""

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        """What runs ``node`` here; raises UnsupportedOperatorError when nothing does."""

    def fuse(self, launches: Sequence[BoundLaunch], roots: Mapping[int, int], facts: FusionFacts) -> Groups:
        """May give launches that belong together other kernels: one does the work of all, the rest nothing.

        Args:
            launches: of one bound program, in order.
            roots: value → the value whose bytes it is.
            facts: which values are weights, which are seen outside.

        Returns:
            Positions of the launches that became one, group by group; empty where each stays its own.
        """

    @property
    def commits_on_demand(self) -> bool:
        """Whether a buffer's bytes are backed by memory only as they are touched."""

    @property
    def generation(self) -> int:
        """Moves when the device's code and buffers are dropped: nothing recorded before may be launched."""

    def finalise(self, launches: Sequence[BoundLaunch]) -> tuple[Pending, ...]:
        """Makes final what launches need before they can be recorded; those for which it is not, and why."""

    def capture_refusal(self, node: Node, spec: OpSpec) -> str:
        """Why this device cannot record ``node``; empty when it can."""

    def owns(self, value: object) -> bool:
        """Whether ``value`` is an array of this device."""

    def upload(self, target: Array, source: Array) -> None:
        """Copies a host array into device memory of the same number of bytes."""

    def download(self, source: Array) -> Array:
        """A host copy of a device array."""

    def copy(self, target: Array, source: Array) -> None:
        """Copies within the device; shapes are equal, types may differ."""

    def feed_action(self, writes: Sequence[FeedWrite]) -> Callable[[], None]:
        """An action, recordable, that moves every feed on by one token inside device memory."""

    def choose_action(
        self,
        logits: Array,
        token: Array,
        length: Array,
        sampling: Sampling = GREEDY,
        ring: Array | None = None,
    ) -> Callable[[], None]:
        """An action, recordable, that adds 1 to each length and writes the token chosen from each row.

        Args:
            logits: [batch, vocabulary], any float type; of equal ones the first counts as likelier.
            token: int64 [batch], written.
            length: int64 [batch], written; what a draw depends on beside the seed and the row.
            sampling: how, as :func:`vramscope.devices.sampling.choose` says.
            ring: int64 [slots, batch]; each token is also written at its new length modulo slots.
        """

    def stopwatch(self) -> Stopwatch:
        """Times what is issued between its marks."""

    def running(self) -> AbstractContextManager[None]:
        """Held around a run: error state and stream of this device."""

    def record(self, actions: Sequence[Action], behind: Behind = unwatched) -> Replay:
        """Records the actions as one graph *and executes them once*; nothing may be allocated meanwhile.

        Args:
            actions: in order.
            behind: told as each has been recorded.

        Raises:
            RecordingError: an action failed or allocated; nothing stays recorded.
        """

    def relaunch(self, replay: Replay, behind: Behind) -> None:
        """Launches a graph once; ``behind`` is told where its actions run one by one, as each has run."""

    def graph_facts(self, replay: Replay) -> GraphFacts | None:
        """What the device says of a graph it recorded; None where it has no graphs of its own."""

    def synchronize(self) -> None:
        """Waits until all launched work is done."""

    def close(self) -> None:
        """Gives back everything that is still out."""

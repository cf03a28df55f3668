"""What a session really ran, span by span: a bounded record, for viewers of traces.

All times are readings of one clock (``time.perf_counter``), so spans lie inside each other exactly: nodes
inside segments and seams, those inside steps. On a device that works on its own the span of a launch is the
host's time for issuing it; a step that is profiled adds what its nodes took there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from vramscope.devices.ledger import Counters, Ledger
    from vramscope.run.events import Event

KEPT = 100_000
"""Records that a tracer keeps: about 30 MiB. Of more the oldest go, and how many is said."""


class SpanKind(Enum):
    """What a span is of."""

    STEP = "step"
    """Loading, a prompt's pass, one decode step, one request of a program session."""
    SEGMENT = "segment"
    """A captured segment: recorded, or launched again."""
    SEAM = "seam"
    """Nodes that run eagerly between two graphs."""
    NODE = "node"
    WORK = "work"
    """What surrounds the program: feeds moved on, a token chosen."""
    DEVICE = "device"
    """A node as the device itself timed it."""


class CaptureStatus(Enum):
    """What a capture made of a node; a plain eager one has neither (semantics 2.1)."""

    NONE = ""
    CAPTURED = "captured"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a capture made of a node, why where it was rejected, and the kind of path that it takes."""

    status: CaptureStatus = CaptureStatus.NONE
    reason: str = ""
    path: str = ""


PLAIN = Verdict()


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time.

    Attributes:
        kind: of what.
        name: of the step's phase, the segment, the node.
        start: reading of the clock.
        end: reading of the clock.
        operator: of a node, ``domain::operator``.
        bytes: of a node's outputs; None where they are no memory, and for what is no node.
        number: a step's position, a segment's index among the graphs, a node's step of the program.
        nodes: how many lie in a segment or a seam.
        verdict: what a capture made of it.
        inside: the node whose launch does this one's work too; empty where it has its own.
    """

    kind: SpanKind
    name: str
    start: float
    end: float
    operator: str = ""
    bytes: int | None = None
    number: int = -1
    nodes: int = 0
    verdict: Verdict = PLAIN
    inside: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment: a capture, a decline, an invalidation and its cause."""

    at: float
    event: Event


@dataclass(frozen=True, slots=True)
class Sample:
    """What the ledger held at one moment: current bytes by component, allocations so far."""

    at: float
    components: tuple[tuple[str, int], ...]
    allocations: int


Record: TypeAlias = Span | Mark | Sample


@dataclass(frozen=True, slots=True)
class Trace:
    """What was recorded.

    Attributes:
        model: its name.
        device: its name.
        waits: whether work is done when its call returns, so that spans are true durations.
        started: reading of the clock at which recording began.
        records: in the order in which they ended.
        dropped: older ones that were not kept.
    """

    model: str
    device: str
    waits: bool
    started: float
    records: tuple[Record, ...]
    dropped: int


class Tracer:
    """Records what one session runs, from the moment it is given to it."""

    def __init__(self, limit: int = KEPT) -> None:
        """``limit``: records that are kept, the newest ones."""
        self._records: deque[Record] = deque(maxlen=limit)
        self._seen = 0
        self._started = perf_counter()
        self._total: Counters | None = None
        self._model = self._device = ""
        self._waits = True

    def attach(self, model: str, device: str, *, waits: bool) -> None:
        """Of which session the records are from here on; arguments as :class:`Trace` says."""
        self._model, self._device, self._waits = model, device, waits

    def add(self, record: Record) -> None:
        """Keeps a record."""
        self._seen += 1
        self._records.append(record)

    def event(self, event: Event) -> None:
        """Keeps an event at this moment."""
        self.add(Mark(perf_counter(), event))

    def sample(self, ledger: Ledger) -> None:
        """Keeps what the ledger holds, where that has changed."""
        if ledger.total is self._total:
            return
        self._total = ledger.total
        held = tuple((name, counters.current_bytes) for name, counters in ledger.components.items())
        self.add(Sample(perf_counter(), held, ledger.total.total_count))

    @property
    def kept(self) -> int:
        """Records that are kept now."""
        return len(self._records)

    @property
    def dropped(self) -> int:
        """Older records that had to go."""
        return self._seen - len(self._records)

    def trace(self) -> Trace:
        """Everything so far."""
        return Trace(
            self._model, self._device, self._waits, self._started, tuple(self._records), self.dropped
        )


class Marks:
    """Readings of the clock: one now, before the first of several actions, and one behind each."""

    def __init__(self) -> None:
        """Reads the clock for the first time."""
        self.times = [perf_counter()]

    def mark(self) -> None:
        """Reads the clock."""
        self.times.append(perf_counter())

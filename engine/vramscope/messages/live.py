"""Live: progress, events, counters and snapshots."""

from __future__ import annotations

import msgspec

from vramscope.messages.planning import BytesFigure, ComponentInfo


class Empty(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters, or no result."""


class CancelParams(msgspec.Struct, frozen=True, kw_only=True):
    """The id of the request to stop."""

    request: int


class CancelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Whether that request was running or waiting."""

    found: bool


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a running request is; ``total`` 0: not known."""

    request: int
    stage: str
    done: int
    total: int


class EventInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened, in order; it holds nothing that could refer back to it."""

    sequence: int
    seconds: float
    """Since the engine started, as in :class:`SnapshotInfo`."""
    kind: str
    """allocate, release, phase, capture, decline, replay, invalidate, transfer, grow, token or note."""
    step: int
    subject: str
    text: str
    bytes: int
    component: str


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Events since the last batch; ``dropped`` counts those a full buffer lost."""

    events: list[EventInfo]
    dropped: int


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one step for every sequence, and the text of sequence 0."""

    step: int
    tokens: list[int]
    text: str
    replayed: bool
    milliseconds: float


class CounterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Allocations of one component: current, peak and total bytes and counts."""

    component: str
    current_bytes: int
    peak_bytes: int
    total_bytes: int
    current_count: int
    peak_count: int
    total_count: int


class SlotInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One graph slot: its state, what it holds, and why it last died."""

    name: str
    state: str
    segments: int
    replays: int
    invalidations: int
    last_cause: str


class LeaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a session has claimed of its device's memory for one purpose."""

    purpose: str
    bytes: int


class PhasePeak(msgspec.Struct, frozen=True, kw_only=True):
    """The most bytes that were out at once while a phase was on (loading, prefill, decode, …)."""

    phase: str
    bytes: int


class StreamingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Weights under a budget: what stays, what is copied from the model's file, and how often."""

    budget: int
    least: int
    """The least budget that works."""
    streamed: int
    """Weights that are copied into the window before they are read."""
    window_bytes: int
    page_ins: int
    page_in_bytes: int
    hits: int
    """Uses that found their weight still in the window."""


class BlocksInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A paged cache: blocks taken of the whole pool, positions they hold, and positions in use."""

    block_size: int
    blocks: int
    taken: int
    held: int
    used: int


class ExpertTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """What mixtures of experts asked of memory in one phase: Load, Prefill, Warmup (a capture) or Decode."""

    phase: str
    uploaded: int
    committed: int
    logical: int
    """Bytes of the experts of every route: rows × k."""
    unique: int
    """Bytes of the experts that were selected, each once a run."""
    page_ins: int
    physical: int | None
    """Bytes read from device memory; None: unknown."""


class SnapshotInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Everything live, at one moment."""

    sequence: int
    seconds: float
    """Since the engine started."""
    state: str
    position: int
    capacity: int
    steps_eager: int
    steps_replayed: int
    allocations_last_step: int
    allocated_bytes: int
    peak_bytes: int
    budget: int | None
    counters: list[CounterInfo]
    kernel_temporaries: BytesFigure
    """What NumPy kernels took beside the plan in one measured step."""
    uploads: int
    upload_bytes: int
    downloads: int
    download_bytes: int
    slots: list[SlotInfo]
    measured: list[ComponentInfo]
    """Per component what the ledger holds, to put beside the plan."""
    leases: list[LeaseInfo] = []
    """What the memory governor has granted this session."""
    left: int | None = None
    """Bytes that the governor could still grant to anybody; None where no limit is known."""
    card_used: int | None = None
    """Bytes of the card in use by anybody; None where nothing tells."""
    card_total: int | None = None
    phase_peaks: list[PhasePeak] = []
    streaming: StreamingInfo | None = None
    """Where a weight budget streams weights."""
    experts: list[ExpertTraffic] = []
    """Where mixtures of experts are watched."""
    blocks: BlocksInfo | None = None
    """Where the cache is paged."""


EMPTY_SNAPSHOT = SnapshotInfo(
    sequence=0,
    seconds=0.0,
    state="idle",
    position=0,
    capacity=0,
    steps_eager=0,
    steps_replayed=0,
    allocations_last_step=0,
    allocated_bytes=0,
    peak_bytes=0,
    budget=None,
    counters=[],
    kernel_temporaries=BytesFigure(bytes=None, certainty="unknown"),
    uploads=0,
    upload_bytes=0,
    downloads=0,
    download_bytes=0,
    slots=[],
    measured=[],
)
"""Before anything ran."""

"""What a decode session says about itself: steps, capture reports, verification, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.decode.blocks import BlockUse
    from vramscope.devices.ledger import Counters
    from vramscope.plan.types import Figure
    from vramscope.run.capture import CaptureReport
    from vramscope.run.memory_state import MemoryState


class DecodeState(Enum):
    """The state machine of semantics 2.9."""

    IDLE = "idle"
    WARM_UP = "warm-up"
    """The next step runs eagerly."""
    ARMED = "armed"
    """Warm: the next step may capture."""
    READY = "ready"
    """A graph is installed: the next step may replay."""
    UNSUPPORTED = "unsupported"
    """Capture was declined for good: every step runs eagerly."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step: a token for every sequence, how it ran, and what it allocated."""

    tokens: tuple[int, ...]
    position: int
    """Valid tokens after the step."""
    replayed: bool
    seconds: float
    allocations: int
    finished: str = ""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Replay beside eager over the same steps."""

    steps: int
    equal: bool
    first_difference: int | None
    largest_logit_difference: float
    rows: tuple[VerifyRow, ...] = ()
    """Step by step."""


@dataclass(frozen=True, slots=True)
class VerifyRow:
    """One step: the tokens of every sequence both ways, and the largest difference of their logits."""

    replayed: tuple[int, ...]
    eager: tuple[int, ...]
    logit_difference: float


@dataclass(frozen=True, slots=True)
class SlotState:
    """One graph slot."""

    name: str
    state: str
    segments: int
    replays: int
    invalidations: int
    last_cause: str


@dataclass(frozen=True, slots=True)
class Transfers:
    """Host to device and back: calls and bytes."""

    uploads: int = 0
    upload_bytes: int = 0
    downloads: int = 0
    download_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DecodeSnapshot:
    """Everything live about a decode session at one moment."""

    state: DecodeState
    position: int
    capacity: int
    steps_eager: int
    steps_replayed: int
    steps_timed: int
    """Eager steps that nothing slowed: the ones that ``seconds_eager`` holds."""
    seconds_eager: float
    seconds_replayed: float
    allocations_last_step: int
    total: Counters
    budget: int | None
    memory: MemoryState
    components: Mapping[str, Counters]
    kernel_temporaries: Figure
    transfers: Transfers
    slots: tuple[SlotState, ...]
    report: CaptureReport | None
    blocks: BlockUse | None = None
    """Where the cache is paged."""

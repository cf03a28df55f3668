"""What a session's memory is at one moment: claims, what they leave, peaks by phase, streamed weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.devices.card import CardMemory, card_memory
from vramscope.devices.governor_types import Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.plan.types import StreamingPlan
    from vramscope.run.memory import SessionMemory
    from vramscope.run.paging import PagingCounts


@dataclass(frozen=True, slots=True)
class Streaming:
    """What a weight budget made of the weights, and what streaming did so far."""

    plan: StreamingPlan
    counts: PagingCounts


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What a session has claimed, what that leaves, and how high memory stood in each phase; in bytes.

    Attributes:
        leases: by purpose.
        left: what any session could still claim; None where no limit is known.
        peaks: the most that was out at once while a phase was on, by phase.
        streaming: of weights that a budget does not hold; None where all are resident.
        quarantined: of closed bindings whose graph could not be retired.
        card: how full the card is, whoever fills it; None where nothing tells.
    """

    leases: Mapping[str, int]
    left: int | None
    peaks: Mapping[str, int]
    streaming: Streaming | None = None
    quarantined: int = 0
    card: CardMemory | None = None


def memory_state(memory: SessionMemory) -> MemoryState:
    """A session's memory as it is now."""
    leases, pager = memory.leases, memory.pager
    streaming = None if pager is None else Streaming(pager.plan, pager.counts)
    left = leases.governor.available(Tier.DEVICE)
    peaks = memory.device.ledger.phase_peaks
    card = card_memory(memory.device)
    return MemoryState(leases.sizes, left, peaks, streaming, memory.quarantine.size, card)

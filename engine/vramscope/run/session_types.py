"""What a program session is told and what it answers: options, outputs, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vramscope.run.events import (
    CancelCheck,
    EventSink,
    Progress,
    ignore_event,
    ignore_progress,
    never_cancelled,
)

if TYPE_CHECKING:
    from vramscope.devices.governor_types import MemoryGovernor
    from vramscope.ops.call import Tensor
    from vramscope.run.trace import Tracer

PRIMARY = "Primary"
"""Slot 0: the one-token decode step."""
VERIFY = "Verify"
"""Slot 1: a fixed number of speculated tokens checked in one pass."""
SLOT_NAMES = (PRIMARY, VERIFY)

Outputs: TypeAlias = Mapping[str, "Tensor | None"]
"""Outputs by name in graph order: a copy, or None for one that went into its binding."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session behaves.

    Attributes:
        kernel_variants: input shapes that each node keeps a kernel for.
        fail_safe: the capture classifier also vetoes symbols whose origin nothing records.
        memoise_branches: keep the results of If branches that read nothing from outside; their bytes are
            counted beside the plan.
        events: told what happens.
        progress: told how far loading is.
        cancel: checked between nodes.
        governor: of the device, where sessions share one; left out, the session has one of its own whose
            limit is the device's budget.
        tracer: told what runs.
    """

    kernel_variants: int = 4
    fail_safe: bool = True
    memoise_branches: bool = False
    events: EventSink = ignore_event
    progress: Progress = ignore_progress
    cancel: CancelCheck = never_cancelled
    governor: MemoryGovernor | None = None
    tracer: Tracer | None = None

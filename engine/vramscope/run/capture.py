"""Which steps of a program a graph can hold, which it cannot, and why (semantics 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SeamReason(Enum):
    """Why a node is not captured, in the order in which the audit asks."""

    CAPTURE_RECORDING_FAILED = "CaptureRecordingFailed"
    HOST_CONTROL_FLOW_OR_SEQUENCE = "HostControlFlowOrSequence"
    UNRESOLVED_OUTPUT_SHAPE = "UnresolvedOutputShape"
    UNRESOLVED_INPUT_SHAPE = "UnresolvedInputShape"
    CLASSIFIER_DISQUALIFIED = "ClassifierDisqualified"
    KERNEL_NOT_WARMED = "KernelNotWarmed"
    KERNEL_CAPTURE_UNSUPPORTED = "KernelCaptureUnsupported"

    @property
    def path(self) -> str:
        """The path kind of this reason: a host seam for control flow, else an eager device seam."""
        return HOST_SEAM if self is SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE else DEVICE_SEAM


CAPTURED = "capture-region"
DEVICE_SEAM = "eager-device-seam"
HOST_SEAM = "host-seam"

GRAPH_NODE = "<graph>"
"""The operator name of a decline that concerns the whole graph; its domain is ``nxrt``."""


@dataclass(frozen=True, slots=True)
class Decline:
    """One node that is not captured, or the whole graph (``step`` −1, no seam reason)."""

    step: int
    node: str
    operator: str
    domain: str
    reason: str
    seam: SeamReason | None = None
    remedy: str = ""

    def __str__(self) -> str:
        return f"node {self.node or self.step} ({self.domain}::{self.operator}) — {self.reason}"


@dataclass(frozen=True, slots=True)
class Segment:
    """Launches ``[start, end)``: captured as one graph, or run eagerly between two graphs."""

    start: int
    end: int
    captured: bool
    graph: int = -1
    """Index of the graph among the captured segments; −1 for a seam."""


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """What was captured, what was not and why."""

    segments: tuple[Segment, ...]
    declines: tuple[Decline, ...]
    executed: bool = True
    """Whether the step was computed; False: nothing was produced, and the caller runs it eagerly."""
    steps: tuple[int, ...] = ()
    """Of each launch the program's step that it computes: constant steps and those without work have none."""

    @property
    def captured(self) -> bool:
        """Whether any segment is captured."""
        return any(segment.captured for segment in self.segments)

    @property
    def captured_segments(self) -> int:
        """How many segments are captured."""
        return sum(segment.captured for segment in self.segments)

    @property
    def is_single_graph(self) -> bool:
        """Exactly one segment, and it is captured: a replay is one launch."""
        return len(self.segments) == 1 and self.segments[0].captured

    def __str__(self) -> str:
        return (
            "rejected: " + "; ".join(str(decline) for decline in self.declines)
            if self.declines
            else "captured"
        )

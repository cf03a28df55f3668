"""The capture audit: step by step, may this node be in a graph, and if not, why (semantics 2.1)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.expr import free_symbols
from vramscope.graph.model import ABSENT, Step
from vramscope.run.capture import GRAPH_NODE, CaptureReport, Decline, SeamReason, Segment
from vramscope.run.paging import PagedKernel
from vramscope.run.traffic import WatchedKernel

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vramscope.devices.base import Device
    from vramscope.plan.index import PlanningIndex
    from vramscope.run.launch import Launch

_REMEDIES: Mapping[SeamReason, str] = {
    SeamReason.CAPTURE_RECORDING_FAILED: "See the recording's error; the operator runs eagerly meanwhile",
    SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE: "Export the decode step without control flow",
    SeamReason.UNRESOLVED_OUTPUT_SHAPE: "Mask instead of selecting, so that no extent depends on data",
    SeamReason.UNRESOLVED_INPUT_SHAPE: "Settle the shape of the value it reads",
    SeamReason.CLASSIFIER_DISQUALIFIED: "Export with a fixed-capacity or static KV cache",
    SeamReason.KERNEL_NOT_WARMED: "Run one eager step at these shapes first",
    SeamReason.KERNEL_CAPTURE_UNSUPPORTED: "The node runs eagerly between two graphs",
}

UNPINNED = "its scratch is step-scoped, and the step workspace is given back after every step"
_PIN = "Pin the step workspace before capturing"


def audit(
    index: PlanningIndex,
    device: Device,
    launches: Collection[Launch],
    growing: frozenset[str],
    warmed: Collection[int],
    quarantined: Collection[tuple[str, str]],
    refused: Mapping[int, str] = MappingProxyType({}),
) -> CaptureReport:
    """Segments of equal capturability over the launches, and a decline for every node that is not captured.

    Args:
        index: of the program.
        device: says which kernels it cannot record.
        launches: bound at the shapes to capture.
        growing: symbols that change from step to step; a node whose shapes mention one is never captured.
        warmed: step indices that ran at these shapes.
        quarantined: (domain, operator) pairs whose recording failed before.
        refused: step indices whose kernel cannot be recorded as the session stands, and why.
    """
    declines: list[Decline] = []
    segments: list[Segment] = []
    for position, launch in enumerate(launches):
        refusal = _refusal(index, device, launch, refused)
        reason = _seam(index, launch, growing, warmed, quarantined)
        if reason is None and refusal:
            reason = SeamReason.KERNEL_CAPTURE_UNSUPPORTED
        if reason is not None:
            declines.append(decline(launch.step, reason, refusal))
        _extend(segments, position, captured=reason is None)
    steps = tuple(launch.step.index for launch in launches)
    return CaptureReport(tuple(segments), tuple(declines), steps=steps)


def _extend(segments: list[Segment], position: int, *, captured: bool) -> None:
    if segments and segments[-1].captured is captured:
        last = segments[-1]
        segments[-1] = Segment(last.start, position + 1, captured, last.graph)
        return
    graph = sum(segment.captured for segment in segments) if captured else -1
    segments.append(Segment(position, position + 1, captured, graph))


def _refusal(index: PlanningIndex, device: Device, launch: Launch, refused: Mapping[int, str]) -> str:
    """Why the node's kernel cannot be recorded here and now; empty when it can (semantics 1.10)."""
    step = launch.step
    if isinstance(launch.kernel, PagedKernel | WatchedKernel) and launch.kernel.capture_refusal:
        return launch.kernel.capture_refusal
    return device.capture_refusal(step.node, index.specs[step.index]) or refused.get(step.index, "")


def _seam(
    index: PlanningIndex,
    launch: Launch,
    growing: frozenset[str],
    warmed: Collection[int],
    quarantined: Collection[tuple[str, str]],
) -> SeamReason | None:
    """The first test but the kernel's own that hits, in the rule book's order."""
    step = launch.step
    spec = index.specs[step.index]
    tests = (
        ((step.node.domain, step.node.operator) in quarantined, SeamReason.CAPTURE_RECORDING_FAILED),
        (spec.control_flow or spec.sequence, SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE),
        (not launch.resolved, SeamReason.UNRESOLVED_OUTPUT_SHAPE),
        (not launch.inputs_resolved, SeamReason.UNRESOLVED_INPUT_SHAPE),
        (mentions(index, step, growing), SeamReason.CLASSIFIER_DISQUALIFIED),
        (step.index not in warmed, SeamReason.KERNEL_NOT_WARMED),
    )
    return next((reason for hit, reason in tests if hit), None)


def mentions(index: PlanningIndex, step: Step, growing: frozenset[str]) -> bool:
    """Whether any input or output shape of ``step`` mentions a growing symbol (semantics 2.3)."""
    if not growing:
        return False
    for value in (*step.inputs, *step.outputs):
        if value == ABSENT:
            continue
        shape = index.program.values[value].shape
        if any(free_symbols(dim) & growing for dim in shape or ()):
            return True
    return False


def decline(step: Step, reason: SeamReason, refusal: str = "") -> Decline:
    """A decline record with the reason in words; ``refusal`` are the kernel's own."""
    words = {
        SeamReason.CAPTURE_RECORDING_FAILED: "its recording failed before",
        SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE: "control flow and sequences run on the host",
        SeamReason.UNRESOLVED_OUTPUT_SHAPE: "an output's shape depends on data",
        SeamReason.UNRESOLVED_INPUT_SHAPE: "an input's shape depends on data",
        SeamReason.CLASSIFIER_DISQUALIFIED: "its shapes grow with every step",
        SeamReason.KERNEL_NOT_WARMED: "it has not run at these shapes yet",
        SeamReason.KERNEL_CAPTURE_UNSUPPORTED: refusal,
    }
    return Decline(
        step=step.index,
        node=step.node.name,
        operator=step.node.operator,
        domain=step.node.domain or "ai.onnx",
        reason=words[reason],
        seam=reason,
        remedy=_PIN if refusal == UNPINNED else _REMEDIES[reason],
    )


def graph_decline(reason: str, remedy: str) -> Decline:
    """A decline that concerns the whole graph."""
    return Decline(-1, "", GRAPH_NODE, "nxrt", reason, None, remedy)

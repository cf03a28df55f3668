"""A captured graph on the host device.

Frozen launches with their addresses, under the rules of a real capture.

While a segment is recorded or replayed the ledger is sealed: an allocation raises, naming the node. Seams
between segments run eagerly. Every segment is launched as soon as it is recorded, so a following seam reads
real bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import LedgerSealedError, NeverCapturedError, VramscopeError
from vramscope.run.launch import BoundProgram, Launch, run_launch
from vramscope.run.signature import BindingSignature, Difference, differences, signature_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.base import Device
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel
    from vramscope.plan.index import PlanningIndex
    from vramscope.run.bindings import Binding
    from vramscope.run.capture import CaptureReport
    from vramscope.run.memory import SessionMemory


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """One captured step: its segments' launches, the bindings it baked in, the steps it holds."""

    report: CaptureReport
    segments: tuple[tuple[tuple[Kernel, Call], ...], ...]
    signature: tuple[BindingSignature, ...]
    movable: frozenset[str]

    @property
    def nodes(self) -> int:
        """Launches inside captured segments."""
        return sum(len(segment) for segment in self.segments)


class RecordingError(VramscopeError):
    """A kernel failed while its segment was recorded; ``operator`` is quarantined."""

    def __init__(self, launch: Launch, why: str) -> None:
        """Names the node and the reason."""
        super().__init__(
            f"recording {launch.step.node.qualified}",
            why,
            "The operator runs eagerly from now on",
            launch.step.node.name,
        )
        self.operator = (launch.step.node.domain, launch.step.node.operator)


def record(
    index: PlanningIndex,
    device: Device,
    memory: SessionMemory,
    program: BoundProgram,
    report: CaptureReport,
    bindings: Sequence[Binding],
) -> CapturedGraph:
    """Records and, segment by segment, executes one step.

    Raises:
        RecordingError: a kernel failed or allocated while recorded.
    """
    segments: list[tuple[tuple[Kernel, Call], ...]] = []
    for segment in report.segments:
        launches = program.launches[segment.start : segment.end]
        if segment.captured:
            _record_segment(device, launches)
            segments.append(tuple((launch.kernel, launch.call) for launch in launches))
            continue
        for launch in launches:
            run_launch(program, launch, memory)
    return CapturedGraph(
        report=report,
        segments=tuple(segments),
        signature=tuple(signature_of(item) for item in bindings),
        movable=_movable(index, report, program, bindings),
    )


def _record_segment(device: Device, launches: Sequence[Launch]) -> None:
    for launch in launches:
        try:
            with device.ledger.sealed(
                f"the recording of {launch.step.node.name or launch.step.node.operator}"
            ):
                launch.kernel(launch.call)
        except LedgerSealedError as error:
            raise RecordingError(launch, f"it allocates: {error.what}") from error
        except VramscopeError as error:
            raise RecordingError(launch, str(error)) from error


def _movable(
    index: PlanningIndex, report: CaptureReport, program: BoundProgram, bindings: Sequence[Binding]
) -> frozenset[str]:
    """Inputs whose logical length may move: no captured segment reads them directly (semantics 1.18)."""
    if report.is_single_graph:
        return frozenset()
    read = {
        value
        for segment in report.segments
        if segment.captured
        for launch in program.launches[segment.start : segment.end]
        for value in launch.step.inputs
    }
    names = {index.program.values[value].name: value for value in index.program.inputs}
    return frozenset(
        item.input
        for item in bindings
        if item.input and item.exposes_logical and names[item.input] not in read
    )


def check(graph: CapturedGraph | None, bindings: Sequence[Binding]) -> tuple[Difference, ...]:
    """Every difference between the captured bindings and those at hand.

    Raises:
        NeverCapturedError: nothing was ever captured on this slot.
    """
    if graph is None:
        raise NeverCapturedError(
            "the decode step", "no graph is installed on this slot", "Capture a step first"
        )
    return tuple(differences(graph.signature, [signature_of(item) for item in bindings], graph.movable))


def replay(device: Device, memory: SessionMemory, graph: CapturedGraph, program: BoundProgram) -> None:
    """Launches the captured segments in order, seams eagerly between them.

    Args:
        device: whose ledger is sealed inside the segments.
        memory: of the session.
        graph: what was captured.
        program: the step bound at the bindings at hand; seams are taken from it, for their lengths may have
        moved.
    """
    captured = iter(graph.segments)
    for segment in graph.report.segments:
        if segment.captured:
            with device.ledger.sealed("a replay"):
                for kernel, call in next(captured):
                    kernel(call)
            continue
        for launch in program.launches[segment.start : segment.end]:
            run_launch(program, launch, memory)

"""A captured step: its segments recorded by the device, its seams run eagerly between them.

While a segment is recorded or replayed the ledger is sealed: an allocation raises, naming the node. Every
segment is executed as soon as it is recorded, so that a following seam reads real bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from vramscope.errors import NeverCapturedError
from vramscope.run.launch import BoundProgram, Launch, run_launch
from vramscope.run.signature import BindingSignature, Difference, differences, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vramscope.devices.base import Action, Replay
    from vramscope.plan.index import PlanningIndex
    from vramscope.run.bindings import Binding
    from vramscope.run.capture import CaptureReport
    from vramscope.run.memory import SessionMemory


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """One captured step: a recorded graph per captured segment, and the bindings they baked in."""

    report: CaptureReport
    segments: tuple[Replay, ...]
    signature: tuple[BindingSignature, ...]
    movable: frozenset[str]

    @property
    def nodes(self) -> int:
        """Launches of the program inside captured segments."""
        return sum(segment.end - segment.start for segment in self.report.segments if segment.captured)


@dataclass(frozen=True, slots=True)
class StepWork:
    """What surrounds the program in one step: feeds moved on before it, the token chosen after it."""

    before: tuple[Action, ...] = ()
    after: tuple[Action, ...] = ()


def record(
    index: PlanningIndex,
    memory: SessionMemory,
    program: BoundProgram,
    report: CaptureReport,
    bindings: Sequence[Binding],
    work: StepWork,
) -> CapturedGraph:
    """Records and, segment by segment, executes one step.

    The work before and after the program is recorded with the first and last segment when those are captured.

    Raises:
        RecordingError: a kernel failed or allocated while recorded; its ``node`` says which.
    """
    segments: list[Replay] = []
    device = memory.device
    with device.running():
        for actions in _parts(program, report, memory, work):
            if isinstance(actions, tuple):
                segments.append(device.record(actions))
            else:
                actions()
    return CapturedGraph(
        report=report,
        segments=tuple(segments),
        signature=tuple(signature_of(item) for item in bindings),
        movable=_movable(index, report, program, bindings),
    )


def replay(memory: SessionMemory, graph: CapturedGraph, program: BoundProgram, work: StepWork) -> None:
    """Launches the captured segments in order, seams eagerly between them.

    Args:
        memory: of the session; its device's ledger is sealed inside the segments.
        graph: what was captured.
        program: the step bound at the bindings at hand; seams come from it, for their lengths may have moved.
        work: what surrounds the program; the part inside a captured segment is not run again here.
    """
    captured = iter(graph.segments)
    with memory.device.running():
        for actions in _parts(program, graph.report, memory, work):
            if isinstance(actions, tuple):
                next(captured)()
            else:
                actions()


Part: TypeAlias = "tuple[Action, ...] | Callable[[], None]"
"""A captured segment's actions, or work that runs eagerly."""


def _parts(
    program: BoundProgram, report: CaptureReport, memory: SessionMemory, work: StepWork
) -> Iterator[Part]:
    """The step in order: captured segments as actions to record, everything else as calls."""
    last = len(report.segments) - 1
    for number, segment in enumerate(report.segments):
        launches = program.launches[segment.start : segment.end]
        before = work.before if number == 0 else ()
        after = work.after if number == last else ()
        if segment.captured:
            yield (*before, *(_action(launch) for launch in launches), *after)
        else:
            yield partial(_seam, before, launches, after, program, memory)


def _action(launch: Launch) -> Action:
    return launch.step.node.name or launch.step.node.operator, partial(launch.kernel, launch.call)


def _seam(
    before: tuple[Action, ...],
    launches: Sequence[Launch],
    after: tuple[Action, ...],
    program: BoundProgram,
    memory: SessionMemory,
) -> None:
    for _, action in before:
        action()
    for launch in launches:
        run_launch(program, launch, memory)
    for _, action in after:
        action()


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
    return frozenset(item.input for item in bindings if item.moves and names[item.input] not in read)


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

"""A captured step: its segments recorded by the device, its seams run eagerly between them.

While a segment is recorded or replayed the ledger is sealed: an allocation raises, naming the node. Every
segment is executed as soon as it is recorded, so that a following seam reads real bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from vramscope.errors import NeverCapturedError
from vramscope.run.signature import BindingSignature, Difference, differences, signature_of
from vramscope.run.trace import Marks
from vramscope.run.tracing import ProgramTracer, node_runner, run_actions
from vramscope.run.variants import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vramscope.devices.base import Action, Device, Replay
    from vramscope.plan.index import PlanningIndex
    from vramscope.run.bindings import Binding
    from vramscope.run.capture import CaptureReport, Segment
    from vramscope.run.launch import BoundProgram, Launch
    from vramscope.run.memory import SessionMemory
    from vramscope.run.trace import Tracer

LaunchShape: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""Shape and strides of every input and placed output of one launch."""

FinishEagerly: TypeAlias = "Callable[[BoundProgram, int], None]"
"""Runs every step after the one with this index, whatever shapes they have now."""


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """One captured step: a recorded graph per captured segment, and the bindings they baked in.

    Attributes:
        report: what was captured.
        segments: the recorded graphs, in order.
        signature: of every binding.
        movable: inputs whose logical length may move.
        shapes: what each captured launch saw, by step index.
        seeds: shapes of data-dependent values that captured launches rely on.
        steps: step indices inside captured segments.
        program: what was recorded.
    """

    report: CaptureReport
    segments: tuple[Replay, ...]
    signature: tuple[BindingSignature, ...]
    movable: frozenset[str]
    shapes: Mapping[int, LaunchShape]
    seeds: Mapping[int, tuple[int, ...]]
    steps: frozenset[int]
    program: BoundProgram

    @property
    def nodes(self) -> int:
        """Launches of the program inside captured segments."""
        return sum(segment.end - segment.start for segment in self.report.segments if segment.captured)


@dataclass(frozen=True, slots=True)
class StepWork:
    """What surrounds the program in one step: feeds moved on before it, the token chosen after it."""

    before: tuple[Action, ...] = ()
    after: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """What a recording needs beside the program.

    Attributes:
        bindings: the caller's buffers.
        work: what surrounds the program.
        seeds: shapes that the program was bound with though they are data.
        finish: runs the rest of the step when a seam's result has another shape than seeded.
    """

    bindings: Sequence[Binding]
    work: StepWork = StepWork()
    seeds: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    finish: FinishEagerly | None = None


@dataclass(frozen=True, slots=True)
class ShapeMoved:
    """A seam's result, or a captured launch's argument, whose shape is not the captured one any more."""

    node: str
    old: tuple[int, ...]
    new: tuple[int, ...]

    def __str__(self) -> str:
        return f"the shape at {self.node} was {list(self.old)} and is {list(self.new)}"


def record(
    index: PlanningIndex,
    memory: SessionMemory,
    program: BoundProgram,
    report: CaptureReport,
    recording: Recording,
    tracer: Tracer | None = None,
) -> CapturedGraph | ShapeMoved:
    """Records and, segment by segment, executes one step.

    The work before and after the program is recorded with the first and last segment when those are captured.
    A shape that disagrees with its seed ends the recording; the step is finished eagerly.

    Raises:
        RecordingError: a kernel failed or allocated while recorded; its ``node`` says which.
    """
    segments: list[Replay] = []
    device, seen = memory.device, _seen(tracer, memory, program, report)
    with device.running(), memory.recording():
        for part in _parts(program, report, recording.work):
            if part.segment.captured:
                segments.append(_recorded(device, part, seen))
                continue
            moved = _seam(part, program, memory, recording.seeds, seen)
            if moved is not None:
                _finish(program, moved[1], recording.finish)
                return moved[0]
    captured = [program.launches[position] for position in _captured(report)]
    return CapturedGraph(
        report=report,
        segments=tuple(segments),
        signature=tuple(signature_of(item) for item in recording.bindings),
        movable=_movable(index, report, program, recording.bindings),
        shapes={launch.step.index: launch_shape(launch) for launch in captured},
        seeds=recording.seeds,
        steps=frozenset(launch.step.index for launch in captured),
        program=program,
    )


def replay(
    memory: SessionMemory,
    graph: CapturedGraph,
    program: BoundProgram,
    work: StepWork,
    finish: FinishEagerly | None = None,
    tracer: Tracer | None = None,
) -> ShapeMoved | None:
    """Launches the captured segments in order, seams eagerly between them.

    Args:
        memory: of the session; its device's ledger is sealed inside the segments.
        graph: what was captured.
        program: the step bound at the bindings at hand; seams come from it, for their lengths may have moved.
        work: what surrounds the program; the part inside a captured segment is not run again here.
        finish: runs the rest of the step once a shape is not the captured one.
        tracer: told what runs.

    Returns:
        What moved, after which everything ran eagerly and the graph holds no more; None when all of it held.
    """
    captured = iter(graph.segments)
    seen = _seen(tracer, memory, program, graph.report)
    with memory.device.running():
        for part in _parts(program, graph.report, work):
            moved: tuple[ShapeMoved, int] | None
            if part.segment.captured:
                moved = _disagreement(graph, program, part.segment)
                if moved is None:
                    _relaunch(memory.device, next(captured), part, seen)
                    continue
            else:
                moved = _seam(part, program, memory, graph.seeds, seen)
            if moved is not None:
                _finish(program, moved[1], finish)
                return moved[0]
    return None


@dataclass(frozen=True, slots=True)
class _Part:
    """One segment of a step with the work that goes with it."""

    segment: Segment
    launches: Sequence[Launch]
    before: tuple[Action, ...]
    after: tuple[Action, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """All of it as actions to record."""
        return (*self.before, *(_action(launch) for launch in self.launches), *self.after)


def _parts(program: BoundProgram, report: CaptureReport, work: StepWork) -> Iterator[_Part]:
    """The step in order, cut as the report says."""
    last = len(report.segments) - 1
    for number, segment in enumerate(report.segments):
        before = work.before if number == 0 else ()
        after = work.after if number == last else ()
        yield _Part(segment, program.launches[segment.start : segment.end], before, after)


def _seen(
    tracer: Tracer | None, memory: SessionMemory, program: BoundProgram, report: CaptureReport
) -> ProgramTracer | None:
    return None if tracer is None else ProgramTracer(tracer, memory.device.ledger, program, report)


def _recorded(device: Device, part: _Part, seen: ProgramTracer | None) -> Replay:
    if seen is None:
        return device.record(part.actions)
    marks = Marks()
    replay = device.record(part.actions, marks.mark)
    _tell(part, seen, marks)
    return replay


def _relaunch(device: Device, replay: Replay, part: _Part, seen: ProgramTracer | None) -> None:
    if seen is None:
        replay()
        return
    marks = Marks()
    device.relaunch(replay, marks.mark)
    _tell(part, seen, marks)


def _tell(part: _Part, seen: ProgramTracer, marks: Marks) -> None:
    first = len(part.before)
    launches = {first + number: launch for number, launch in enumerate(part.launches)}
    seen.segment(part.segment.graph, [name for name, _ in part.actions], launches, marks)


def _action(launch: Launch) -> Action:
    return launch.step.node.name or launch.step.node.operator, partial(launch.kernel, launch.call)


def _seam(
    part: _Part,
    program: BoundProgram,
    memory: SessionMemory,
    seeds: Mapping[int, tuple[int, ...]],
    seen: ProgramTracer | None,
) -> tuple[ShapeMoved, int] | None:
    """Runs a seam eagerly; stops behind the launch whose result is not shaped as seeded."""
    started, run = perf_counter(), node_runner(seen)
    moved: tuple[ShapeMoved, int] | None = None
    run_actions(part.before, seen)
    for launch in part.launches:
        run(program, launch, memory)
        found = _unseeded(program, launch, seeds)
        if found is not None:
            moved = found, launch.step.index
            break
    else:
        run_actions(part.after, seen)
    if seen is not None:
        seen.seam(part.launches, started)
    return moved


def _unseeded(
    program: BoundProgram, launch: Launch, seeds: Mapping[int, tuple[int, ...]]
) -> ShapeMoved | None:
    for value in launch.step.outputs if seeds else ():
        seed = seeds.get(value)
        if seed is not None and value in program.values and shape_of(program.values[value]) != seed:
            return ShapeMoved(launch.step.node.name, seed, shape_of(program.values[value]))
    return None


def _disagreement(
    graph: CapturedGraph, program: BoundProgram, segment: Segment
) -> tuple[ShapeMoved, int] | None:
    """Where a captured launch would see another shape than it was recorded with, and the step before it."""
    if program is graph.program:
        return None
    launches = program.launches[segment.start : segment.end]
    for launch in launches:
        old, new = graph.shapes.get(launch.step.index), launch_shape(launch)
        if old != new:
            one, two = _first_shapes(old or (), new)
            before = launches[0].step.index - 1
            return ShapeMoved(launch.step.node.name, one, two), before
    return None


def _first_shapes(old: LaunchShape, new: LaunchShape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = next(((a[0], b[0]) for a, b in zip(old, new, strict=False) if a != b), None)
    return found if found is not None else ((), ())


def launch_shape(launch: Launch) -> LaunchShape:
    """What a recorded launch depends on beside addresses."""
    tensors = (*launch.call.inputs, *launch.call.placed)
    return tuple((shape_of(item), tuple(getattr(item, "strides", ()))) for item in tensors)


def _finish(program: BoundProgram, step: int, finish: FinishEagerly | None) -> None:
    if finish is None:
        raise NeverCapturedError(
            "the rest of the step", "its shapes moved and nothing can run it eagerly", "Run the step eagerly"
        )
    finish(program, step)


def _captured(report: CaptureReport) -> Iterator[int]:
    for segment in report.segments:
        if segment.captured:
            yield from range(segment.start, segment.end)


def _movable(
    index: PlanningIndex, report: CaptureReport, program: BoundProgram, bindings: Sequence[Binding]
) -> frozenset[str]:
    """Inputs whose logical length may move: no captured segment reads them directly (semantics 1.18)."""
    if report.is_single_graph:
        return frozenset()
    read = {value for position in _captured(report) for value in program.launches[position].step.inputs}
    names = {index.program.values[value].name: value for value in index.program.inputs}
    return frozenset(item.input for item in bindings if item.moves and names[item.input] not in read)


def check(graph: CapturedGraph | None, bindings: Sequence[Binding]) -> tuple[Difference, ...]:
    """Every difference between the captured bindings and those at hand.

    Raises:
        NeverCapturedError: nothing was ever captured on this slot.
    """
    if graph is None:
        raise NeverCapturedError("the step", "no graph is installed on this slot", "Capture a step first")
    return tuple(differences(graph.signature, [signature_of(item) for item in bindings], graph.movable))

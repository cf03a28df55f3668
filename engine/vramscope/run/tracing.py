"""Runs nodes, and tells a tracer of them where there is one: nodes, work around them, segments, seams."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from vramscope.graph.model import ABSENT
from vramscope.ops.call import Packed
from vramscope.run.capture import CAPTURED
from vramscope.run.launch import run_launch
from vramscope.run.trace import PLAIN, CaptureStatus, Span, SpanKind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from vramscope.devices.base import Action
    from vramscope.devices.ledger import Ledger
    from vramscope.run.capture import CaptureReport, Decline
    from vramscope.run.launch import BoundProgram, Launch
    from vramscope.run.memory import SessionMemory
    from vramscope.run.trace import Marks, Tracer

    RunNode: TypeAlias = Callable[[BoundProgram, Launch, SessionMemory], None]


class ProgramTracer:
    """One run of one bound program. ``report``: of the capture that decided what its nodes are."""

    def __init__(
        self, tracer: Tracer, ledger: Ledger, program: BoundProgram, report: CaptureReport | None = None
    ) -> None:
        """Records nothing yet."""
        self._tracer = tracer
        self._ledger = ledger
        self._program = program
        self._verdicts = {} if report is None else verdicts(report, program.launches)
        self._inside = _inside(program)

    def run(self, program: BoundProgram, launch: Launch, memory: SessionMemory) -> None:
        """Runs one launch eagerly, and tells it."""
        started = perf_counter()
        run_launch(program, launch, memory)
        self.node(launch, started)

    def node(self, launch: Launch, started: float) -> None:
        """A launch that began at ``started`` has returned."""
        self._node(launch, started, perf_counter())
        self._tracer.sample(self._ledger)

    def _node(self, launch: Launch, started: float, ended: float) -> None:
        node, step = launch.step.node, launch.step.index
        self._tracer.add(
            Span(
                SpanKind.NODE,
                node.name or node.operator,
                started,
                ended,
                operator=f"{node.domain or 'ai.onnx'}::{node.operator}",
                bytes=output_bytes(self._program, launch),
                number=step,
                verdict=self._verdicts.get(step, PLAIN),
                inside=self._inside.get(step, ""),
            )
        )

    def work(self, name: str, started: float, verdict: Verdict = PLAIN) -> None:
        """Work around the program that began at ``started`` has returned."""
        self._tracer.add(Span(SpanKind.WORK, name, started, perf_counter(), verdict=verdict))

    def segment(self, graph: int, names: Sequence[str], launches: Mapping[int, Launch], marks: Marks) -> None:
        """A segment was recorded or launched again, its actions marked where the device runs them one by one.

        Args:
            graph: its index among the graphs.
            names: of its actions, in order.
            launches: those of them that are nodes, by position.
            marks: the clock before the first action and behind each; before the first alone where the device
                runs them as one.
        """
        times = marks.times
        if len(times) == len(names) + 1:
            for position, name in enumerate(names):
                start, end = times[position], times[position + 1]
                if position in launches:
                    self._node(launches[position], start, end)
                else:
                    verdict = Verdict(CaptureStatus.CAPTURED, path=CAPTURED)
                    self._tracer.add(Span(SpanKind.WORK, name, start, end, verdict=verdict))
        self._tracer.add(
            Span(
                SpanKind.SEGMENT,
                f"graph {graph}",
                times[0],
                perf_counter(),
                number=graph,
                nodes=len(launches),
                verdict=Verdict(CaptureStatus.CAPTURED, path=CAPTURED),
            )
        )

    def seam(self, launches: Sequence[Launch], started: float) -> None:
        """The nodes of a seam, which are told already, have run."""
        found = [self._verdicts.get(launch.step.index, PLAIN) for launch in launches]
        paths = ", ".join(dict.fromkeys(item.path for item in found if item.path)) or "seam"
        reasons = "; ".join(dict.fromkeys(item.reason for item in found if item.reason))
        verdict = Verdict(CaptureStatus.REJECTED, reasons, paths)
        ended = perf_counter()
        self._tracer.add(Span(SpanKind.SEAM, paths, started, ended, nodes=len(launches), verdict=verdict))


def verdicts(report: CaptureReport, launches: Sequence[Launch]) -> dict[int, Verdict]:
    """What a capture made of each node, by step of the program.

    Where the whole was declined, nodes that could have been captured say so with the graph's reason.
    """
    own = {item.step: item for item in report.declines if item.seam is not None}
    whole = next((item for item in report.declines if item.seam is None), None)
    found: dict[int, Verdict] = {}
    for segment in report.segments:
        for launch in launches[segment.start : segment.end]:
            step = launch.step.index
            found[step] = (
                Verdict(CaptureStatus.CAPTURED, path=CAPTURED)
                if segment.captured
                else _rejected(own.get(step), whole)
            )
    if not report.segments and whole is not None:
        found = {launch.step.index: _rejected(None, whole) for launch in launches}
    return found


def _rejected(own: Decline | None, whole: Decline | None) -> Verdict:
    if own is not None and own.seam is not None:
        return Verdict(CaptureStatus.REJECTED, f"{own.seam.value}: {own.reason}", own.seam.path)
    reason = "" if whole is None else f"{whole.operator}: {whole.reason}"
    return Verdict(CaptureStatus.REJECTED, reason)


def _inside(program: BoundProgram) -> dict[int, str]:
    """Of nodes that another one's launch does too, that node's name."""
    if not program.groups:
        return {}
    names = {launch.step.index: launch.step.node.name for launch in program.launches}
    return {step: names[group[-1]] for group in program.groups for step in group[:-1]}


def output_bytes(program: BoundProgram, launch: Launch) -> int | None:
    """Bytes of a launch's outputs once it has run; None where one of them is a sequence or not there."""
    total, call = 0, launch.call
    for position, value in enumerate(launch.step.outputs):
        if value == ABSENT or not call.wants(position):
            continue
        placed = call.placed[position]
        tensor = program.values.get(value) if placed is None else placed
        if tensor is None or isinstance(tensor, list):
            return None
        total += tensor.data.nbytes if isinstance(tensor, Packed) else tensor.nbytes
    return total


def run_actions(actions: Sequence[Action], seen: ProgramTracer | None) -> None:
    """Runs work around a program."""
    for name, action in actions:
        started = perf_counter()
        action()
        if seen is not None:
            seen.work(name, started)


def node_runner(seen: ProgramTracer | None) -> RunNode:
    """What runs one launch eagerly; nothing stands around it where nobody watches."""
    return run_launch if seen is None else seen.run

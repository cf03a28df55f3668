"""A graph slot: what is captured on it, under which token, and why it last died (semantics 1.16-1.20)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.errors import NeverCapturedError, RecordingError, ResourcesChangedError
from vramscope.run.audit import UNPINNED, audit, graph_decline
from vramscope.run.capture import CaptureReport, Decline
from vramscope.run.events import EventKind
from vramscope.run.graph import CapturedGraph, Recording, ShapeMoved, StepWork, check, record, replay
from vramscope.run.seeding import WarmShapes
from vramscope.run.store import GraphStore, GraphToken

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vramscope.graph.model import Array
    from vramscope.run.bindings import Binding
    from vramscope.run.graph import FinishEagerly
    from vramscope.run.launch import BoundProgram
    from vramscope.run.readiness import Requirement
    from vramscope.run.runner import Runner
    from vramscope.run.signature import BindingSignature, Difference

KEPT_INVALIDATIONS = 64
"""How many invalidations a slot remembers."""


@dataclass(frozen=True, slots=True)
class Invalidation:
    """Why a graph died: at which step, and where a binding's field is to blame, which and how it changed."""

    step: int
    slot: str
    cause: str
    binding: str = ""
    field: str = ""
    old: str = ""
    new: str = ""
    changed: tuple[Difference, ...] = dataclasses.field(default=(), compare=False)
    """Every difference that was found, the one named above first."""
    signature: tuple[BindingSignature, ...] = dataclasses.field(default=(), compare=False)
    """What the dead graph had baked in."""


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """What a capture works on.

    Attributes:
        program: bound at the shapes to capture.
        recording: bindings, surrounding work, seeds.
        growing: symbols that change from step to step.
        warmed: step indices that ran at these shapes.
        unpinned: step indices with scratch in a slot that is given back after the step.
        state: buffers that the step both reads and writes; put back before a failed recording is retried.
    """

    program: BoundProgram
    recording: Recording
    growing: frozenset[str]
    warmed: Collection[int]
    unpinned: Collection[int] = ()
    state: Sequence[Array] = ()


class GraphSlot:
    """One slot. Quarantined operators, warm shapes and the last report outlive a reset; the graph dies."""

    def __init__(self, name: str, store: GraphStore | None = None) -> None:
        """An empty slot. ``store`` holds its graphs; left out, it has one of its own."""
        self.name = name
        self.store = store or GraphStore()
        self.graph: CapturedGraph | None = None
        self.token: GraphToken | None = None
        self.report: CaptureReport | None = None
        self.requirement: Requirement | None = None
        """The resources that the graph was recorded with."""
        self.captures = 0
        self.replays = 0
        self.invalidations = 0
        self.history: tuple[Invalidation, ...] = ()
        self.warm = WarmShapes()
        self.quarantined: set[tuple[str, str]] = set()

    @property
    def last_cause(self) -> str:
        """Why the last graph died; empty when none has."""
        return self.history[-1].cause if self.history else ""

    @property
    def held(self) -> bool:
        """Whether the store still holds the slot's graph."""
        return self.token is not None and self.store.has(self.token)

    def try_capture(self, runner: Runner, request: CaptureRequest) -> CaptureReport:
        """Audits, records and executes one step; retries without an operator whose recording failed.

        Bounded by one attempt a launch and one more. A report that captured nothing is a value, not an error;
        its ``executed`` says whether the step was computed all the same.
        """
        self.reset("a new capture on the same slot")
        unready = runner.gate.finalise(request.program.launches).refusals
        refused = {**unready, **dict.fromkeys(request.unpinned, UNPINNED)}
        saved = [runner.device.download(item) for item in request.state]
        for _ in range(len(request.program.launches) + 1):
            report = self._audit(runner, request, refused)
            if not report.captured:
                self.report = _not_capturable(report, _nothing())
                return self.report
            try:
                return self._record(runner, request, report)
            except RecordingError as error:
                self._quarantine(request.program, error.node)
                runner.say(EventKind.DECLINE, error.node, str(error))
                for target, content in zip(request.state, saved, strict=True):
                    runner.device.upload(target, content)
        self.report = _not_capturable(CaptureReport((), ()), _nothing())
        return self.report

    def _audit(self, runner: Runner, request: CaptureRequest, refused: Mapping[int, str]) -> CaptureReport:
        return audit(
            runner.planner.index,
            runner.device,
            request.program.launches,
            request.growing,
            request.warmed,
            self.quarantined,
            refused,
        )

    def _record(self, runner: Runner, request: CaptureRequest, report: CaptureReport) -> CaptureReport:
        index, program = runner.planner.index, request.program
        with self.store.capturing(self.name):
            graph = record(index, runner.memory, program, report, request.recording, runner.tracer)
        if isinstance(graph, ShapeMoved):
            moved = graph_decline(f"{graph}, while it was recorded", "Run an eager step, then capture again")
            self.report = replace(_not_capturable(report, moved), executed=True)
            return self.report
        self.graph, self.report = graph, report
        self.token = self.store.install(self.name, graph.segments)
        self.requirement = runner.gate.requirement
        self.captures += 1
        return report

    def check(self, bindings: Sequence[Binding]) -> tuple[Difference, ...]:
        """Every difference between the captured bindings and those at hand; empty when they match.

        Raises:
            NeverCapturedError: no graph is installed; says why the last one died.
        """
        if self.graph is None:
            raise self._empty()
        return check(self.graph, bindings)

    def _empty(self) -> NeverCapturedError:
        died = f", the last one died: {self.last_cause}" if self.history else ""
        return NeverCapturedError(
            f"slot {self.name}", f"no graph is installed on it{died}", "Capture a step first"
        )

    def _quarantine(self, program: BoundProgram, name: str) -> None:
        """Bars the operator of the node whose recording failed; work around the program bars everything."""
        found = {
            (n.domain, n.operator)
            for n in (launch.step.node for launch in program.launches)
            if name in (n.name, n.operator)
        }
        every = {(launch.step.node.domain, launch.step.node.operator) for launch in program.launches}
        self.quarantined |= found or every

    def replay(
        self,
        runner: Runner,
        program: BoundProgram,
        work: StepWork,
        finish: FinishEagerly | None = None,
    ) -> ShapeMoved | None:
        """Launches the graph; what moved, where a shape is not the captured one and the rest ran eagerly.

        Raises:
            NeverCapturedError: the slot is empty.
            ResourcesChangedError: what the graph was recorded with is gone; so is the graph then.
        """
        if self.graph is None or self.requirement is None:
            raise self._empty()
        runner.gate.finalise(self.graph.program.launches)
        try:
            runner.gate.acquire(self.requirement)
        except ResourcesChangedError as error:
            self.reset(str(error))
            runner.say(EventKind.INVALIDATE, self.name, str(error))
            raise
        moved = replay(runner.memory, self.graph, program, work, finish, runner.tracer)
        self.replays += 1
        return moved

    def reset(
        self,
        cause: str,
        step: int = 0,
        changed: tuple[Difference, ...] = (),
    ) -> bool:
        """Drops the graph and records why; whether the store held one (semantics 1.19).

        Args:
            cause: in words.
            step: at which it died.
            changed: the bindings' differences, the one to blame first.
        """
        if self.graph is None or self.token is None:
            return False
        held, signature = self.store.retire(self.token, cause), self.graph.signature
        self.graph = self.token = self.requirement = None
        record = Invalidation(step, self.name, cause, signature=signature)
        if changed:
            first = changed[0]
            record = replace(
                record,
                binding=first.binding,
                field=first.field,
                old=first.old,
                new=first.new,
                changed=changed,
            )
        self.invalidations += 1
        self.history = (*self.history, record)[-KEPT_INVALIDATIONS:]
        return held


def _nothing() -> Decline:
    return graph_decline("no node of the step can be captured", "See the reasons of the nodes")


def _not_capturable(report: CaptureReport, reason: Decline) -> CaptureReport:
    """The same seams, nothing captured, and a reason for the whole graph first."""
    segments = tuple(replace(segment, captured=False, graph=-1) for segment in report.segments)
    return CaptureReport(segments, (reason, *report.declines), executed=False, steps=report.steps)

"""A graph slot: what is captured on it, how often it was replayed, why it last died (semantics 1.16-1.20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.decode.types import SlotState
from vramscope.errors import NeverCapturedError, RecordingError
from vramscope.run.audit import audit, graph_decline
from vramscope.run.capture import CaptureReport
from vramscope.run.events import EventKind, never_cancelled
from vramscope.run.graph import CapturedGraph, StepWork, check, record, replay

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vramscope.run.bindings import Binding
    from vramscope.run.launch import BoundProgram
    from vramscope.run.runner import Runner
    from vramscope.run.signature import Difference


class GraphSlot:
    """One slot. Quarantined operators and the last report outlive a reset; the graph does not."""

    def __init__(self, name: str) -> None:
        """An empty slot."""
        self.name = name
        self.graph: CapturedGraph | None = None
        self.report: CaptureReport | None = None
        self.captures = 0
        self.replays = 0
        self.invalidations = 0
        self.last_cause = ""
        self._quarantined: set[tuple[str, str]] = set()

    def capture(
        self,
        runner: Runner,
        program: BoundProgram,
        bindings: Sequence[Binding],
        growing: frozenset[str],
        warmed: Collection[int],
        work: StepWork,
    ) -> CaptureReport:
        """Audits, records and executes one step; retries without an operator whose recording failed.

        Bounded by one attempt a launch and one more. When nothing can be captured the step runs eagerly.
        """
        self.reset("a new capture on the same slot")
        index = runner.planner.index
        for _ in range(len(program.launches) + 1):
            report = audit(index, runner.device, program.launches, growing, warmed, self._quarantined)
            if not report.captured:
                break
            try:
                self.graph = record(index, runner.memory, program, report, bindings, work)
            except RecordingError as error:
                self._quarantine(program, error.node)
                runner.say(EventKind.DECLINE, error.node, str(error))
                continue
            self.captures += 1
            self.report = report
            return report
        runner.run(program, never_cancelled, work)
        reason = graph_decline("no node of the step can be captured", "See the reasons of the nodes")
        self.report = CaptureReport(report.segments, (reason, *report.declines))
        return self.report

    def check(self, bindings: Sequence[Binding]) -> tuple[Difference, ...]:
        """Every difference between the captured bindings and those at hand; empty when they match."""
        return check(self.graph, bindings)

    def _quarantine(self, program: BoundProgram, name: str) -> None:
        """Bars the operator of the node whose recording failed; work around the program bars everything."""
        found = {
            (n.domain, n.operator)
            for n in (launch.step.node for launch in program.launches)
            if n.name == name
        }
        every = {(launch.step.node.domain, launch.step.node.operator) for launch in program.launches}
        self._quarantined |= found or every

    def replay(self, runner: Runner, program: BoundProgram, work: StepWork) -> None:
        """Launches the graph.

        Raises:
            NeverCapturedError: the slot is empty.
        """
        if self.graph is None:
            raise NeverCapturedError(
                f"slot {self.name}", "no graph is installed on it", "Capture a step first"
            )
        replay(runner.memory, self.graph, program, work)
        self.replays += 1

    def reset(self, cause: str) -> bool:
        """Drops the graph and records why; whether there was one."""
        if self.graph is None:
            return False
        self.graph = None
        self.invalidations += 1
        self.last_cause = cause
        return True

    def describe(self, ready: bool) -> SlotState:
        """The slot as frozen data."""
        state = "captured" if self.graph is not None and ready else "idle"
        segments = self.graph.report.captured_segments if self.graph is not None else 0
        return SlotState(self.name, state, segments, self.replays, self.invalidations, self.last_cause)

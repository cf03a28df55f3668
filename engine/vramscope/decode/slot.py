"""A decode session's graph slot: a step that cannot be captured runs eagerly; the slot describes itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vramscope.decode.types import SlotState
from vramscope.run.events import EventKind, never_cancelled
from vramscope.run.graph import Recording, StepWork
from vramscope.run.slot import CaptureRequest
from vramscope.run.slot import GraphSlot as RunSlot

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vramscope.run.bindings import Binding
    from vramscope.run.capture import CaptureReport
    from vramscope.run.launch import BoundProgram
    from vramscope.run.runner import Runner


class GraphSlot(RunSlot):
    """A slot whose every capture computes the step: as a graph, or eagerly where there is none to be had."""

    def capture(
        self,
        runner: Runner,
        program: BoundProgram,
        bindings: Sequence[Binding],
        growing: frozenset[str],
        warmed: Collection[int],
        work: StepWork,
    ) -> CaptureReport:
        """Audits, records and executes one step; when nothing can be captured the step runs eagerly."""
        request = CaptureRequest(program, Recording(bindings, work), growing, warmed)
        report = self.try_capture(runner, request)
        if not report.executed:
            runner.run(program, never_cancelled, work, declined=report)
            report = self.report = replace(report, executed=True)
        return report

    def tell(self, runner: Runner, report: CaptureReport, step: int) -> None:
        """Reports a capture and why nodes were left out."""
        for item in report.declines:
            runner.say(EventKind.DECLINE, item.node or item.operator, str(item), step=step)
        text = f"{report.captured_segments} captured segments of {len(report.segments)}"
        runner.say(EventKind.CAPTURE, self.name, text, step=step)

    def describe(self, ready: bool) -> SlotState:
        """The slot as frozen data."""
        state = "captured" if self.graph is not None and ready else "idle"
        segments = self.graph.report.captured_segments if self.graph is not None else 0
        return SlotState(self.name, state, segments, self.replays, self.invalidations, self.last_cause)

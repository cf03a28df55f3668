"""Profiling: eager decode steps whose nodes are timed one by one on the device."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from vramscope.run.trace import Span, SpanKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.decode.decoder import Decoder
    from vramscope.decode.types import StepResult
    from vramscope.run.events import CancelCheck
    from vramscope.run.trace import Tracer


@dataclass(frozen=True, slots=True)
class NodeTime:
    """The mean seconds of one node by its step of the program; those of a group are its last member's."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StepProfile:
    """Means over ``steps`` eager steps; ``seconds`` is the whole program from its first node to its last."""

    steps: int
    seconds: float
    nodes: tuple[NodeTime, ...]


class Profiler:
    """Takes steps of a decoder and adds up what each node took. A profiled step is a step like any other."""

    def __init__(self, decoder: Decoder, tracer: Tracer | None = None) -> None:
        """Of a decoder past its first eager step, whose nodes prepare themselves.

        ``tracer``: told what each node took.
        """
        self._decoder = decoder
        self._tracer = tracer
        self._watch = decoder.device.stopwatch()
        self._totals: dict[int, float] = {}
        self._steps = 0

    def step(self, cancel: CancelCheck) -> StepResult:
        """One eager step, timed."""
        started = perf_counter()
        result = self._decoder.step(cancel, self._watch)
        times = self._watch.take()
        for step, seconds in times:
            self._totals[step] = self._totals.get(step, 0.0) + seconds
        self._steps += 1
        if self._tracer is not None:
            self._trace(self._tracer, started, times)
        return result

    def _trace(self, tracer: Tracer, started: float, times: Sequence[tuple[int, float]]) -> None:
        """The device's own times, end to end from the step's beginning: its clock is not the host's."""
        steps = self._decoder.model.program.steps
        for step, seconds in times:
            node, ended = steps[step].node, started + seconds
            name = node.name or node.operator
            tracer.add(Span(SpanKind.DEVICE, name, started, ended, node.qualified, number=step))
            started = ended

    def profile(self) -> StepProfile:
        """The means so far; members of a group that is launched by another have no time of their own."""
        count = max(self._steps, 1)
        silent = {step for group in self._decoder.inspect().groups for step in group[:-1]}
        nodes = tuple(
            NodeTime(step, total / count) for step, total in self._totals.items() if step not in silent
        )
        return StepProfile(self._steps, sum(self._totals.values()) / count, nodes)

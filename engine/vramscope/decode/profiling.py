"""Profiling: eager decode steps whose nodes are timed one by one on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.decode.decoder import Decoder
    from vramscope.decode.types import StepResult
    from vramscope.run.events import CancelCheck


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

    def __init__(self, decoder: Decoder) -> None:
        """Of a decoder past its first eager step, whose nodes prepare themselves."""
        self._decoder = decoder
        self._watch = decoder.device.stopwatch()
        self._totals: dict[int, float] = {}
        self._steps = 0

    def step(self, cancel: CancelCheck) -> StepResult:
        """One eager step, timed."""
        result = self._decoder.step(cancel, self._watch)
        for step, seconds in self._watch.take():
            self._totals[step] = self._totals.get(step, 0.0) + seconds
        self._steps += 1
        return result

    def profile(self) -> StepProfile:
        """The means so far; members of a group that is launched by another have no time of their own."""
        count = max(self._steps, 1)
        silent = {step for group in self._decoder.inspect().groups for step in group[:-1]}
        nodes = tuple(
            NodeTime(step, total / count) for step, total in self._totals.items() if step not in silent
        )
        return StepProfile(self._steps, sum(self._totals.values()) / count, nodes)

"""What surrounds the program in one decode step: feeds moved on before it, the next token chosen after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.feeds import state_buffers
from vramscope.devices.sampling import choose
from vramscope.run.graph import StepWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.decode.feeds import StateBuffers
    from vramscope.decode.stepper import Stepper
    from vramscope.devices.sampling import Sampling
    from vramscope.graph.model import Array
    from vramscope.run.bindings import Binding
    from vramscope.run.runner import Runner


class StepWorker:
    """Makes the work of a step, and keeps it while the bindings are the same object.

    The choice of the token, greedy or drawn, is the device's and part of the graph.
    """

    def __init__(self, runner: Runner, stepper: Stepper, sampling: Sampling) -> None:
        """Of one decode session."""
        self._runner = runner
        self._stepper = stepper
        self._sampling = sampling
        self._kept: tuple[Sequence[Binding], StepWork] | None = None
        self._state: tuple[object, StateBuffers] | None = None

    @property
    def state(self) -> StateBuffers:
        """Last token and valid length of every sequence, on the device."""
        buffer = self._runner.memory.io["decode state"]
        if self._state is None or self._state[0] is not buffer:
            self._state = (buffer, state_buffers(self._runner.memory, self._runner.plan.scenario.batch))
        return self._state[1]

    def work(self, bindings: Sequence[Binding]) -> StepWork:
        """The work of a step at these bindings."""
        if self._kept is None or self._kept[0] is not bindings:
            self._kept = (bindings, self._made(bindings))
        return self._kept[1]

    def _made(self, bindings: Sequence[Binding]) -> StepWork:
        device, state = self._runner.device, self.state
        advance = device.feed_action(self._stepper.feeds.writes(bindings, state))
        chosen = device.choose_action(
            self.logits(bindings), state.token, state.length, self._sampling, state.ring
        )
        return StepWork((("feeds", advance),), (("sampling", chosen),))

    def logits(self, bindings: Sequence[Binding]) -> Array:
        """What a step's tokens are chosen from, [batch, vocabulary]."""
        return self._stepper.logits(bindings)[:, -1]

    def start(self, bindings: Sequence[Binding], lengths: Sequence[int], last: Sequence[int]) -> Array:
        """Behind a prefill: sets the lengths, chooses the first token of each sequence.

        Args:
            bindings: of the last pass.
            lengths: valid tokens of each sequence.
            last: the row of each sequence's last token among all rows of the pass; a graph that keeps one row
                a sequence has those alone.

        Returns:
            Those rows on the host, [batch, vocabulary].
        """
        device, logits = self._runner.device, self._stepper.rows(bindings)
        positions = np.array(lengths, np.int64)
        device.upload(self.state.length, positions)
        rows = last if logits.shape[0] > len(lengths) else range(len(lengths))
        found = np.stack([device.download(logits[row]) for row in rows])
        device.upload(self.state.token, choose(self._sampling, found, positions))
        return found

    def newest(self, count: int) -> list[tuple[int, ...]]:
        """The tokens of the last ``count`` steps, at most as many as are kept, in one download."""
        _, length, *ring = self._runner.device.download(self.state.all).tolist()
        return [
            tuple(ring[(valid - back) % len(ring)][entry] for entry, valid in enumerate(length))
            for back in reversed(range(count))
        ]

    def take_back(self, tokens: Sequence[int], steps: int) -> Array:
        """The state as it was so many steps ago, when these were the last tokens; the lengths then."""
        device = self._runner.device
        lengths: Array = device.download(self.state.length) - steps
        device.upload(self.state.length, lengths)
        device.upload(self.state.token, np.array(tokens, np.int64))
        return lengths

    def tokens(self) -> tuple[int, ...]:
        """The last token of every sequence, read from the device."""
        return tuple(self._runner.device.download(self.state.token).tolist())

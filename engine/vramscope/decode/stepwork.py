"""What surrounds the program in one decode step: feeds moved on before it, the next token chosen after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.feeds import state_buffers
from vramscope.devices.base import FeedWrite
from vramscope.run.graph import StepWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.decode.feeds import StateBuffers
    from vramscope.decode.sampling import Sampler
    from vramscope.decode.stepper import Stepper
    from vramscope.graph.model import Array
    from vramscope.run.bindings import Binding
    from vramscope.run.runner import Runner


class StepWorker:
    """Makes the work of a step, and keeps it while the bindings are the same object.

    A greedy choice is the device's and part of the graph. A random one is the host's: it reads the logits
    and writes the tokens back behind the graph.
    """

    def __init__(self, runner: Runner, stepper: Stepper, sampler: Sampler) -> None:
        """Of one decode session."""
        self._runner = runner
        self._stepper = stepper
        self._sampler = sampler
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
        if self._sampler.greedy:
            choose = device.choose_action(self.logits(bindings), state.token, state.length)
            return StepWork((("feeds", advance),), (("sampling", choose),))
        longer = device.feed_action((FeedWrite("copy", state.length, state.length, 1),))
        return StepWork((("feeds", advance),), (("lengths", longer),))

    def logits(self, bindings: Sequence[Binding]) -> Array:
        """What a step's tokens are chosen from, [batch, vocabulary]."""
        return self._stepper.logits(bindings)[:, -1]

    def settle(self, bindings: Sequence[Binding]) -> None:
        """Behind a step: where tokens are drawn at random, draws them."""
        if not self._sampler.greedy:
            self.choose(self._runner.device.download(self.logits(bindings)))

    def start(self, bindings: Sequence[Binding], lengths: Sequence[int]) -> Array:
        """Behind a prefill: sets the lengths, chooses the first token from each sequence's last row.

        Returns:
            Those rows on the host, [batch, vocabulary].
        """
        device, logits = self._runner.device, self._stepper.logits(bindings)
        device.upload(self.state.length, np.array(lengths, np.int64))
        rows = [length - 1 if logits.shape[1] > 1 else 0 for length in lengths]
        found = np.stack([device.download(logits[entry, row]) for entry, row in enumerate(rows)])
        self.choose(found)
        return found

    def choose(self, logits: Array) -> None:
        """Writes the tokens chosen from logits on the host."""
        self._runner.device.upload(self.state.token, self._sampler.choose(logits))

    def tokens(self) -> tuple[int, ...]:
        """The last token of every sequence, read from the device."""
        return tuple(self._runner.device.download(self.state.token).tolist())

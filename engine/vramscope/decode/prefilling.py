"""Running a prompt: one pass over all of it, or several of few widths behind each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.blocks import hold_blocks
from vramscope.graph.model import Feed
from vramscope.plan.prefill import passes, widest_pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.decode.session_state import RunState
    from vramscope.decode.stepper import Stepper
    from vramscope.decode.stepwork import StepWorker
    from vramscope.graph.model import Array, DecoderContract
    from vramscope.run.events import CancelCheck
    from vramscope.run.runner import Runner


class Prefiller:
    """Prefills the prompts of one decode session."""

    def __init__(self, runner: Runner, stepper: Stepper, worker: StepWorker, run: RunState) -> None:
        """Shares the session's parts."""
        self._runner = runner
        self._stepper = stepper
        self._worker = worker
        self._run = run

    @property
    def _contract(self) -> DecoderContract:
        contract = self._runner.planner.model.contract
        assert contract is not None
        return contract

    def prefill(self, prompts: Sequence[Sequence[int]], longest: int, cancel: CancelCheck) -> int:
        """Runs the prompts and chooses the first new token of every sequence.

        Returns:
            How many passes it took.
        """
        chunk = self._runner.plan.scenario.prefill_chunk
        self._give_blocks(prompts, longest)
        if not chunk:
            self._run.logits = self._whole(prompts, cancel)
            return 1
        tokens = np.array(prompts, np.int64)
        keeps_last = Feed.LOGITS_TO_KEEP in self._contract.feeds.values()
        padded = not keeps_last and self._gives_all_logits(widest_pass(longest, chunk))
        steps = passes(longest, chunk, self._run.capacity, padded=padded)
        for item in steps:
            bindings, program = self._stepper.prefill(item.width, self._run.capacity)
            part = np.zeros((len(tokens), item.width), np.int64)
            part[:, : item.tokens] = tokens[:, item.start : item.start + item.tokens]
            self._run.uploaded(self._stepper.feeds.fill_pass(bindings, part, item.start, kept=1))
            self._runner.run(program, cancel)
        lengths, last = [longest] * len(tokens), steps[-1]
        rows = tuple(entry * last.width + last.tokens - 1 for entry in range(len(tokens)))
        head = self._stepper.head(program, rows)
        if head is not None:
            self._runner.run(head, cancel)
        self._run.uploaded(self._stepper.feeds.settle(bindings, np.array(lengths)))
        self._run.logits = self._worker.start(bindings, lengths, rows)
        return len(steps)

    def _give_blocks(self, prompts: Sequence[Sequence[int]], longest: int) -> None:
        """Blocks of a paged cache for these prompts; those of the sequences before are free again."""
        feeds = self._stepper.feeds
        if feeds.blocks is not None:
            feeds.blocks.restart([len(prompt) for prompt in prompts])
            hold_blocks(self._runner, feeds, self._run, longest)

    def _whole(self, prompts: Sequence[Sequence[int]], cancel: CancelCheck) -> Array:
        lengths = [len(prompt) for prompt in prompts]
        bindings, program = self._stepper.whole_prompts(lengths, self._run.capacity)
        self._run.uploaded(self._stepper.feeds.fill_prompt(bindings, prompts))
        self._runner.run(program, cancel)
        if self._contract.paged:
            self._run.uploaded(self._stepper.feeds.settle(bindings, np.array(lengths)))
        return self._worker.start(bindings, lengths, self._stepper.last_rows(lengths))

    def _gives_all_logits(self, width: int) -> bool:
        bindings, _ = self._stepper.prefill(width, self._run.capacity)
        return self._stepper.logits(bindings).shape[1] == width

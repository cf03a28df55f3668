"""What a step of a decode session comes to: its tokens, its time, its allocations, whether it was the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vramscope.decode.session_state import RunState, Started, StepKind
from vramscope.decode.types import StepResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.decode.feeds import Feeds
    from vramscope.decode.stepwork import StepWorker
    from vramscope.run.runner import Runner


class Accounts:
    """Counts the steps of one session."""

    def __init__(self, runner: Runner, worker: StepWorker, feeds: Feeds, run: RunState) -> None:
        """Shares the session's parts."""
        assert runner.planner.model.contract is not None
        self._runner = runner
        self._worker = worker
        self._feeds = feeds
        self._run = run
        self._ends = runner.planner.model.contract.eos_tokens

    def start(self, phase: str) -> Started:
        """The ledger counts for ``phase`` from here on."""
        ledger = self._runner.device.ledger
        ledger.enter(phase)
        return Started(phase, time.perf_counter(), ledger.total.total_count)

    def step(self, started: Started, kind: StepKind) -> StepResult:
        """One step has run: its tokens are read from the device."""
        tokens = self._worker.tokens()
        self._run.downloaded(8 * len(tokens))
        return self.steps(started, [tokens], kind)[0]

    def steps(self, started: Started, taken: Sequence[tuple[int, ...]], kind: StepKind) -> list[StepResult]:
        """Steps that ran as one, whose tokens are known: each gets its part of the time."""
        seconds = time.perf_counter() - started.seconds
        allocations = self._runner.device.ledger.total.total_count - started.allocations
        run, each = self._run, seconds / len(taken)
        run.count(seconds, allocations, kind, len(taken))
        run.tokens = taken[-1]
        results = []
        for position, tokens in enumerate(taken, run.position - len(taken) + 1):
            run.finished = self._end(tokens, position)
            replayed = kind is StepKind.REPLAY
            results.append(StepResult(tokens, position, replayed, each, allocations, run.finished))
        self._runner.ran(started.phase, started.seconds, run.position)
        return results

    def _end(self, tokens: tuple[int, ...], position: int) -> str:
        if self.ends(tokens):
            return "end of sequence"
        full = position >= self._runner.plan.context
        return "context full" if full else self._feeds.shortage(position + 1)

    def ends(self, tokens: tuple[int, ...]) -> bool:
        """Whether these are the last tokens of all sequences."""
        return all(token in self._ends for token in tokens)

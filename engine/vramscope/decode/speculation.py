"""Speculative decoding: drafted tokens verified in one pass, on the Verify slot beside the one-token graph.

A pass feeds the last token and ``k`` drafted ones. Row ``i`` of its logits says which token follows the first
``i`` drafted ones, so drafts are kept as far as greedy decoding would choose them anyway; the first choice
that differs is a token of its own. Rows of the cache behind that are never read: lengths and mask hide them,
and later tokens overwrite them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.cache import ready_cache
from vramscope.decode.drafting import look_up
from vramscope.errors import InputError
from vramscope.plan.symbols import Extents, PhaseBindings, decoder_bindings
from vramscope.plan.types import ComponentName, Exact, Phase
from vramscope.run.events import EventKind, never_cancelled
from vramscope.run.graph import StepWork
from vramscope.run.placing import fitting_arena
from vramscope.run.signature import changed_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope.decode.session_state import RunState
    from vramscope.decode.slot import GraphSlot
    from vramscope.decode.stepper import Bound, Stepper
    from vramscope.decode.stepwork import StepWorker
    from vramscope.devices.base import Buffer
    from vramscope.graph.model import Array, DecoderContract
    from vramscope.run.bindings import Binding
    from vramscope.run.events import CancelCheck
    from vramscope.run.launch import BoundProgram
    from vramscope.run.runner import Runner

TIRED_AFTER = 3
"""Invalidations of the Verify slot after which passes stay eager."""


@dataclass(frozen=True, slots=True)
class SpeculationCounts:
    """Passes by how they ran, and what became of the drafted tokens."""

    eager: int = 0
    captured: int = 0
    replayed: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a speculator shares with its decode session."""

    runner: Runner
    stepper: Stepper
    worker: StepWorker
    run: RunState
    slot: GraphSlot
    contract: DecoderContract


def refuse_speculation(contract: DecoderContract, batch: int, draft: int, *, greedy: bool) -> None:
    """Raises InputError where tokens could differ from plain decoding, or nothing could be taken back."""
    reason = ""
    if draft < 1:
        reason = f"{draft} drafted tokens are none"
    elif batch != 1:
        reason = f"the batch is {batch}, and sequences would accept different numbers of tokens"
    elif not greedy:
        reason = "tokens are drawn at random, and only the likeliest one can be verified"
    elif any(pair.window for pair in contract.kv):
        reason = "a sliding cache overwrites rows that a rejected draft would need back"
    if reason:
        raise InputError("speculative decoding", reason, "Decode plainly")


class Speculator:
    """Verifies drafts of ``draft`` tokens for one decode session; one thread owns both."""

    def __init__(self, parts: Parts, draft: int) -> None:
        """Reserves what a pass needs at the full cache.

        Raises:
            InputError: the graph gives no logits for every drafted token.
            OutOfBudgetError: the budget does not hold a pass.
        """
        self._parts = parts
        self._draft = draft
        self._rows: Buffer | None = None
        self._bound: tuple[object, Bound] | None = None
        self._warmed: frozenset[int] = frozenset()
        self.counts = SpeculationCounts()
        self._reserve()

    @property
    def slot(self) -> GraphSlot:
        """The Verify slot."""
        return self._parts.slot

    def fits(self) -> bool:
        """Whether the cache has room for a whole pass now."""
        whole = min(self._parts.run.capacity, self._parts.runner.plan.context)
        room = self._parts.stepper.feeds.room(whole)
        return self._parts.run.position + self._draft + 1 <= room

    def draft(self, history: list[int]) -> tuple[int, ...]:
        """A full draft for what follows ``history``, padded with its last token; empty when none is found."""
        found = look_up(history, self._draft)
        padding = (found or (0,))[-1:] * (self._draft - len(found))
        return found + padding if found else ()

    def verify(self, token: int, draft: tuple[int, ...], cancel: CancelCheck = never_cancelled) -> list[int]:
        """One pass over ``token`` and its draft: the tokens that plain greedy decoding gives, at least one.

        Args:
            token: the last chosen one, which is not in the cache yet.
            draft: exactly as many as the speculator was made for.
            cancel: checked before the pass.
        """
        cancel()
        parts, started = self._parts, perf_counter()
        parts.runner.device.ledger.enter("speculate")
        past = parts.run.position
        ready_cache(parts.runner, parts.stepper.feeds, parts.run, past + self._draft + 1)
        bindings, program = self._kept(past)
        self._feed(bindings, (token, *draft), past)
        work = StepWork(after=(("verified tokens", self._choose(bindings)),))
        self._launch(bindings, program, work)
        chosen = [int(item) for item in parts.runner.device.download(self._chosen())]
        accepted = next((i for i, item in enumerate(draft) if chosen[i] != item), len(draft))
        stop = next((i for i in range(accepted) if chosen[i] in parts.contract.eos_tokens), accepted)
        self._settle(bindings, past + stop + 1, chosen[stop], stop)
        parts.runner.ran("speculate", started, parts.run.position)
        now = self.counts
        self.counts = replace(now, drafted=now.drafted + len(draft), accepted=now.accepted + stop)
        return chosen[: stop + 1]

    # ---------------------------------------------------------------------------------- the pass

    def _kept(self, past: int) -> Bound:
        """The pass bound to the buffers as they are; shapes move only where the cache's length is a shape."""
        memory = self._parts.runner.memory
        held = (memory.io, memory.kv, memory.workspace)
        addresses = tuple(buffer.address for group in held for buffer in group.values())
        arena = memory.arena.address if memory.arena is not None else 0
        moving = past if self._parts.stepper.moving else -1
        key = (self._parts.run.capacity, moving, arena, addresses, self._parts.runner.traffic)
        if self._bound is None or self._bound[0] != key:
            self._bound = (key, self._bind(past, self._parts.run.capacity))
        return self._bound[1]

    def _shapes(self, past: int, capacity: int) -> tuple[PhaseBindings, Extents]:
        runner = self._parts.runner
        extents = Extents(1, self._draft + 1, past, capacity, runner.plan.kv.pool)
        model, scenario = runner.planner.model, runner.plan.scenario
        return decoder_bindings(model, scenario, Phase.PREFILL, extents), extents

    def _reserve(self) -> None:
        """The arena and the workspace that a pass over the full cache needs, so that nothing moves later."""
        parts = self._parts
        capacity = parts.runner.plan.kv.capacity
        shapes, _ = self._shapes(max(capacity - self._draft - 1, 0), capacity)
        resolver = parts.runner.resolver(shapes)
        value = parts.runner.planner.model.program.value_named(parts.contract.logits)
        logits = resolver.shape(value.id) if value is not None else None
        if not isinstance(logits, Exact) or logits.shape[-2:-1] != (self._draft + 1,):
            raise InputError(
                "speculative decoding", "the graph gives logits for the last token alone", "Decode plainly"
            )
        parts.runner.bind_at(fitting_arena(parts.runner, resolver), resolver, ())
        parts.stepper.forget()
        size = 2 * 8 * (self._draft + 1)
        self._rows = parts.runner.memory.take(ComponentName.BINDINGS, "verified tokens", size)

    def _bind(self, past: int, capacity: int) -> Bound:
        self._parts.runner.gate.missed()
        shapes, extents = self._shapes(past, capacity)
        resolver = self._parts.runner.resolver(shapes)
        bindings = self._parts.stepper.buffers(shapes, extents)
        arena = fitting_arena(self._parts.runner, resolver)
        return bindings, self._parts.runner.bind_at(arena, resolver, bindings)

    def _feed(self, bindings: Sequence[Binding], tokens: tuple[int, ...], past: int) -> None:
        """Uploads what a pass over ``tokens`` reads, behind ``past`` valid ones."""
        rows = np.array([tokens], np.int64)
        uploaded = self._parts.stepper.feeds.fill_pass(bindings, rows, past, kept=len(tokens))
        self._parts.run.uploaded(uploaded)

    def _numbers(self) -> Array:
        assert self._rows is not None
        numbers: Array = self._rows.bytes.view(np.int64).reshape(2, -1)
        return numbers

    def _chosen(self) -> Array:
        """The likeliest token of each row of the last pass, on the device."""
        chosen: Array = self._numbers()[0]
        return chosen

    def _choose(self, bindings: Sequence[Binding]) -> Callable[[], None]:
        rows = self._parts.stepper.logits(bindings)[0]
        numbers = self._numbers()
        return self._parts.runner.device.choose_action(rows, numbers[0], numbers[1])

    def _launch(self, bindings: Sequence[Binding], program: BoundProgram, work: StepWork) -> None:
        """Replays the Verify graph, captures it once a pass is warm, or runs the pass eagerly."""
        parts, slot, now = self._parts, self._parts.slot, self.counts
        self._check(bindings)
        if slot.graph is not None:
            slot.replay(parts.runner, program, work)
            self.counts = replace(now, replayed=now.replayed + 1)
        elif self._warmed and self._may_capture():
            report = slot.capture(parts.runner, program, bindings, frozenset(), self._warmed, work)
            parts.runner.say(EventKind.CAPTURE, slot.name, str(report), step=parts.run.position)
            self.counts = replace(now, captured=now.captured + 1)
        else:
            parts.runner.run(program, never_cancelled, work)
            self._warmed = frozenset(launch.step.index for launch in program.launches)
            self.counts = replace(now, eager=now.eager + 1)

    def _may_capture(self) -> bool:
        """Not where the cache's length is a shape: it moves every time; nor for a graph that keeps dying."""
        slot = self._parts.slot
        declined = slot.report is not None and not slot.report.captured
        return not self._parts.stepper.moving and not declined and slot.invalidations < TIRED_AFTER

    def _check(self, bindings: Sequence[Binding]) -> None:
        """Drops a graph whose buffers moved; the next pass is the warm-up of another one."""
        slot = self._parts.slot
        changed = slot.check(bindings) if slot.graph is not None else ()
        if changed:
            cause = str(changed_error(changed))
            slot.reset(cause, self._parts.run.position, changed)
            self._warmed = frozenset()
            self._parts.runner.say(EventKind.INVALIDATE, slot.name, cause, step=self._parts.run.position)

    def _settle(self, bindings: Sequence[Binding], length: int, token: int, row: int) -> None:
        """Takes the accepted tokens over: lengths, the mask's columns, the last token, its logits."""
        parts, device = self._parts, self._parts.runner.device
        parts.run.uploaded(parts.stepper.feeds.settle(bindings, np.array([length])))
        device.upload(parts.worker.state.length, np.array([length], np.int64))
        device.upload(parts.worker.state.token, np.array([token], np.int64))
        parts.run.position, parts.run.tokens = length, (token,)
        parts.run.logits = device.download(parts.stepper.logits(bindings)[:, row])

    def close(self) -> None:
        """Drops the graph and gives the speculator's own memory back."""
        self._parts.slot.reset("speculation ended")
        if self._rows is not None:
            self._parts.runner.memory.give(self._rows)
            self._rows = None

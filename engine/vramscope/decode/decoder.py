"""The decode session: prefill, eager steps, capture, replay, and what invalidates a graph (semantics 2.9)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.accounting import Accounts
from vramscope.decode.cache import allocate_cache, grow_cache, kv_buffer_bytes, ready_cache
from vramscope.decode.inspection import SlotsView, inspect
from vramscope.decode.multistep import MultiStep
from vramscope.decode.prefilling import Prefiller
from vramscope.decode.prompts import check_prompts
from vramscope.decode.saving import restore_state, save_state
from vramscope.decode.session_state import RunState, SavedState, StepKind
from vramscope.decode.slot import GraphSlot
from vramscope.decode.snapshots import decode_snapshot
from vramscope.decode.speculation import Parts, Speculator, refuse_speculation
from vramscope.decode.stepper import Stepper
from vramscope.decode.stepwork import StepWorker
from vramscope.decode.types import DecodeSnapshot, DecodeState, StepResult, VerifyReport
from vramscope.decode.verify import verify
from vramscope.devices.host import HostDevice
from vramscope.devices.sampling import GREEDY, Sampling
from vramscope.errors import InputError, NeverCapturedError
from vramscope.plan.kv import first_capacity
from vramscope.plan.planner import Planner, available_bytes
from vramscope.plan.prefill import room_for
from vramscope.run.events import (
    CancelCheck,
    EventKind,
    EventSink,
    Progress,
    ignore_event,
    ignore_progress,
    never_cancelled,
)
from vramscope.run.runner import Runner
from vramscope.run.signature import changed_error
from vramscope.run.traffic import MixtureTraffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.base import Device, GraphFacts
    from vramscope.devices.governor_types import MemoryGovernor
    from vramscope.devices.stopwatch import Stopwatch
    from vramscope.graph.model import Array, Model
    from vramscope.plan.types import Plan
    from vramscope.run.bindings import Binding
    from vramscope.run.capture import CaptureReport
    from vramscope.run.signature import Difference
    from vramscope.run.trace import Tracer


class Decoder:
    """One model decoding one batch of sequences on one device. One thread owns it.

    ``traffic`` watches its mixtures of experts.
    """

    def __init__(
        self,
        model: Model,
        plan: Plan,
        *,
        device: Device | None = None,
        events: EventSink = ignore_event,
        sampling: Sampling | None = None,
        governor: MemoryGovernor | None = None,
        planner: Planner | None = None,
    ) -> None:
        """Nothing is allocated before :meth:`load`; ``governor`` as :class:`Runner` says.

        ``planner``: the model's, where there is one already.

        Raises:
            InputError: the model is not a decoder, or the sampling settings are out of range.
        """
        if model.contract is None:
            raise InputError(str(model.path), "it is not a decoder", "Run it as a plain model")
        budget = available_bytes(plan.scenario)
        self.model = model
        self._contract = model.contract
        self._planner = planner or Planner(model)
        held = device or HostDevice(budget)
        self._owns_device = device is None
        self._runner = Runner(self._planner, self._planner.suited(plan, held.runtime), held, events, governor)
        self._stepper = Stepper(self._runner)
        self._sampling = (sampling or GREEDY).checked()
        self._worker = StepWorker(self._runner, self._stepper, self._sampling)
        self._captured: Sequence[Binding] = ()
        self._slot = GraphSlot("Primary")
        self._verify = GraphSlot("Verify")
        self._speculator: Speculator | None = None
        self._state = DecodeState.IDLE
        self._run = RunState()
        self._accounts = Accounts(self._runner, self._worker, self._stepper.feeds, self._run)
        self._prefiller = Prefiller(self._runner, self._stepper, self._worker, self._run)
        self._multi = MultiStep(self._parts(), self._accounts, self._launch)
        self.traffic = MixtureTraffic(self._runner, self._retire)

    def load(self, progress: Progress = ignore_progress, cancel: CancelCheck = never_cancelled) -> None:
        """Loads the weights and reserves everything the plan says.

        Raises:
            UnboundedAxisError: the plan has a refused axis.
            OutOfBudgetError: the budget does not hold the plan; nothing stays allocated.
            CancelledError: the user asked to stop; nothing stays allocated.
        """
        try:
            batch = self.plan.scenario.batch
            self._run.capacity = first_capacity(self.plan.scenario, self.plan.kv.capacity)
            needed = sum(kv_buffer_bytes(self.model, batch, self._run.capacity, self.plan.kv.pool).values())
            self._runner.prepare(progress, cancel, kv=needed)
            allocate_cache(self.model, self._runner, batch, self._run.capacity)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Drops the graphs, then gives back all memory."""
        for slot in (self._slot, self._verify):
            slot.reset("the session was closed")
        self._runner.close()
        if self._owns_device:
            self.device.close()
        self._state = DecodeState.IDLE

    @property
    def state(self) -> DecodeState:
        """Where the state machine stands."""
        return self._state

    @property
    def plan(self) -> Plan:
        """The plan the session's memory follows."""
        return self._runner.plan

    @property
    def device(self) -> Device:
        """The device, with its ledger."""
        return self._runner.device

    def trace(self, tracer: Tracer | None) -> None:
        """Lets ``tracer`` record what runs from here on; None: nothing any more."""
        self._runner.tracer = tracer

    def prefill(self, prompts: Sequence[Sequence[int]], cancel: CancelCheck = never_cancelled) -> StepResult:
        """Runs the prompts in one pass and chooses the first new token of every sequence.

        Args:
            prompts: token ids, one list per sequence of the batch; shorter ones are padded on the right.
            cancel: checked between nodes.

        Raises:
            InputError: a wrong number of prompts, an empty one, one longer than the context, a token outside
                the vocabulary, or lengths that differ where the graph cannot mask them.
        """
        self._runner.require_prepared()
        longest = check_prompts(prompts, self._contract, self.plan)
        self.reset()
        self._room_for_pass(longest)
        if longest + 1 > self._run.capacity and self._run.capacity < self.plan.kv.capacity:
            self._grow(self._bucket(longest + 1))
        started = self._accounts.start("prefill")
        count = self._prefiller.prefill(prompts, longest, cancel)
        self._run.position = longest
        self._state = DecodeState.WARM_UP
        how = "one pass" if count == 1 else f"{count} passes"
        self._runner.say(EventKind.PHASE, "prefill", f"{longest} tokens a sequence in {how}")
        return self._accounts.step(started, StepKind.PREFILL)

    def _room_for_pass(self, tokens: int) -> None:
        """Plans anew where a pass over so many tokens is wider than the planned one."""
        scenario = room_for(self.plan.scenario, tokens)
        if scenario is self.plan.scenario:
            return
        longer = replace(scenario, context=self.plan.context)
        if self._runner.adopt(self._planner.plan(longer).require()):
            self._stepper.forget()

    def step(self, cancel: CancelCheck = never_cancelled, watch: Stopwatch | None = None) -> StepResult:
        """One eager decode step; a ``watch`` times its nodes, and it does not count in the eager speed.

        Raises:
            InputError: nothing was prefilled, or the context is full.
        """
        self._need_room()
        started = self._accounts.start("decode")
        bindings, program = self._stepper.decode(self._run.position, self._run.capacity)
        check = never_cancelled if any(pair.window for pair in self._contract.kv) else cancel
        cancel()

        work = self._worker.work(bindings)
        first = self._run.eager_steps == 0
        if first:
            self._runner.measured(lambda: self._runner.run(program, check, work))
        else:
            self._runner.run(program, check, work, watch=watch)
        self._moved(bindings)
        self._run.warmed = frozenset(launch.step.index for launch in program.launches)
        result = self._accounts.step(started, StepKind.SLOWED if first or watch else StepKind.EAGER)
        if self._state is DecodeState.WARM_UP:
            self._state = DecodeState.ARMED
        return result

    def advance(self, cancel: CancelCheck = never_cancelled) -> StepResult:
        """One step by the state machine: replay when ready, capture when armed, else an eager step."""
        if self._state is DecodeState.READY:
            return self.replay(cancel)
        if self._state is DecodeState.ARMED:
            return self.capture(cancel)[1]
        return self.step(cancel)

    def capture(self, cancel: CancelCheck = never_cancelled) -> tuple[CaptureReport, StepResult]:
        """Records one decode step as a graph while executing it; an eager step comes first if none was run.

        A declined capture is a value: the report says why, and the step runs eagerly.
        """
        if self._state is DecodeState.WARM_UP:
            self.step(cancel)
        self._need_room()
        started = self._accounts.start("capture")
        bindings, program = self._stepper.decode(self._run.position, self._run.capacity)
        report = self._slot.capture(
            self._runner,
            program,
            bindings,
            self._stepper.moving_symbols(self._run.position, self._run.capacity),
            self._run.warmed,
            self._worker.work(bindings),
        )
        self._captured = bindings
        self._moved(bindings)
        self._state = DecodeState.READY if report.captured else DecodeState.UNSUPPORTED
        self._slot.tell(self._runner, report, self._run.position)
        return report, self._accounts.step(started, StepKind.SLOWED)

    def replay(self, cancel: CancelCheck = never_cancelled) -> StepResult:
        """One step by replaying the captured graph.

        Where growth retired it, the step runs by the state machine.

        Raises:
            NeverCapturedError: no graph was ever captured.
            BindingsChangedError: the bindings differ from the captured ones; the graph is dropped.
        """
        cancel()
        if self._slot.captures == 0:
            raise NeverCapturedError("the decode step", "no graph was captured", "Capture a step first")
        self._need_room()
        if self._state is not DecodeState.READY:
            return self.advance(cancel)
        started = self._accounts.start("replay")
        self._launch()
        return self._accounts.step(started, StepKind.REPLAY)

    def replays(self, count: int, cancel: CancelCheck = never_cancelled) -> list[StepResult]:
        """Up to ``count`` replays whose tokens are read from the device at once (multi-step decoding).

        Fewer where the bucket or the context ends and behind an end of sequence; one, as :meth:`replay` says,
        where no graph is ready or steps could not be taken back.

        Raises:
            NeverCapturedError, BindingsChangedError: as :meth:`replay` says.
            CancelledError: before the first replay.
        """
        if self._state is DecodeState.READY:
            self._need_room()
        most = self._multi.most(count)
        if most == 1 or self._state is not DecodeState.READY:
            return [self.replay(cancel)]
        started = self._accounts.start("replay")
        return self._accounts.steps(started, self._multi.replay(most, cancel), StepKind.REPLAY)

    def _launch(self) -> None:
        """Replays one step; its tokens stay on the device."""
        bindings, program = self._stepper.decode(self._run.position, self._run.capacity)
        changed = () if bindings is self._captured else self._slot.check(bindings)
        if changed:
            self._invalidate(changed)
            raise changed_error(changed)
        self._slot.replay(self._runner, program, self._worker.work(bindings))
        self._moved(bindings)

    def verify(self, count: int, cancel: CancelCheck = never_cancelled) -> VerifyReport:
        """Replays ``count`` steps, goes back, runs the same steps eagerly, and compares tokens and logits.

        Raises:
            NeverCapturedError: no graph is ready.
        """
        if self._state is not DecodeState.READY:
            raise NeverCapturedError("the decode step", "no graph is ready to verify", "Capture a step first")
        room = self._stepper.feeds.room(self._run.capacity)
        return verify(self, min(count, room - self._run.position), cancel)

    def speculator(self, draft: int) -> Speculator:
        """Verifies drafts of ``draft`` tokens on the Verify slot; an earlier one ends, the session is reset.

        Raises:
            InputError: this model or these settings cannot be speculated with.
        """
        refuse_speculation(self._contract, self.plan.scenario.batch, draft, greedy=self._sampling.greedy)
        self.reset()
        if self._speculator is not None:
            self._speculator.close()
        self._room_for_pass(draft + 1)
        self._speculator = Speculator(self._parts(), draft)
        return self._speculator

    def _parts(self) -> Parts:
        return Parts(self._runner, self._stepper, self._worker, self._run, self._verify, self._contract)

    def reset(self) -> None:
        """Forgets the sequence, drops the graphs (semantics 1.19); memory stays."""
        self._drop_graphs("the session was reset")
        self._run.position = self._run.carried = 0
        self._run.finished = ""
        self._state = DecodeState.IDLE

    def _drop_graphs(self, cause: str) -> None:
        for slot in (self._slot, self._verify):
            if slot.reset(cause):
                self._runner.say(EventKind.INVALIDATE, slot.name, cause, step=self._run.position)

    def _retire(self, cause: str) -> None:
        """The kernels of every bound step change: graphs go, steps are bound anew and warmed up."""
        self._drop_graphs(cause)
        self._stepper.forget()
        if self._state is not DecodeState.IDLE:
            self._state = DecodeState.WARM_UP

    def logits(self) -> Array:
        """The logits the last token was chosen from, float32 [batch, vocabulary], a copy."""
        return np.array(self._run.logits, np.float32)

    def save(self) -> SavedState:
        """Everything a step changes."""
        return save_state(self._runner.memory, self._contract, self._run)

    def restore(self, saved: SavedState) -> None:
        """Goes back to a saved state; the addresses of all buffers stay."""
        restore_state(self._runner.memory, self._run, saved)

    def _need_room(self) -> None:
        if self._state is DecodeState.IDLE:
            raise InputError("a decode step", "nothing was prefilled", "Prefill a prompt first")
        if self._run.position >= self.plan.context:
            raise InputError(
                "a decode step",
                f"the context of {self.plan.context:,} tokens is full",
                "Plan a longer context, or reset",
            )
        if self._run.position >= self._run.capacity:
            self._grow(self._bucket(self._run.position + 1))
        ready_cache(self._runner, self._stepper.feeds, self._run, self._run.position + 1)

    def _bucket(self, length: int) -> int:
        return self.plan.scenario.bucket.capacity(length, self.plan.kv.capacity)

    def _moved(self, bindings: Sequence[Binding]) -> None:
        self._run.logits = self._worker.logits(bindings)
        self._run.position += 1

    def _grow(self, capacity: int) -> None:
        """Moves the KV cache to a larger bucket; an installed graph dies of it."""
        old = self._run.capacity
        grow_cache(self.model, self._runner, self.plan.scenario.batch, (old, capacity), self._run.position)
        self._run.capacity = capacity
        self._stepper.forget()
        self._runner.say(
            EventKind.GROW, "KV cache", f"{old:,} → {capacity:,} tokens", step=self._run.position
        )
        if self._slot.graph is not None:
            bindings, _ = self._stepper.decode(self._run.position, self._run.capacity)
            self._invalidate(self._slot.check(bindings))

    def _invalidate(self, changed: tuple[Difference, ...]) -> None:
        cause = str(changed_error(changed)) if changed else "the KV cache was replaced"
        self._slot.reset(cause, self._run.position, changed)
        self._state = DecodeState.WARM_UP
        self._runner.say(EventKind.INVALIDATE, self._slot.name, cause, step=self._run.position)

    def graph_facts(self) -> tuple[GraphFacts, ...]:
        """What the device says of each captured graph; empty where it has none of its own."""
        found = map(self.device.graph_facts, self._slot.graph.segments if self._slot.graph else ())
        return tuple(item for item in found if item is not None)

    def inspect(self) -> SlotsView:
        """Both graph slots in full, what a capture asks for, and what became of the memory slots."""
        return inspect(self._runner, self._run, self._state, self._stepper, (self._slot, self._verify))

    def snapshot(self) -> DecodeSnapshot:
        """Everything live, as frozen data."""
        slots, feeds = (self._slot, self._verify), self._stepper.feeds
        return decode_snapshot(self._runner, self._run, self._state, slots, feeds)

"""One session's memory and program: load, reserve, bind, run eagerly.

Decoders and plain models both use it.
"""

from __future__ import annotations

import time
import tracemalloc
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from vramscope.devices.card import outside_of
from vramscope.errors import UnsupportedOperatorError, VramscopeError
from vramscope.plan.outside import with_context
from vramscope.plan.phase import phase_workspace
from vramscope.plan.sizes import Resolver, symbol_ranges
from vramscope.plan.types import OWN_RUNTIME, UNKNOWN, Certainty, Figure, Phase, Plan
from vramscope.run.admission import admit, own_governor
from vramscope.run.events import CancelCheck, Event, EventKind, EventSink, Progress
from vramscope.run.inputs import require_tensors
from vramscope.run.last_rows import ALL_ROWS, WantedRows
from vramscope.run.launch import (
    BoundProgram,
    Launch,
    Prepared,
    bind_head,
    bind_program,
    release_unplanned,
)
from vramscope.run.leases import SessionLeases
from vramscope.run.loading import load_weights
from vramscope.run.memory import SessionMemory, bind_io, reserve
from vramscope.run.readiness import ResourceGate
from vramscope.run.trace import Span, SpanKind
from vramscope.run.tracing import ProgramTracer, node_runner, run_actions
from vramscope.run.workspace import require_slot, reserve_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vramscope.devices.base import Device
    from vramscope.devices.governor_types import MemoryGovernor
    from vramscope.devices.stopwatch import Stopwatch
    from vramscope.ops.call import Tensor
    from vramscope.ops.spec import Lifetime
    from vramscope.plan.arena import ArenaPlan
    from vramscope.plan.planner import Planner
    from vramscope.plan.symbols import PhaseBindings
    from vramscope.run.bindings import Binding
    from vramscope.run.capture import CaptureReport
    from vramscope.run.graph import StepWork
    from vramscope.run.trace import Tracer

LOADING = "loading"
"""The ledger's phase while weights are loaded and memory is reserved."""


class Watch(Protocol):
    """Sees programs and weights of a session as they come."""

    def loaded(self) -> None:
        """The weights are resident."""

    def attach(self, launches: Sequence[Launch]) -> None:
        """A program was bound; its kernels may be exchanged."""


class Runner:
    """A planned program on a device. One thread owns it."""

    def __init__(
        self,
        planner: Planner,
        plan: Plan,
        device: Device,
        events: EventSink,
        governor: MemoryGovernor | None = None,
    ) -> None:
        """Nothing is allocated before :meth:`prepare`.

        Args:
            planner: of the model.
            plan: what the session's memory follows.
            device: where it runs.
            events: told what happens.
            governor: of the device, where sessions share one; left out, one for this session alone, whose
                limit is the device's budget.

        Raises:
            ScenarioError: the plan assumes another export than the model's file.
        """
        plan.require_runnable()
        self.planner = planner
        self.device = device
        self.plan = self._seen(plan)
        leases = SessionLeases(
            governor or own_governor(device),
            planner.model.folder.name or "the model",
            private=governor is None,
        )
        self.memory = SessionMemory(device, leases)
        self.gate = ResourceGate(device)
        """What graphs of this session need."""
        self.temporaries: Figure = UNKNOWN
        self.traffic: Watch | None = None
        """Watches mixtures of experts while it is armed."""
        self._events = events
        self._born = time.perf_counter()
        self._prepared = False
        self._tracer: Tracer | None = None

    @property
    def tracer(self) -> Tracer | None:
        """Told what runs; None: nobody is."""
        return self._tracer

    @tracer.setter
    def tracer(self, tracer: Tracer | None) -> None:
        self._tracer = tracer
        if tracer is not None:
            name = self.planner.model.folder.name or "the model"
            tracer.attach(name, self.device.name, waits=self.device.runtime == OWN_RUNTIME)
            tracer.sample(self.device.ledger)

    def ran(self, phase: str, started: float, position: int) -> None:
        """A step, or what else the ledger counts as a phase, began at ``started`` and is done."""
        if self._tracer is not None:
            self._tracer.sample(self.device.ledger)
            ended = time.perf_counter()
            self._tracer.add(Span(SpanKind.STEP, phase, started, ended, number=position))

    def prepare(self, progress: Progress, cancel: CancelCheck, kv: int = 0) -> None:
        """Claims what the plan says, loads the weights, reserves the rest. Whatever fails, nothing stays.

        Args:
            progress: told how far loading is.
            cancel: checked between weights.
            kv: bytes of the KV cache that the caller will take.

        Raises:
            UnboundedAxisError: the plan has a refused axis.
            UnsupportedOperatorError: nothing runs one of the operators.
            BindingError: an input is a sequence.
            OutOfBudgetError: the governor's limit does not hold the plan; says what is to blame and what
            would fit. CancelledError: the user asked to stop.
        """
        self.plan.require()
        require_tensors(self.planner.model.program)
        require_kernels(self.plan)
        self.device.ledger.enter(LOADING)
        started = time.perf_counter()
        try:
            admit(self.memory.leases, self.planner, self.plan, kv)
            load_weights(self.memory, self.planner.index, progress, cancel, self.plan.weights.streaming)
            self.adopt(self.plan)
            if self.traffic is not None:
                self.traffic.loaded()
        except BaseException:
            self.close()
            raise
        self._prepared = True
        self.ran(LOADING, started, 0)

    def require_prepared(self) -> None:
        """Refuses to run without memory.

        Raises:
            VramscopeError: the session was not prepared, or was closed.
        """
        if not self._prepared:
            raise VramscopeError("the session", "its weights are not loaded", "Call load() first")

    def adopt(self, plan: Plan) -> bool:
        """Makes every buffer at least as large as ``plan`` says; True when one moved.

        Raises:
            OutOfBudgetError: as for :meth:`prepare`; the session keeps the plan that it had.
        """
        admit(self.memory.leases, self.planner, plan)
        self.plan = self._seen(plan)
        before = self.device.ledger.total
        moved = reserve(self.memory, plan)
        moved = bind_io(self.memory, plan) or moved
        after = self.device.ledger.total
        taken = after.total_bytes - before.total_bytes
        if taken:
            self.say(EventKind.ALLOCATE, "session memory", f"{taken:,} bytes reserved from the plan", taken)
        return moved

    def _seen(self, plan: Plan) -> Plan:
        """``plan`` with what the open device says of its context."""
        outside = outside_of(self.device)
        return with_context(plan, outside.taken, outside.page)

    def bind(
        self,
        phase: Phase,
        shapes: PhaseBindings,
        bindings: Sequence[Binding],
        wanted: WantedRows = ALL_ROWS,
    ) -> BoundProgram:
        """Binds every launch at these input shapes; offsets are the plan's own. ``wanted`` as in Prepared."""
        return self.bind_at(self.plan.phase(phase).arena, self.resolver(shapes), bindings, wanted=wanted)

    def bind_at(
        self,
        arena: ArenaPlan,
        resolver: Resolver,
        bindings: Sequence[Binding],
        seeds: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
        wanted: WantedRows = ALL_ROWS,
    ) -> BoundProgram:
        """Binds every launch at the resolver's shapes into ``arena``.

        Args:
            arena: where values lie; the session's arena buffer holds it.
            resolver: of the input shapes.
            bindings: the caller's buffers.
            seeds: shapes of data-dependent values as the last eager run saw them.
            wanted: which rows of which output are read.
        """
        lifetimes = self._ensure_workspace(resolver)
        bound = self._bound(bindings)
        prepared = Prepared(lifetimes, seeds, wanted)
        program = bind_program(self.planner.index, self.memory, arena, resolver, bound, prepared)
        if self.traffic is not None:
            self.traffic.attach(program.launches)
        return program

    def bind_head(self, program: BoundProgram, rows: Sequence[int]) -> BoundProgram:
        """The head that a pass was bound without, for one row of every sequence."""
        return bind_head(self.planner.index, self.memory, program, rows)

    def require_workspace(self, resolver: Resolver, lifetimes: Sequence[Lifetime]) -> None:
        """Passes when these slots hold what the resolver's shapes need.

        Raises:
            WorkspaceNotPreparedError: one does not.
        """
        need, _ = phase_workspace(self.planner.index, resolver, self.plan.scenario.runtime)
        for lifetime in lifetimes:
            require_slot(self.memory, lifetime, need)

    def _ensure_workspace(self, resolver: Resolver) -> dict[int, Lifetime]:
        """An eager step at other shapes than planned may need a larger slot: it is replaced (semantics 1.11).

        Returns the lifetime of each step's scratch.
        """
        need, needs = phase_workspace(self.planner.index, resolver, self.plan.scenario.runtime)
        for lifetime, size in need.bytes.items():
            if reserve_slot(self.memory, lifetime, need):
                text = f"the {lifetime.value} slot was replaced: {size:,} bytes, for {need.blame[lifetime]}"
                self.say(EventKind.ALLOCATE, "workspace", text, size)
        return {step: item.lifetime for step, item in needs.items()}

    def resolver(self, shapes: PhaseBindings) -> Resolver:
        """Resolves values at these input shapes."""
        ranges = symbol_ranges(shapes, self.planner.model.program.minted, frozenset())
        return Resolver(self.planner.index, shapes, ranges)

    def _bound(self, bindings: Sequence[Binding]) -> dict[int, Tensor]:
        program = self.planner.model.program
        inputs = {program.values[item].name: item for item in program.inputs}
        outputs = {program.values[item].name: item for item in program.outputs}
        bound: dict[int, Tensor] = {}
        for binding in bindings:
            if binding.input:
                bound[inputs[binding.input]] = binding.input_tensor()
            if binding.output:
                bound[outputs[binding.output]] = binding.output_tensor()
        return bound

    def run(
        self,
        program: BoundProgram,
        cancel: CancelCheck,
        work: StepWork | None = None,
        dispatched: Callable[[Launch], None] | None = None,
        watch: Stopwatch | None = None,
        declined: CaptureReport | None = None,
    ) -> None:
        """Runs every launch eagerly, and the work around it.

        Args:
            program: what to run.
            cancel: checked between nodes.
            work: what surrounds the program.
            dispatched: told of every launch once it has run.
            watch: marked before the first launch and behind each.
            declined: the report of a capture that came to nothing, where this runs in its place.

        Raises:
            CancelledError: between two nodes; the run's outputs are incomplete, the session stays usable.
        """
        seen = None
        if self._tracer is not None:
            seen = ProgramTracer(self._tracer, self.device.ledger, program, declined)
        run = node_runner(seen)
        try:
            with self.device.running():
                run_actions(work.before if work else (), seen)
                if watch is not None:
                    watch.mark()
                for launch in program.launches:
                    cancel()
                    run(program, launch, self.memory)
                    if watch is not None:
                        watch.mark(launch.step.index)
                    if dispatched is not None:
                        dispatched(launch)
                run_actions(work.after if work else (), seen)
        finally:
            release_unplanned(program, self.memory)

    def measured(self, action: Callable[[], None]) -> None:
        """Runs ``action`` once while measuring what NumPy and Python take beside planned memory."""
        if tracemalloc.is_tracing():
            action()
            return
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            action()
            self.temporaries = Figure(max(tracemalloc.get_traced_memory()[1] - before, 0), Certainty.MEASURED)
        finally:
            tracemalloc.stop()

    def say(self, kind: EventKind, subject: str, text: str, size: int = 0, step: int = 0) -> None:
        """Reports an event."""
        event = Event(time.perf_counter() - self._born, kind, step, subject, text, size)
        self._events(event)
        if self._tracer is not None:
            self._tracer.event(event)
            self._tracer.sample(self.device.ledger)

    def close(self) -> None:
        """Gives back all memory and every lease."""
        self._prepared = False
        self.gate.dropped()
        self.memory.close()


def require_kernels(plan: Plan) -> None:
    """Refuses a plan with a node that neither the device nor the host nor the reference evaluator runs.

    Raises:
        UnsupportedOperatorError: names the first such node.
    """
    for phase in plan.phases:
        for row in phase.nodes:
            if row.kernel == "none":
                raise UnsupportedOperatorError(
                    what=f"{row.name} ({row.domain or 'ai.onnx'}::{row.operator})",
                    why="no kernel and no reference implementation runs it here",
                    remedy="The model can be planned; run it where the operator exists",
                    node=row.name,
                )

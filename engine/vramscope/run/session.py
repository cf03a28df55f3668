"""A program session: any graph on one device, run eagerly, captured and replayed (semantics 1.12-1.20)."""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from vramscope.errors import BindingError, SequenceOutputError
from vramscope.graph.capacity import fixed_capacity_symbols
from vramscope.graph.growing import growing_symbols, pinnable_symbols
from vramscope.ops.spec import Lifetime
from vramscope.plan.extents import planned_scenario
from vramscope.plan.planner import Planner
from vramscope.run import capturing, eager, preparing, replaying
from vramscope.run.binding_factory import binding_spec, external_binding, own_binding
from vramscope.run.branches import BranchMemo
from vramscope.run.governing import Governance
from vramscope.run.latching import submission
from vramscope.run.mapping import Mapped, bind_shapes, map_bindings
from vramscope.run.runner import Runner
from vramscope.run.session_state import SessionState, new_state
from vramscope.run.session_types import Outputs, SessionOptions
from vramscope.run.traffic import MixtureTraffic
from vramscope.run.variants import VariantCache, VariantStatistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vramscope.devices.base import Device
    from vramscope.devices.ledger import AllocationCounts
    from vramscope.graph.model import Array, Model
    from vramscope.plan.sizes import Resolver
    from vramscope.plan.types import PhasePlan, Plan, Scenario
    from vramscope.run.capture import CaptureReport, Decline
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.events import CancelCheck
    from vramscope.run.slot import GraphSlot

SlotName = Literal["Primary", "Verify"]


class ProgramSession:
    """One model on one device. One thread owns it; two sessions of one process do not see each other.

    ``traffic`` watches its mixtures of experts.
    """

    def __init__(
        self, model: Model, plan: Plan, device: Device, options: SessionOptions | None = None
    ) -> None:
        """Nothing is allocated before :meth:`prepare`."""
        self._options = options or SessionOptions()
        self._opened = model
        options = self._options
        self._runner = Runner(
            Planner(plan.specialised or model), plan, device, options.events, options.governor
        )
        self._runner.memory.returns_step = True
        self._runner.tracer = options.tracer
        memo = BranchMemo(self._runner.memory) if options.memoise_branches else None
        self._state = new_state(VariantCache(self._options.kernel_variants), memo)
        self.traffic = MixtureTraffic(self._runner, self._retire)

    # ---------------------------------------------------------------------------------- preparing

    def prepare(
        self, inputs: Mapping[str, Array] | None = None, bindings: Sequence[DeviceIoBinding] = ()
    ) -> PhasePlan | None:
        """Loads the weights and reserves the plan's memory; with inputs or bindings also what they need.

        Bindings count with their *physical* shape, so a slot serves a cache that is full (semantics 1.13).
        No node runs. The answer is the plan at those shapes, None without inputs and bindings.

        Raises:
            UnboundedAxisError: an axis has no ceiling. OutOfBudgetError: the budget does not hold it.
            BindingError: as :func:`~vramscope.run.mapping.map_bindings` and ``bind_shapes`` say.
        """
        return preparing.prepare(self, inputs or {}, bindings)

    def allocate_binding(
        self,
        physical: tuple[int, ...],
        *,
        input_name: str = "",
        output_name: str = "",
        fixed_strides: bool = False,
    ) -> DeviceIoBinding:
        """A binding in zeroed device memory; see :func:`~vramscope.run.binding_factory.own_binding`."""
        program = self._runner.planner.model.program
        spec = binding_spec(program, (input_name, output_name), physical, fixed_strides=fixed_strides)
        return own_binding(self._runner.memory, spec)

    def bind_external(
        self, memory: object, physical: tuple[int, ...], *, input_name: str = "", output_name: str = ""
    ) -> DeviceIoBinding:
        """A binding over the caller's memory; see :func:`~vramscope.run.binding_factory.external_binding`."""
        spec = binding_spec(self._runner.planner.model.program, (input_name, output_name), physical)
        return external_binding(self._runner.device, spec, memory)

    # ---------------------------------------------------------------------------------- running

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """Runs the graph on host inputs; every output is a copy.

        Raises:
            SequenceOutputError: an output is a sequence: :meth:`run_outputs` gives those.
            BindingError: an input that the graph lacks, is missing, or does not match.
        """
        self._refuse_sequences("run", frozenset())
        return self.run_outputs(inputs)

    def run_outputs(self, inputs: Mapping[str, Array]) -> Outputs:
        """As :meth:`run`; a sequence is a list of tensors."""
        return self._run(inputs, ())

    def run_with_device_bindings(
        self, inputs: Mapping[str, Array], bindings: Sequence[DeviceIoBinding]
    ) -> Outputs:
        """Runs eagerly over bindings. A bound output is None here: it is in its buffer.

        An installed graph stays installed.

        Raises:
            BindingError: as its subclass says, in the order of semantics 1.12 and 1.14.
            SequenceOutputError: an unbound output is a sequence.
            DeferredValidationError: kernels found invalid data.
        """
        self._refuse_sequences("run_with_device_bindings", {item.spec.output for item in bindings})
        return self._run(inputs, bindings)

    def _run(self, inputs: Mapping[str, Array], bindings: Sequence[DeviceIoBinding]) -> Outputs:
        mapped = self.map(bindings)
        with self._request("run"):
            return eager.run(self, inputs, mapped)

    def warm_up(self, bindings: Sequence[DeviceIoBinding]) -> None:
        """Runs one eager step and puts back what it overwrote of its own inputs, as if it had not run.

        Raises:
            BindingError: as for a run.
        """
        with capturing.preserved(self, self.map(bindings)):
            self._run({}, bindings)

    # ---------------------------------------------------------------------------------- capture, replay

    def try_capture(self, bindings: Sequence[DeviceIoBinding], *, preserve: bool = False) -> CaptureReport:
        """Records one step on the active slot while executing it.

        A step that cannot be captured is a value: the report says why, and its ``executed`` whether it was
        computed all the same.

        Args:
            bindings: every input and every output.
            preserve: put back what the step overwrote of its own inputs, as if it had not run.

        Raises:
            BindingError: as for a run.
        """
        mapped = self.map(bindings)
        with self._request("capture"):
            return capturing.capture(self, mapped, bindings, preserve=preserve)

    def replay(self, bindings: Sequence[DeviceIoBinding]) -> bool:
        """Replays the active slot's graph.

        Returns:
            True: the step was replayed. False: the step's results are right, but its graph is gone (lost
            out-of-band, or a shape moved, and the step ran eagerly): warm up and capture again.

        Raises:
            NeverCapturedError: no graph is installed; says why the last one died.
            BindingsChangedError: the bindings differ from the captured ones; the graph is dropped.
            DeferredValidationError: kernels found invalid data.
        """
        with self._request("replay"):
            return replaying.replay(self, bindings)

    def reset(self) -> bool:
        """Drops the active slot's graph; whether one was held."""
        return self.drop(self.slot, "it was reset")

    def set_graph_slot(self, name: SlotName) -> None:
        """Retargets capture and replay; nothing is reset.

        Raises:
            BindingError: there is no such slot.
        """
        if name not in self._state.slots:
            raise BindingError(f"graph slot {name}", "there is none of this name", "Use Primary or Verify")
        self._state.active = name

    def capture_segmentation(self) -> tuple[Decline, ...]:
        """Why the last capture on the active slot has seams; empty for a single graph."""
        report = self.slot.report
        return report.declines if report is not None else ()

    def captured_segment_count(self) -> int:
        """Captured segments of the installed graph; 0 when none is held."""
        graph = self.slot.graph
        return graph.report.captured_segments if graph is not None and self.slot.held else 0

    def pin_fixed_capacity_symbols(self) -> int:
        """Holds the cache symbols of capacity-form nodes, and masks that allow it, at capacity; how many.

        A pure function of the graph: calling again changes nothing (semantics 2.3).
        """
        model = self._runner.planner.model
        pinned = pinnable_symbols(model.program, model.contract) | fixed_capacity_symbols(model.program)
        self._state.pinned, self._state.growing = pinned, None
        return len(pinned)

    @property
    def pin_step_workspace(self) -> bool:
        """Whether the step slot is kept between runs: a captured graph may then use it (semantics 1.10)."""
        return self._state.pin_step

    @pin_step_workspace.setter
    def pin_step_workspace(self, pinned: bool) -> None:
        self._state.pin_step = pinned

    # ---------------------------------------------------------------------------------- what it says

    def device_allocation_counts(self) -> AllocationCounts:
        """Allocations and frees of the device's memory; what it kept since the last run is neither."""
        return self._runner.device.allocation_counts

    def check_device_capture_error(self) -> int:
        """Waits, then takes this session's own pending validation flags; 0 when there are none."""
        self._runner.device.synchronize()
        flags, self._state.pending_flags = self._state.pending_flags, 0
        return flags

    @property
    def variants(self) -> VariantStatistics:
        """Counts of the kernel variants."""
        return self._state.variants.statistics

    @property
    def branch_hits(self) -> int:
        """How often a branch's kept result was used instead of running it."""
        return self._state.memo.hits if self._state.memo is not None else 0

    @property
    def governance(self) -> Governance:
        """The session's memory: governor, weight budget, what is claimed."""
        return Governance(self._runner)

    def _retire(self, cause: str) -> None:
        for slot in self._state.slots.values():
            self.drop(slot, cause)

    @property
    def slot(self) -> GraphSlot:
        """The active slot, with its history."""
        return self._state.slot

    @property
    def state(self) -> SessionState:
        """The session's changing state, for capturing and replaying."""
        return self._state

    @property
    def runner(self) -> Runner:
        """The planned program on its device."""
        return self._runner

    @property
    def growing(self) -> frozenset[str]:
        """Symbols that veto a capture, without the pinned ones."""
        if self._state.growing is None:
            model, fail_safe = self._runner.planner.model, self._options.fail_safe
            self._state.growing = growing_symbols(
                model.program, model.contract, self._state.pinned, fail_safe=fail_safe
            )
        return self._state.growing

    def close(self) -> None:
        """Drops the graphs, then gives back the session's own memory; bindings are their owners'."""
        self._retire("the session was closed")
        if self._state.memo is not None:
            self._state.memo.close()
        self._runner.close()
        self._state.prepared = False

    # ---------------------------------------------------------------------------------- the parts

    def resolver(self, mapped: Mapped) -> Resolver:
        """What every shape is at these bindings."""
        shapes = bind_shapes(self._runner.planner.model, self.scenario, {}, mapped)
        return self._runner.resolver(shapes)

    @property
    def scenario(self) -> Scenario:
        """The plan's scenario as the model that was planned understands it."""
        return planned_scenario(self._opened, self._runner.plan)

    @property
    def options(self) -> SessionOptions:
        """How the session behaves."""
        return self._options

    @property
    def cancel(self) -> CancelCheck:
        """Raises once the user asked to stop."""
        return self._options.cancel

    def drop(self, slot: GraphSlot, cause: str) -> bool:
        """Resets a slot and says so."""
        return replaying.drop(self, slot, cause)

    def map(self, bindings: Sequence[DeviceIoBinding]) -> Mapped:
        """Validates bindings as :func:`~vramscope.run.mapping.map_bindings` does."""
        return map_bindings(self._runner.planner.model.program, self._runner.device, bindings)

    def _refuse_sequences(self, what: str, bound: frozenset[str] | set[str]) -> None:
        program = self._runner.planner.model.program
        for item in program.outputs:
            value = program.values[item]
            if value.is_sequence and value.name not in bound:
                raise SequenceOutputError(
                    f"output {value.name}", f"it is a sequence, which {what} does not give", "Use run_outputs"
                )

    @contextmanager
    def _request(self, phase: str) -> Iterator[None]:
        """One top-level run: a validation submission; the step workspace goes back whatever happens."""
        self._runner.device.ledger.enter(phase)
        self._state.step += 1
        started = perf_counter()
        try:
            with submission(self._runner.device, self._pend):
                yield
        finally:
            self._release_step_workspace()
            self._runner.ran(phase, started, self._state.step)

    def _pend(self, flags: int) -> None:
        self._state.pending_flags |= flags

    def _release_step_workspace(self) -> None:
        memory = self._runner.memory
        if not self._state.pin_step and Lifetime.STEP_SCOPED in memory.workspace:
            memory.give(memory.workspace.pop(Lifetime.STEP_SCOPED))

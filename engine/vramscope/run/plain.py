"""Running a model that is not a decoder: named inputs in, named outputs out, in planned memory."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

import numpy as np

from vramscope.devices.host import HostDevice
from vramscope.graph.dtypes import ElementType
from vramscope.plan.extents import planned_scenario
from vramscope.plan.planner import Planner, available_bytes
from vramscope.plan.symbols import bind_symbols
from vramscope.plan.types import Bounded, ComponentName, Exact, Phase, Plan
from vramscope.run.bindings import Binding, bind
from vramscope.run.events import (
    CancelCheck,
    EventSink,
    Progress,
    ignore_event,
    ignore_progress,
    never_cancelled,
)
from vramscope.run.inputs import check_planned, random_inputs, require_tensors
from vramscope.run.memory_state import MemoryState, memory_state
from vramscope.run.placing import computed, upload_input
from vramscope.run.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.base import Device
    from vramscope.devices.governor_types import MemoryGovernor
    from vramscope.devices.ledger import Counters
    from vramscope.graph.model import Array, Model, Program
    from vramscope.ops.call import Tensor
    from vramscope.plan.sizes import Resolver
    from vramscope.run.trace import Tracer


class PlainSettings(TypedDict, total=False):
    """How a plain run behaves.

    Attributes:
        seed: for random inputs.
        device: the host with the scenario's budget when left out.
        governor: of the device, where sessions share one.
        planner: the model's, where there is one already.
        events: told what happens.
        progress: told how far loading is.
        cancel: checked between nodes.
        tracer: told what runs; None: nobody is.
    """

    seed: int
    device: Device
    governor: MemoryGovernor
    planner: Planner
    events: EventSink
    progress: Progress
    cancel: CancelCheck
    tracer: Tracer | None


@dataclass(frozen=True, slots=True)
class PlainRun:
    """Outputs by name in graph order, and what the run took, as it was at its end.

    Attributes:
        outputs: by name.
        memory: claims and peaks.
        total: of all components.
        components: by name.
        budget: bytes that might have been out at once.
        allocations: made while the nodes ran.
    """

    outputs: list[tuple[str, Tensor]]
    memory: MemoryState
    total: Counters
    components: Mapping[str, Counters]
    budget: int | None
    allocations: int


def run_plain(
    model: Model,
    plan: Plan,
    inputs: Mapping[str, Array] | None = None,
    **settings: Unpack[PlainSettings],
) -> list[tuple[str, Tensor]]:
    """Runs the model once and returns its outputs by name, in graph order.

    Args:
        model: any model.
        plan: of a scenario whose extents are the inputs' (:func:`vramscope.run.inputs.scenario_of`), or whose
            maxima hold them.
        inputs: by name; left out, seeded random values at the plan's shapes are used.
        **settings: see :class:`PlainSettings`.

    Raises:
        BindingError: an input that the graph lacks, is missing, or has another type, rank or extent.
        SymbolConflictError: two inputs, or an input and the plan, give one symbol different extents.
        UnboundedAxisError: the plan has a refused axis.
        OutOfBudgetError: the budget does not hold the plan.
    """
    return plain_run(model, plan, inputs, **settings).outputs


def plain_run(
    model: Model,
    plan: Plan,
    inputs: Mapping[str, Array] | None = None,
    **settings: Unpack[PlainSettings],
) -> PlainRun:
    """As :func:`run_plain`, with what the run's memory was."""
    plan.require()
    require_tensors(model.program)
    given = inputs if inputs is not None else random_inputs(model, plan, settings.get("seed", 0))
    check_planned(model, plan, given)
    scenario = planned_scenario(model, plan)
    model = plan.specialised or model
    program = model.program
    device = settings.get("device") or HostDevice(available_bytes(plan.scenario))
    events, cancel = settings.get("events", ignore_event), settings.get("cancel", never_cancelled)
    planner = settings.get("planner") if plan.specialised is None else None
    runner = Runner(planner or Planner(model), plan, device, events, settings.get("governor"))
    runner.tracer = settings.get("tracer")
    try:
        runner.prepare(settings.get("progress", ignore_progress), cancel)
        shapes = {item: given[program.values[item].name].shape for item in program.inputs}
        bound = bind_symbols(model, scenario, Phase.SINGLE, shapes, {})
        resolver = runner.resolver(bound)
        bindings = [*_bind_inputs(runner, given), *_bind_outputs(runner, resolver)]
        ready = runner.bind(Phase.SINGLE, bound, bindings)
        ready.spaces.update(_spaces(runner, resolver))
        ready.values.update(_texts(program, given))
        ledger = runner.device.ledger
        ledger.enter("run")
        before, started = ledger.total.total_count, perf_counter()
        runner.run(ready, cancel)
        runner.ran("run", started, 1)
        allocations = ledger.total.total_count - before
        found: list[tuple[str, Tensor]] = []
        for identity in program.outputs:
            value = ready.values[identity]
            found.append((program.values[identity].name, _taken(runner, value)))
        components = {name.value: ledger.component(name.value) for name in ComponentName}
        state = memory_state(runner.memory)
        return PlainRun(found, state, ledger.total, components, ledger.budget, allocations)
    finally:
        runner.close()
        if settings.get("device") is None:
            device.close()


def _taken(runner: Runner, value: Tensor) -> Tensor:
    """A result that outlives the session."""
    if isinstance(value, np.ndarray) or runner.device.owns(value):
        return runner.device.download(cast("Array", value)) if runner.device.owns(value) else np.array(value)
    return value


def _bind_inputs(runner: Runner, inputs: Mapping[str, Array]) -> list[Binding]:
    """Every input in its buffer but text, which no device holds."""
    program = runner.planner.model.program
    bindings: list[Binding] = []
    for identity in program.inputs:
        value = program.values[identity]
        if value.dtype is ElementType.STRING:
            continue
        array = inputs[value.name]
        binding = bind(runner.memory.io[value.name], value.dtype, array.shape, input_name=value.name)
        upload_input(runner.device, binding, array)
        bindings.append(binding)
    return bindings


def _texts(program: Program, inputs: Mapping[str, Array]) -> dict[int, Tensor]:
    values = [(item, program.values[item]) for item in program.inputs]
    return {item: inputs[value.name] for item, value in values if value.dtype is ElementType.STRING}


def _bind_outputs(runner: Runner, resolver: Resolver) -> list[Binding]:
    """Outputs that a step computes and whose extents are exact."""
    program = runner.planner.model.program
    bindings: list[Binding] = []
    for identity in program.outputs:
        value = program.values[identity]
        shape = resolver.shape(identity)
        text = value.dtype is ElementType.STRING
        if isinstance(shape, Exact) and not value.is_sequence and not text and computed(program, identity):
            bindings.append(
                bind(runner.memory.io[value.name], value.dtype, shape.shape, output_name=value.name)
            )
    return bindings


def _spaces(runner: Runner, resolver: Resolver) -> dict[int, Array]:
    """The buffers of the other outputs: their extents are data, and they end there once they are known."""
    program = runner.planner.model.program
    return {
        identity: runner.memory.io[program.values[identity].name].bytes
        for identity in program.outputs
        if isinstance(resolver.shape(identity), Bounded) and identity not in program.inputs
    }

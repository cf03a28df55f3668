"""A program placed for one run's shapes: its arena, its inputs and outputs, and how results come back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vramscope.graph.dtypes import is_packed, numpy_dtype, tensor_bytes
from vramscope.ops.call import Packed
from vramscope.ops.kernels.packing import pack
from vramscope.plan.arena import plan_arena
from vramscope.plan.bodies import body_regions
from vramscope.plan.phase import phase_owners
from vramscope.plan.types import ComponentName, Exact
from vramscope.run.bindings import Binding, bind, prefix
from vramscope.run.mapping import accepts, output_shape_error
from vramscope.run.memory import replace_arena

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.base import Device
    from vramscope.graph.model import Array, Program
    from vramscope.ops.call import Tensor
    from vramscope.plan.arena import ArenaPlan
    from vramscope.plan.sizes import Resolver
    from vramscope.plan.symbols import PhaseBindings
    from vramscope.run.launch import BoundProgram
    from vramscope.run.mapping import Mapped
    from vramscope.run.memory import SessionMemory
    from vramscope.run.runner import Runner


@dataclass(frozen=True, slots=True)
class Placed:
    """One run, ready: the bound program, its resolver, the bindings that kernels see."""

    program: BoundProgram
    resolver: Resolver
    mapped: Mapped
    bindings: tuple[Binding, ...]


def place(
    runner: Runner,
    shapes: PhaseBindings,
    host: Mapping[str, Array],
    mapped: Mapped,
    seeds: Mapping[int, tuple[int, ...]],
) -> Placed:
    """Binds the program at these shapes: the caller's buffers where they are, the session's own elsewhere.

    Raises:
        ShapeMismatchError: an output's binding does not hold it.
        OutOfBudgetError: shapes beyond the plan need memory that the budget does not hold.
    """
    resolver = runner.resolver(shapes)
    arena = fitting_arena(runner, resolver)
    own = [_own_input(runner.memory, runner.planner.model.program, name, item) for name, item in host.items()]
    bindings = (*own, *_shown(runner.planner.model.program, resolver, mapped, seeds))
    bindings += tuple(_own_outputs(runner, resolver, {item.output for item in bindings if item.output}))
    return Placed(runner.bind_at(arena, resolver, bindings, seeds), resolver, mapped, bindings)


def fitting_arena(runner: Runner, resolver: Resolver) -> ArenaPlan:
    """The plan's arena of the first phase that holds every value at these shapes, else a new one for them.

    A larger arena replaces the session's (semantics 1.8: the old one goes first).
    """
    index = runner.planner.index
    owners, sizes = phase_owners(index, resolver, body_regions(index, resolver))
    for phase in runner.plan.phases:
        places = phase.arena.placements
        if all(value in places and size <= places[value].size for value, size in sizes.items()):
            return phase.arena
    arena = plan_arena(owners, sizes, index.root_of)
    memory = runner.memory
    if memory.arena is None or memory.arena.size < arena.bytes:
        replace_arena(memory, arena.bytes)
    return arena


def _own_input(memory: SessionMemory, program: Program, name: str, array: Array) -> Binding:
    """A host input in the session's buffer; its bytes are uploaded by :func:`upload`."""
    value = next(program.values[item] for item in program.inputs if program.values[item].name == name)
    _ensure(memory, name, tensor_bytes(value.dtype, array.shape))
    return bind(memory.io[name], value.dtype, array.shape, input_name=name)


def _ensure(memory: SessionMemory, name: str, size: int) -> None:
    held = memory.io.get(name)
    if held is not None and held.size >= size:
        return
    if held is not None:
        memory.give(memory.io.pop(name))
    memory.io[name] = memory.take(ComponentName.BINDINGS, name, size)


def _shown(
    program: Program, resolver: Resolver, mapped: Mapped, seeds: Mapping[int, tuple[int, ...]]
) -> list[Binding]:
    """The caller's bindings with the part of each output that will be written.

    An output that no step computes, or whose extents are data, is copied into its binding after the run.
    """
    names = {program.values[item].name: item for item in program.outputs}
    found: list[Binding] = []
    for binding in mapped.bindings:
        if not binding.output:
            found.append(binding)
            continue
        value = names[binding.output]
        shape = resolver.shape(value)
        if not isinstance(shape, Exact) and value in seeds and accepts(binding, seeds[value]):
            shape = Exact(seeds[value])
        if not isinstance(shape, Exact) or not computed(program, value):
            found.append(replace(binding, output=""))
            continue
        if not accepts(binding, shape.shape):
            raise output_shape_error(binding, shape.shape)
        found.append(replace(binding, output_logical=shape.shape))
    return found


def computed(program: Program, value: int) -> bool:
    """Whether a step of the main program gives this value: not an input, a weight, or folded from weights."""
    return any(value in step.outputs for step in program.steps[program.constant_steps :])


def _own_outputs(runner: Runner, resolver: Resolver, bound: set[str]) -> list[Binding]:
    program = runner.planner.model.program
    found: list[Binding] = []
    for identity in dict.fromkeys(program.outputs):
        value, shape = program.values[identity], resolver.shape(identity)
        if value.name in bound or value.is_sequence or not isinstance(shape, Exact):
            continue
        if not computed(program, identity) or numpy_dtype(value.dtype).hasobject:
            continue
        _ensure(runner.memory, value.name, tensor_bytes(value.dtype, shape.shape))
        found.append(bind(runner.memory.io[value.name], value.dtype, shape.shape, output_name=value.name))
    return found


def upload(runner: Runner, placed: Placed, host: Mapping[str, Array]) -> None:
    """Writes the host inputs into their buffers."""
    for binding in placed.bindings:
        array = host.get(binding.input)
        if array is not None:
            upload_input(runner.device, binding, array)


def upload_input(device: Device, binding: Binding, array: Array) -> None:
    """Writes one host array into its buffer; types whose elements share bytes are packed."""
    raw = pack(array).data.reshape(-1).view(np.uint8) if is_packed(binding.dtype) else array
    device.upload(binding.array, raw)


def deliver(runner: Runner, placed: Placed) -> None:
    """Copies what could not be written in place into its binding: passed-on inputs, data-dependent extents.

    Raises:
        ShapeMismatchError: the binding does not hold the result.
    """
    program = runner.planner.model.program
    names = {program.values[item].name: item for item in program.outputs}
    direct = {item.output for item in placed.bindings if item.output}
    for name, binding in placed.mapped.outputs.items():
        if name in direct:
            continue
        value = placed.program.values[names[name]]
        if isinstance(value, Packed):
            runner.device.copy(binding.array, value.data)
            continue
        array = value if not isinstance(value, list) else np.empty(0)
        if not accepts(binding, tuple(array.shape)):
            raise output_shape_error(binding, tuple(array.shape))
        runner.device.copy(prefix(binding.array, tuple(array.shape)), array)


def fetch(runner: Runner, value: Tensor) -> Tensor:
    """A copy of a result that stays as it is whatever runs next."""
    if isinstance(value, Packed):
        return Packed(np.array(runner.device.download(value.data)), value.dtype, value.shape)
    if isinstance(value, list):
        return [fetch(runner, item) for item in value]
    return runner.device.download(value) if runner.device.owns(value) else np.array(value)

"""Binding a program's steps to memory: one launch a step, with its arrays already in hand.

Where every shape of a step is exact, its outputs are views into planned memory and the launch can be
repeated as it stands. Where an extent is data, the kernel's own result is moved into the space reserved for
its ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from vramscope.devices.base import FusionFacts
from vramscope.graph.dtypes import ElementType, is_packed, numpy_dtype, tensor_bytes
from vramscope.graph.expr import free_symbols
from vramscope.graph.model import ABSENT, Array, Step
from vramscope.ops.call import Call, Packed, Tensor, compute
from vramscope.ops.spec import Kernel, Lifetime
from vramscope.plan.types import Bounded, ComponentName, Exact, Refused
from vramscope.run.bodies import BodyRunner
from vramscope.run.last_rows import ALL_ROWS, WantedRows, cut_to_last_rows, head_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.base import BoundLaunch, Buffer
    from vramscope.plan.arena import ArenaPlan
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.sizes import Resolver
    from vramscope.run.memory import SessionMemory


@dataclass(slots=True, eq=False)
class Launch:
    """One step ready to run.

    ``late_inputs`` are read from the run's values just before the launch: their arrays exist only then.
    ``resolved`` says whether every output's shape was known when it was bound.
    """

    step: Step
    kernel: Kernel
    call: Call
    late_inputs: tuple[tuple[int, int], ...] = ()
    resolved: bool = True
    inputs_resolved: bool = True


@dataclass(slots=True, eq=False)
class BoundProgram:
    """Every launch of one phase at one set of bindings, and the values known so far."""

    launches: tuple[Launch, ...]
    values: dict[int, Tensor]
    arena: ArenaPlan
    leases: list[Buffer] = field(default_factory=list)
    lifetimes: Mapping[int, Lifetime] = field(default_factory=lambda: MappingProxyType({}))
    """Of the scratch of each step that needs some, by step index."""
    spaces: dict[int, Array] = field(default_factory=dict)
    """Bytes reserved for graph outputs of which only a ceiling is known, by value id."""
    head: tuple[Launch, ...] = ()
    """Of a prefill's pass: what makes the logits, left out; :func:`bind_head` gives it by itself."""
    groups: tuple[tuple[int, ...], ...] = ()
    """Step indices of nodes that the device made one launch, which runs at the last of them."""


Bound = Mapping[int, Tensor]
"""Views of the caller-owned buffers, by value id: inputs to read, outputs to write."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was found out before binding.

    Attributes:
        lifetimes: of the scratch of each step that needs some, by step index.
        seeds: shapes of data-dependent values as the last eager run saw them, by value id.
        wanted: which rows of which output are read.
    """

    lifetimes: Mapping[int, Lifetime] = field(default_factory=lambda: MappingProxyType({}))
    seeds: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    wanted: WantedRows = ALL_ROWS


def bind_program(
    index: PlanningIndex,
    memory: SessionMemory,
    arena: ArenaPlan,
    resolver: Resolver,
    bound: Bound,
    prepared: Prepared = Prepared(),
) -> BoundProgram:
    """Places every value of the main steps and prepares a launch for each step that computes something."""
    values: dict[int, Tensor] = {**memory.weights, **bound}
    program = BoundProgram((), values, arena, lifetimes=prepared.lifetimes)
    binder = _Binder(index, memory, resolver, program, prepared)
    steps = index.program.steps[index.program.constant_steps :]
    program.launches = tuple(launch for step in steps if (launch := binder.launch(step)) is not None)
    if prepared.wanted.output:
        program.launches, program.head = cut_to_last_rows(index, program.launches, prepared.wanted)
    _join(index, memory, program)
    return program


def bind_head(
    index: PlanningIndex, memory: SessionMemory, program: BoundProgram, rows: Sequence[int]
) -> BoundProgram:
    """The head that a pass was bound without, for one row of every sequence."""
    launches = head_of_rows(program.head, rows)
    head = BoundProgram(launches, program.values, program.arena, lifetimes=program.lifetimes)
    _join(index, memory, head)
    return head


def _join(index: PlanningIndex, memory: SessionMemory, program: BoundProgram) -> None:
    """Attaches what streams weights; lets the device make several launches one."""
    facts = FusionFacts(frozenset(memory.weights), frozenset(index.program.outputs))
    if memory.pager is not None:
        memory.pager.attach(program.launches)
    groups = memory.device.fuse(cast("Sequence[BoundLaunch]", program.launches), index.root_of, facts)
    program.groups = tuple(tuple(program.launches[at].step.index for at in group) for group in groups)


class _Binder:
    """The state of one pass over the steps."""

    def __init__(
        self,
        index: PlanningIndex,
        memory: SessionMemory,
        resolver: Resolver,
        program: BoundProgram,
        prepared: Prepared,
    ) -> None:
        self._index = index
        self._memory = memory
        self._arena = program.arena
        self._resolver = resolver
        self._values = program.values
        self._program = program
        self._prepared = prepared

    def launch(self, step: Step) -> Launch | None:
        """The launch of one step; None for a step that only gives bytes another shape."""
        spec = self._index.specs[step.index]
        if self._is_view(step):
            return None
        placed = [self._place(step, position, value) for position, value in enumerate(step.outputs)]
        if self._prepared.seeds and decides_shapes(self._index, step):
            placed = [self._kept(value, item) for value, item in zip(step.outputs, placed, strict=True)]
        late = tuple(
            (position, value)
            for position, value in enumerate(step.inputs)
            if value != ABSENT and value not in self._values
        )
        wanted = self._index.wanted[step.index]
        call = Call(
            node=step.node,
            inputs=tuple(None if value == ABSENT else self._values.get(value) for value in step.inputs),
            placed=list(placed),
            wanted=wanted,
            output_types=self._types(step),
            scratch_bytes=self._scratch(step),
            run_body=self._body_runner(step),
        )
        resolved = all(item is not None for item, want in zip(placed, wanted, strict=True) if want)
        return Launch(step, self._memory.device.kernel(step.node, spec), call, late, resolved, not late)

    def _is_view(self, step: Step) -> bool:
        """Whether all of the step's outputs are views of memory that is already placed."""
        for position, value in enumerate(step.outputs):
            if value == ABSENT or not self._index.wanted[step.index][position]:
                continue
            root = self._index.root_of[value]
            shape = self._resolver.shape(value)
            if value in self._prepared.seeds and not decides_shapes(self._index, step):
                shape = self._shape(value)
            source = self._values.get(root)
            if root == value or source is None or not isinstance(shape, Exact):
                return False
            self._values[value] = _reshape(source, shape.shape)
        return any(self._index.wanted[step.index])

    def _place(self, step: Step, position: int, value: int) -> Tensor | None:
        if value == ABSENT or not self._index.wanted[step.index][position]:
            return None
        if value in self._values:
            return self._values[value]
        shape = self._shape(value)
        placement = self._arena.placements.get(value)
        item = self._index.program.values[value]
        if placement is None or not isinstance(shape, Exact) or item.is_sequence:
            return None
        if tensor_bytes(item.dtype, shape.shape) > placement.size:
            return None
        view = shaped(self._memory.arena_view(placement.offset, placement.size), item.dtype, shape.shape)
        self._values[value] = view
        return view

    def _shape(self, value: int) -> Exact | Bounded | Refused:
        """The exact shape, else the one that was seen, else what the plan knows."""
        shape = self._resolver.shape(value)
        seed = self._prepared.seeds.get(value)
        return shape if isinstance(shape, Exact) or seed is None else Exact(seed)

    def _kept(self, value: int, placed: Tensor | None) -> Tensor | None:
        """A step that decides its extents is not told a seeded one: its consumers are."""
        seeded = value in self._prepared.seeds and not isinstance(self._resolver.shape(value), Exact)
        return None if seeded else placed

    def _types(self, step: Step) -> tuple[ElementType, ...]:
        values = self._index.program.values
        return tuple(ElementType.UNDEFINED if v == ABSENT else values[v].dtype for v in step.outputs)

    def _scratch(self, step: Step) -> Array | None:
        if self._index.specs[step.index].workspace is None:
            return None
        lifetime = self._prepared.lifetimes.get(step.index)
        if lifetime is not None and lifetime in self._memory.workspace:
            return self._memory.workspace[lifetime].bytes
        slots = [self._memory.workspace[item] for item in Lifetime if item in self._memory.workspace]
        return max(slots, key=lambda item: item.size).bytes if slots else None

    def _body_runner(self, step: Step) -> Callable[[str, list[Tensor]], list[Tensor]] | None:
        if not step.bodies:
            return None
        return BodyRunner(step, self._program.values, self._memory, self._arena).run


def decides_shapes(index: PlanningIndex, step: Step) -> bool:
    """Whether an extent of an output comes into being here: it is data, not a function of input shapes."""
    spec, program = index.specs[step.index], index.program
    if spec.data_dependent or spec.control_flow or spec.sequence:
        return True
    shapes = [program.values[value].shape for value in step.outputs if value != ABSENT]
    symbols = {name for shape in shapes for dim in shape or () for name in free_symbols(dim)}
    if any(program.minted[name].node == step.node.name for name in symbols & program.minted.keys()):
        return True
    known = all(program.values[value].shape is not None for value in step.inputs if value != ABSENT)
    return None in shapes and (known or bool(spec.host_inputs))


def _reshape(source: Tensor, shape: tuple[int, ...]) -> Tensor:
    if isinstance(source, Packed):
        return Packed(source.data, source.dtype, shape)
    return source if isinstance(source, list) else source.reshape(shape)


def shaped(raw: Array, dtype: ElementType, shape: tuple[int, ...]) -> Tensor:
    """Raw bytes as a tensor of ``dtype`` and ``shape``."""
    if is_packed(dtype):
        return Packed(raw, dtype, shape)
    kind = numpy_dtype(dtype)
    return raw[: prod(shape) * kind.itemsize].view(kind).reshape(shape)


def run_launch(program: BoundProgram, launch: Launch, memory: SessionMemory) -> None:
    """Runs one launch eagerly: late inputs in, the kernel, results that had no place into memory."""
    call = launch.call
    if launch.late_inputs:
        inputs = list(call.inputs)
        for position, value in launch.late_inputs:
            inputs[position] = program.values[value]
        call.inputs = tuple(inputs)
    if launch.resolved:
        compute(launch.kernel, call)
        return
    places = list(call.placed)
    compute(launch.kernel, call)
    for position, value in enumerate(launch.step.outputs):
        if value == ABSENT or not call.wants(position) or places[position] is not None:
            continue
        result = call.placed[position]
        if result is not None:
            shown = _shown(program, value, result)
            program.values[value] = (
                settle(program, memory, value, launch.step.node.name, result) if shown is None else shown
            )
        call.placed[position] = None


def _shown(program: BoundProgram, value: int, result: Tensor) -> Tensor | None:
    """The bytes of the value that this one is a view of, in its shape; None where it is none.

    Such a value owns no memory in the plan, also where its extents are data.
    """
    root = program.arena.views.get(value, value)
    source = program.values.get(root) if root != value else None
    if source is None or isinstance(source, Packed | list) or isinstance(result, Packed | list):
        return None
    return source.reshape(result.shape) if source.nbytes == result.nbytes else None


def settle(program: BoundProgram, memory: SessionMemory, value: int, name: str, result: Tensor) -> Tensor:
    """Moves a data-dependent result into the space reserved for its ceiling.

    Or counts it as an allocation.
    """
    if isinstance(result, Packed | list) or result.dtype.hasobject:
        return result
    move = memory.device.copy if memory.device.owns(result) else memory.device.upload
    space = _space(program, memory, value)
    if space is not None and result.nbytes <= space.nbytes:
        view = space[: result.nbytes].view(result.dtype).reshape(result.shape)
        move(view, result)
        return view
    program.leases.append(memory.take(ComponentName.ACTIVATIONS, f"unplanned: {name}", result.nbytes))
    kept = program.leases[-1].bytes.view(result.dtype).reshape(result.shape)
    move(kept, result)
    return kept


def _space(program: BoundProgram, memory: SessionMemory, value: int) -> Array | None:
    placement = program.arena.placements.get(value)
    if placement is None:
        return program.spaces.get(value)
    return memory.arena_view(placement.offset, placement.size)


def release_unplanned(program: BoundProgram, memory: SessionMemory) -> None:
    """Gives back what one run allocated beside the plan."""
    for buffer in program.leases:
        memory.give(buffer)
    program.leases.clear()

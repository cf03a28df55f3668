"""Editing a frozen program: values, weights, inputs and steps are added or replaced in a copy."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import from_numpy, tensor_bytes
from vramscope.graph.model import ABSENT, Step, Value, ValueKind, WeightSource
from vramscope.graph.sources import inline_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vramscope.graph.dtypes import ElementType
    from vramscope.graph.expr import Shape
    from vramscope.graph.model import Array, Node, Program

NOT_WRITTEN = "not written:"
"""Begins the identity of a weight that no file holds: it is known by type and shape alone."""


class ProgramEdit:
    """One program under edit. The program itself, and every value that is not named, stays as it is."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values = list(program.values)
        self._weights = dict(program.weights)
        self._inputs = list(program.inputs)
        self._changed: dict[int, Step] = {}
        self._before: dict[int, list[Step]] = {}
        self._names = {value.name for value in program.values}
        self._nodes = {step.node.name for step in program.steps}

    def activation(self, name: str, dtype: ElementType, shape: Shape) -> int:
        """A new value that a step will give."""
        return self._add(name, dtype, shape, ValueKind.ACTIVATION)

    def feed(self, name: str, dtype: ElementType, shape: Shape) -> int:
        """A new input of the graph."""
        self._inputs.append(self._add(name, dtype, shape, ValueKind.INPUT))
        return self._inputs[-1]

    def unwritten(self, name: str, dtype: ElementType, shape: tuple[int, ...]) -> int:
        """A new weight of which only type and shape are known."""
        value = self._add(name, dtype, shape, ValueKind.WEIGHT)
        size = tensor_bytes(dtype, shape)
        identity = f"{NOT_WRITTEN}{self.values[value].name}"
        self._weights[value] = WeightSource(dtype, shape, size, identity, present=False)
        return value

    def constant(self, name: str, array: Array) -> int:
        """A small weight with this content: the program's own where it has an equal one."""
        content, dtype = array.tobytes(), from_numpy(array.dtype)
        for value, source in self._weights.items():
            if (source.dtype, source.shape, source.inline) == (dtype, array.shape, content):
                return value
        value = self._add(name, dtype, array.shape, ValueKind.WEIGHT)
        source = inline_source(self.values[value].name, dtype, array.shape, content, len(content))
        self._weights[value] = source
        return value

    def source(self, value: int, source: WeightSource) -> None:
        """Stores a weight otherwise; the value follows in type and shape."""
        self._weights[value] = source
        self.reshape(value, source.dtype, source.shape)

    def reshape(self, value: int, dtype: ElementType, shape: Shape | None) -> None:
        """Gives a value another type or shape."""
        self.values[value] = replace(self.values[value], dtype=dtype, shape=shape)

    def change(self, step: Step, node: Node, inputs: Iterable[int], outputs: Iterable[int] = ()) -> None:
        """Computes what ``step`` computed in another way; its outputs stay where none are given."""
        kept = tuple(outputs) or step.outputs
        self._changed[step.index] = Step(step.index, node, tuple(inputs), kept, step.bodies)

    def insert(self, step: Step, node: Node, inputs: Iterable[int], outputs: Iterable[int]) -> None:
        """A new step in front of ``step``, behind those that were inserted there before."""
        node = replace(node, name=_fresh(node.name, self._nodes))
        self._before.setdefault(step.index, []).append(Step(0, node, tuple(inputs), tuple(outputs)))

    def step(self, step: Step) -> Step:
        """``step`` as it is now."""
        return self._changed.get(step.index, step)

    def _add(self, name: str, dtype: ElementType, shape: Shape, kind: ValueKind) -> int:
        identity = len(self.values)
        self.values.append(Value(identity, _fresh(name, self._names), dtype, shape, kind))
        return identity

    def finish(self) -> Program:
        """The edited program without what nothing needs any more: dead steps, weights that nobody reads."""
        ordered: list[Step] = []
        constant = 0
        for step in self.program.steps:
            constant = len(ordered) if step.index == self.program.constant_steps else constant
            ordered += [*self._before.get(step.index, ()), self.step(step)]
        if self.program.constant_steps == len(self.program.steps):
            constant = len(ordered)
        live = _live(ordered, self.program.outputs)
        constant = sum(live[:constant])
        steps = [step for step, needed in zip(ordered, live, strict=True) if needed]
        return self._compact(steps, constant)

    def _compact(self, steps: Sequence[Step], constant: int) -> Program:
        used = {*self._inputs, *self.program.outputs}
        for step in steps:
            used.update((*_reads(step), *step.outputs))
        kept = sorted(used - {ABSENT})
        number = {old: new for new, old in enumerate(kept)} | {ABSENT: ABSENT}
        return replace(
            self.program,
            values=tuple(replace(self.values[old], id=number[old]) for old in kept),
            steps=tuple(_renumbered(index, step, number) for index, step in enumerate(steps)),
            inputs=tuple(number[value] for value in self._inputs),
            outputs=tuple(number[value] for value in self.program.outputs),
            weights=MappingProxyType(
                {number[old]: self._weights[old] for old in kept if old in self._weights}
            ),
            constant_steps=constant,
        )


def _reads(step: Step) -> set[int]:
    captured = {outside for body in step.bodies.values() for outside in body.captures.values()}
    return {*step.inputs} | captured


def _live(steps: Sequence[Step], outputs: Iterable[int]) -> list[bool]:
    """Whether an output of the program depends on each step."""
    needed = set(outputs)
    live = [False] * len(steps)
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        if needed & ({*step.outputs} - {ABSENT}):
            live[place] = True
            needed |= _reads(step)
    return live


def _renumbered(index: int, step: Step, number: Mapping[int, int]) -> Step:
    bodies = {
        name: replace(
            body,
            captures=MappingProxyType({inner: number[outer] for inner, outer in body.captures.items()}),
        )
        for name, body in step.bodies.items()
    }
    return Step(
        index,
        step.node,
        tuple(number[value] for value in step.inputs),
        tuple(number[value] for value in step.outputs),
        MappingProxyType(bodies),
    )


def _fresh(name: str, taken: set[str]) -> str:
    """The name, with a number where it is taken; taken from now on."""
    found, count = name, 2
    while found in taken:
        found, count = f"{name}#{count}", count + 1
    taken.add(found)
    return found

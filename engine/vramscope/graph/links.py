"""Who makes and who reads each value of a program, for questions about its structure."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.model import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Program, Step

CAPTURED = -1
"""The input position of a value that a body of the step reads from outside."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One reading of a value: the step and the input position (:data:`CAPTURED`: by a body of it)."""

    step: Step
    position: int


@dataclass(frozen=True, slots=True)
class Links:
    """Makers and readers by value id."""

    makers: Mapping[int, Step]
    readers: Mapping[int, tuple[Reader, ...]]

    def read_by(self, value: int) -> tuple[Reader, ...]:
        """Every reading of ``value`` by a step."""
        return self.readers.get(value, ())


def link(program: Program) -> Links:
    """The makers and readers of every value of ``program``'s own level."""
    makers = {value: step for step in program.steps for value in step.outputs if value != ABSENT}
    readers: dict[int, list[Reader]] = {}
    for step in program.steps:
        for position, value in enumerate(step.inputs):
            readers.setdefault(value, []).append(Reader(step, position))
        for body in step.bodies.values():
            for value in body.captures.values():
                readers.setdefault(value, []).append(Reader(step, CAPTURED))
    readers.pop(ABSENT, None)
    return Links(
        MappingProxyType(makers), MappingProxyType({key: tuple(item) for key, item in readers.items()})
    )


def through_identity(value: int, links: Links) -> int:
    """``value``, or what it is a plain copy of."""
    seen = {value}
    while (maker := links.makers.get(value)) is not None and maker.node.operator == "Identity":
        value = maker.inputs[0]
        if value in seen:
            break
        seen.add(value)
    return value

"""The activation planner as a measure: what one shared arena would save, whatever owns the values when run.

The session's own arena leaves graph inputs and outputs to bindings and overwrites dead inputs in place. This
one counts every value that a step computes, each in a slot of its own, as semantics 2.12 says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from vramscope.graph.dtypes import tensor_bytes
from vramscope.graph.expr import Interval, evaluate, interval
from vramscope.graph.model import ABSENT, Program, ValueKind
from vramscope.plan.arena import ArenaPlan, Owner, plan_arena

if TYPE_CHECKING:
    from vramscope.graph.model import Value

SizeOracle: TypeAlias = Callable[["Value"], int | None]
"""Bytes of a value; None where its size is not known."""


@dataclass(frozen=True, slots=True)
class ActivationOptions:
    """``include_inputs``: graph inputs need arena memory too."""

    include_inputs: bool = False


@dataclass(frozen=True, slots=True)
class Deferred:
    """No plan: these values have no known size."""

    unknown: tuple[str, ...]


def exact_sizes(symbols: Mapping[str, int] = MappingProxyType({})) -> SizeOracle:
    """An oracle that knows a value whose every extent follows from ``symbols``."""

    def size(value: Value) -> int | None:
        extents = [evaluate(dim, symbols) for dim in value.shape or ()]
        return None if value.shape is None else _bytes(value, extents)

    return size


def bounded_sizes(bounds: Mapping[str, int]) -> SizeOracle:
    """An oracle of ceilings: each symbol is at most its bound; one without a bound has no ceiling."""
    intervals = {name: Interval(0, bound) for name, bound in bounds.items()}

    def size(value: Value) -> int | None:
        extents = [interval(dim, intervals).high for dim in value.shape or ()]
        return None if value.shape is None else _bytes(value, extents)

    return size


def _bytes(value: Value, extents: list[int | None]) -> int | None:
    known = tuple(max(extent, 0) for extent in extents if extent is not None)
    return tensor_bytes(value.dtype, known) if len(known) == len(extents) else None


def plan_activations(
    program: Program,
    views: Mapping[int, int],
    size_of: SizeOracle,
    options: ActivationOptions = ActivationOptions(),
    alignment: int = 1,
) -> ArenaPlan | Deferred:
    """One arena for all activations of a program (semantics 2.12).

    Args:
        program: constant steps are no activations.
        views: value → the value whose bytes it is, transitively.
        size_of: bytes of an owner.
        options: what counts.
        alignment: of each slot's offset.
    """
    owners = activation_owners(program, views, options)
    sizes = {owner.value: size_of(program.values[owner.value]) for owner in owners}
    known = {value: size for value, size in sizes.items() if size is not None}
    if len(known) < len(sizes):
        return Deferred(tuple(program.values[value].name for value in sizes if value not in known))
    edges = {value: root for value in views if (root := _root(value, views)) != value}
    return plan_arena(owners, known, MappingProxyType(edges), alignment)


def activation_owners(
    program: Program, views: Mapping[int, int], options: ActivationOptions = ActivationOptions()
) -> tuple[Owner, ...]:
    """Values that need memory and from which step to which; one that nobody reads dies where it is made."""
    last: dict[int, int] = {}
    for step in program.steps:
        captured = (value for body in step.bodies.values() for value in body.captures.values())
        for value in (*step.inputs, *captured):
            if value != ABSENT:
                last[_root(value, views)] = step.index
    last.update({_root(value, views): len(program.steps) for value in program.outputs})
    owners = [Owner(value, 0, last.get(value, 0)) for value in program.inputs if options.include_inputs]
    for step in program.steps[program.constant_steps :]:
        owners.extend(
            Owner(value, step.index, last.get(value, step.index))
            for value in step.outputs
            if value != ABSENT and _owns(program.values[value]) and _root(value, views) == value
        )
    return tuple(owners)


def _owns(value: Value) -> bool:
    return value.kind is ValueKind.ACTIVATION and not value.is_sequence


def _root(value: int, views: Mapping[int, int]) -> int:
    while views.get(value, value) != value:
        value = views[value]
    return value

"""Shapes of data-dependent values as the last eager run saw them, to capture what follows from them.

They never replace a shape that is resolved, and hold only for the very same bindings (semantics 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from vramscope.graph.model import ABSENT
from vramscope.ops.call import Packed
from vramscope.plan.types import Exact
from vramscope.run.launch import decides_shapes
from vramscope.run.variants import shape_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vramscope.graph.model import Program
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.sizes import Resolver
    from vramscope.run.bindings import Binding
    from vramscope.run.launch import BoundProgram

CaptureSignature: TypeAlias = tuple[tuple[int, bool, str, tuple[int, ...], int, int], ...]
"""Sorted (value id, is an input, type, shape, pointer, length) of every binding."""


@dataclass(frozen=True, slots=True)
class WarmShapes:
    """What one eager run saw: shapes by value id, and under which bindings."""

    signature: CaptureSignature = ()
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def for_bindings(self, signature: CaptureSignature) -> Mapping[int, tuple[int, ...]]:
        """The shapes, or none under other bindings."""
        return self.shapes if signature == self.signature else MappingProxyType({})


def capture_signature(program: Program, bindings: Sequence[Binding]) -> CaptureSignature:
    """What decides whether warm shapes still hold."""
    inputs = {program.values[item].name: item for item in program.inputs}
    outputs = {program.values[item].name: item for item in program.outputs}
    found: list[tuple[int, bool, str, tuple[int, ...], int, int]] = []
    for item in bindings:
        size = int(item.array.nbytes)
        if item.input in inputs:
            shape = item.kernel_input_shape
            found.append((inputs[item.input], True, item.dtype.name, shape, item.address, size))
        if item.output in outputs:
            found.append((outputs[item.output], False, item.dtype.name, item.physical, item.address, size))
    return tuple(sorted(found))


def capture_seeds(
    index: PlanningIndex, warm: WarmShapes, resolver: Resolver, bindings: Sequence[Binding]
) -> dict[int, tuple[int, ...]]:
    """Shapes that the last run saw of values that nothing resolves, graph outputs included.

    An output whose own node decides its extents is left out: that node is never captured.
    """
    program = index.program
    warm_shapes = warm.for_bindings(capture_signature(program, bindings))
    seeds = {
        value: shape for value, shape in warm_shapes.items() if not isinstance(resolver.shape(value), Exact)
    }
    deciding = (step for step in index.main_steps if not seeds.keys().isdisjoint(step.outputs))
    own = {value for step in deciding if decides_shapes(index, step) for value in step.outputs}
    return {value: shape for value, shape in seeds.items() if value not in own & set(program.outputs)}


def seen_shapes(
    bound: BoundProgram, resolver: Resolver, outputs: Collection[int]
) -> dict[int, tuple[int, ...]]:
    """After an eager run: the shape of every value that could not be resolved before it.

    Only values with a place in the arena count, and graph outputs: anything else lies elsewhere every time.
    """
    found: dict[int, tuple[int, ...]] = {}
    places = bound.arena.placements.keys() | set(outputs)
    for launch in bound.launches:
        for value in launch.step.outputs:
            if value == ABSENT or value not in bound.values or value not in places:
                continue
            result = bound.values[value]
            if isinstance(result, Packed | list) or isinstance(resolver.shape(value), Exact):
                continue
            found[value] = shape_of(result)
    return found

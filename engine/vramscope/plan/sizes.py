"""Extents of every shape class in one phase.

Exact where symbols are bound, proven ceilings elsewhere, or refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from vramscope.errors import ShapeOverflowError
from vramscope.graph.dtypes import bit_width, tensor_bytes
from vramscope.graph.expr import Dim, Interval, Symbol, derivation, evaluate, free_symbols, interval
from vramscope.plan.types import AxisBound, Bounded, Exact, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Minted, Value
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.symbols import PhaseBindings

_MINTED_DEPTH = 16
"""Ceilings of minted symbols may name other minted symbols; no deeper than this (semantics 1.4)."""


@dataclass(frozen=True, slots=True)
class SymbolRanges:
    """The interval of every symbol in one phase and, in words, where it comes from."""

    exact: Mapping[str, int]
    intervals: Mapping[str, Interval]
    kinds: Mapping[str, str]
    sources: Mapping[str, str]


def symbol_ranges(
    bindings: PhaseBindings, minted: Mapping[str, Minted], growing: frozenset[str]
) -> SymbolRanges:
    """Intervals by the rules of semantics 1.3, then ceilings of minted symbols from their producers."""
    intervals = {name: Interval(extent, extent) for name, extent in bindings.symbols.items()}
    kinds = dict.fromkeys(intervals, "Binding")
    sources = dict(bindings.sources)
    capacity = max((bindings.symbols[name] for name in growing if name in bindings.symbols), default=None)
    for name, declared in bindings.intervals.items():
        kinds[name] = "ConfiguredMax"
        intervals[name] = declared
    if capacity is not None:
        for name in growing - bindings.symbols.keys():
            declared = intervals.get(name, Interval(0, 0))
            intervals[name] = Interval(0, max(capacity, declared.high or 0))
            kinds[name] = "KvCapacity"
            sources[name] = f"allocated KV capacity {capacity:,}"
    for name in minted:
        _derive_minted(name, minted, intervals, kinds, sources, 0)
    return SymbolRanges(
        bindings.symbols, MappingProxyType(intervals), MappingProxyType(kinds), MappingProxyType(sources)
    )


def _derive_minted(
    name: str,
    minted: Mapping[str, Minted],
    intervals: dict[str, Interval],
    kinds: dict[str, str],
    sources: dict[str, str],
    depth: int,
) -> None:
    origin = minted[name]
    if name in intervals or origin.ceiling is None or depth >= _MINTED_DEPTH:
        return
    for other in free_symbols(origin.ceiling):
        if other in minted:
            _derive_minted(other, minted, intervals, kinds, sources, depth + 1)
    ceiling = interval(origin.ceiling, intervals)
    if ceiling.high is not None:
        intervals[name] = Interval(0, max(ceiling.high, 0))
        kinds[name] = "Derived"
        sources[name] = f"{origin.operator} at {origin.node}: at most {origin.ceiling} = {ceiling.high:,}"


Answer: TypeAlias = Exact | Bounded | tuple[int, str]
"""A shape, or (axis, reason) of the axis that nothing settles (axis −1: the rank itself)."""


IMPOSSIBLE = ", and no extent is negative"
"""Ends the reason of an axis whose extent is known and cannot be."""


def value_bytes(value: Value, shape: tuple[int, ...], node: str = "") -> int:
    """Bytes of ``value`` in ``shape``.

    Raises:
        ShapeOverflowError: more than any device holds; names the value, and the ``node`` that gives it.
    """
    try:
        return tensor_bytes(value.dtype, shape)
    except ShapeOverflowError as error:
        size = (bit_width(value.dtype) * prod(shape) + 7) // 8
        what = f"{value.name}, {value.dtype.name}{list(shape)}"
        raise ShapeOverflowError(what, f"{size:,} B: exceeds any device", error.remedy, node) from error


def measured(index: PlanningIndex, value: int, shape: tuple[int, ...]) -> int:
    """As :func:`value_bytes`, of one of the program's values; its maker is the node."""
    program = index.program
    maker = index.makers.get(value)
    return value_bytes(program.values[value], shape, "" if maker is None else program.steps[maker].node.name)


class Resolver:
    """Resolves dimensions and shape classes of one phase, each distinct one once."""

    def __init__(self, index: PlanningIndex, bindings: PhaseBindings, ranges: SymbolRanges) -> None:
        self._index = index
        self._ranges = ranges
        self._dims: dict[int, int | AxisBound | str] = {}
        self._classes: dict[int, Answer] = {}
        self._sizes: dict[int, int | None] = {}
        self._fixed = {
            value: Exact(shape)
            for value, shape in (*bindings.inputs.items(), *bindings.outputs.items())
            if min(shape, default=0) >= 0
        }

    def shape(self, value: int) -> Exact | Bounded | Refused:
        """The resolved shape of one value; a caller-owned buffer's own shape comes first."""
        fixed = self._fixed.get(value)
        if fixed is not None:
            return fixed
        answer = self._class(self._index.class_of[value])
        return self.refusal(value, answer[0], answer[1]) if isinstance(answer, tuple) else answer

    def shapes(self) -> dict[int, Exact | Bounded | Refused]:
        """Every value's resolved shape."""
        answers = [self._class(number) for number in range(len(self._index.classes))]
        found: dict[int, Exact | Bounded | Refused] = {}
        for value, number in enumerate(self._index.class_of):
            answer = answers[number]
            found[value] = self.refusal(value, *answer) if isinstance(answer, tuple) else answer
        found.update(self._fixed)
        return found

    def size(self, value: int) -> int | None:
        """Bytes of one value (a ceiling if bounded); None when refused.

        Raises:
            ShapeOverflowError: more than any device holds; names the value and its node.
        """
        fixed = self._fixed.get(value)
        if fixed is not None:
            return measured(self._index, value, fixed.shape)
        number = self._index.class_of[value]
        if number not in self._sizes:
            answer = self._class(number)
            self._sizes[number] = (
                None if isinstance(answer, tuple) else measured(self._index, value, answer.shape)
            )
        return self._sizes[number]

    def _class(self, number: int) -> Answer:
        answer = self._classes.get(number)
        if answer is None:
            answer = self._classes[number] = self.resolve(self._index.classes[number].shape)
        return answer

    def resolve(self, shape: tuple[Dim, ...] | None) -> Answer:
        """The extents of a symbolic shape: exact, bounded, or the first axis that nothing settles."""
        if shape is None:
            return (-1, "shape inference gives it no rank")
        extents: list[int] = []
        applied: list[tuple[int, AxisBound]] = []
        for axis, dim in enumerate(shape):
            answer = dim if isinstance(dim, int) else self._dim(dim)
            if isinstance(answer, str):
                return (axis, answer)
            if isinstance(answer, AxisBound):
                applied.append((axis, answer))
                answer = answer.extent
            if answer < 0:
                return (axis, f"its extent would be {answer}{IMPOSSIBLE}")
            extents.append(answer)
        return Bounded(tuple(extents), tuple(applied)) if applied else Exact(tuple(extents))

    def _dim(self, dim: Dim) -> int | AxisBound | str:
        if id(dim) not in self._dims:
            self._dims[id(dim)] = self._bound(dim)
        return self._dims[id(dim)]

    def _bound(self, dim: Dim) -> int | AxisBound | str:
        exact = evaluate(dim, self._ranges.exact)
        if exact is not None:
            return exact
        ceiling = interval(dim, self._ranges.intervals).high
        if ceiling is None:
            missing = sorted(free_symbols(dim) - self._ranges.intervals.keys())
            return f"nothing bounds {', '.join(missing) or dim}"
        kind = self._ranges.kinds.get(dim.name, "Derived") if isinstance(dim, Symbol) else "Derived"
        source = self._ranges.sources.get(dim.name, "") if isinstance(dim, Symbol) else ""
        steps = "; ".join(derivation(dim, self._ranges.intervals, self._ranges.sources))
        return AxisBound(str(dim), max(ceiling, 0), kind, source or steps)

    def refusal(self, value: int, axis: int, reason: str) -> Refused:
        """Names the value, the axis and its symbol, and the node and input that need it.

        A value that no node reads, or with an extent that cannot be, names the node that gives it, with input
        index −1.
        """
        program = self._index.program
        maker = self._index.makers.get(value, -1)
        step, position = self._index.readers.get(value, (maker, -1))
        if maker >= 0 and reason.endswith(IMPOSSIBLE):
            step, position = maker, -1
        node = program.steps[step].node if step >= 0 else None
        shape = program.values[value].shape
        dim: Dim = shape[axis] if shape is not None and axis >= 0 else 0
        missing = sorted(free_symbols(dim) - self._ranges.intervals.keys())
        return Refused(
            value=program.values[value].name,
            axis=axis,
            symbol=missing[0] if missing else ("" if isinstance(dim, int) else str(dim)),
            node=node.name if node else "",
            operator=node.qualified if node else "",
            input_index=position,
            reason=reason,
            derivation=derivation(dim, self._ranges.intervals, self._ranges.sources),
        )

"""Dimension expressions: exact evaluation where symbols are bound, interval arithmetic where they are not.

A dimension of a tensor is a Python integer or an :class:`Expr` over named symbols. Evaluating an expression
at the *maximum* of its symbols is no upper bound (``a - b`` grows when ``b`` shrinks), so ceilings come from
:func:`interval`, which is sound for every operator here and says step by step how it got there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Operator(Enum):
    """What an inner node of an expression computes, in exact integer arithmetic."""

    ADD = "+"
    MUL = "*"
    FLOORDIV = "//"
    MOD = "%"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named extent, ≥ 0."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Apply:
    """``operator`` applied to two or more arguments (FLOORDIV and MOD: exactly two)."""

    operator: Operator
    arguments: tuple[Dim, ...]

    def __str__(self) -> str:
        if self.operator in (Operator.MIN, Operator.MAX):
            return f"{self.operator.value}({', '.join(str(a) for a in self.arguments)})"
        text = f" {self.operator.value} ".join(_grouped(a) for a in self.arguments)
        return text.replace("+ -", "- ")


Expr: TypeAlias = Symbol | Apply
Dim: TypeAlias = int | Symbol | Apply
Shape: TypeAlias = tuple[Dim, ...]


def _grouped(dim: Dim) -> str:
    return (
        f"({dim})"
        if isinstance(dim, Apply) and dim.operator not in (Operator.MIN, Operator.MAX)
        else str(dim)
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """All values an expression can take: ``low`` to ``high``; ``high`` None means no known ceiling."""

    low: int
    high: int | None

    def __str__(self) -> str:
        return f"[{self.low}, {'∞' if self.high is None else self.high}]"


def free_symbols(dim: Dim) -> frozenset[str]:
    """Names of every symbol in ``dim``."""
    if isinstance(dim, int):
        return frozenset()
    if isinstance(dim, Symbol):
        return frozenset((dim.name,))
    return frozenset().union(*(free_symbols(argument) for argument in dim.arguments))


def evaluate(dim: Dim, bindings: Mapping[str, int]) -> int | None:
    """The exact extent under ``bindings``; None when a symbol is unbound or a division by zero occurs."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, Symbol):
        return bindings.get(dim.name)
    values: list[int] = []
    for argument in dim.arguments:
        value = evaluate(argument, bindings)
        if value is None:
            return None
        values.append(value)
    return _EXACT[dim.operator](values)


def _product(values: list[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def _floordiv(values: list[int]) -> int | None:
    return None if values[1] == 0 else values[0] // values[1]


def _mod(values: list[int]) -> int | None:
    return None if values[1] == 0 else values[0] % values[1]


_EXACT: Mapping[Operator, Callable[[list[int]], int | None]] = {
    Operator.ADD: sum,
    Operator.MUL: _product,
    Operator.FLOORDIV: _floordiv,
    Operator.MOD: _mod,
    Operator.MIN: min,
    Operator.MAX: max,
}


def interval(dim: Dim, symbols: Mapping[str, Interval]) -> Interval:
    """The range of ``dim`` when each symbol lies in its interval; an unknown symbol lies in [0, ∞).

    Sound, not always tight: two occurrences of one symbol are treated as independent.
    """
    if isinstance(dim, int):
        return Interval(dim, dim)
    if isinstance(dim, Symbol):
        return symbols.get(dim.name, Interval(0, None))
    parts = [interval(argument, symbols) for argument in dim.arguments]
    result = parts[0]
    for part in parts[1:]:
        result = _COMBINE[dim.operator](result, part)
    return result


def _add(a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, None if a.high is None or b.high is None else a.high + b.high)


def _mul(a: Interval, b: Interval) -> Interval:
    if a.high is not None and b.high is not None:
        corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
        return Interval(min(corners), max(corners))
    if a.low >= 0 and b.low >= 0:
        zero = a.high == 0 or b.high == 0
        return Interval(a.low * b.low, 0 if zero else None)
    return _mul_unbounded(a, b)


def _mul_unbounded(a: Interval, b: Interval) -> Interval:
    # One side reaches infinity and signs are mixed: with a constant negative factor the floor is lost, so an
    # expression such as x - y (y unbounded) keeps x's ceiling through `x + (-1)*y` only when y ≥ 0 is used.
    for constant, other in ((a, b), (b, a)):
        if constant.high is not None and constant.high <= 0 and other.low >= 0:
            return Interval(_MINUS_INFINITY, constant.high * other.low)
    return Interval(_MINUS_INFINITY, None)


_MINUS_INFINITY = -(2**200)
"""Stands for no floor: far below any extent, closed under the arithmetic here."""


def _divide(a: Interval, b: Interval) -> Interval:
    if b.low <= 0:
        return Interval(_MINUS_INFINITY if a.low < 0 else 0, a.high if a.low >= 0 else None)
    low = min(a.low // b.low, 0 if b.high is None else a.low // b.high)
    high = None if a.high is None else max(a.high // b.low, 0 if b.high is None else a.high // b.high)
    return Interval(low, high)


def _modulo(a: Interval, b: Interval) -> Interval:
    high = None if b.high is None else max(b.high - 1, 0)
    if a.low >= 0 and a.high is not None:
        high = a.high if high is None else min(a.high, high)
    return Interval(0, high)


def _minimum(a: Interval, b: Interval) -> Interval:
    highs = [high for high in (a.high, b.high) if high is not None]
    return Interval(min(a.low, b.low), min(highs) if highs else None)


def _maximum(a: Interval, b: Interval) -> Interval:
    return Interval(max(a.low, b.low), None if a.high is None or b.high is None else max(a.high, b.high))


_COMBINE: Mapping[Operator, Callable[[Interval, Interval], Interval]] = {
    Operator.ADD: _add,
    Operator.MUL: _mul,
    Operator.FLOORDIV: _divide,
    Operator.MOD: _modulo,
    Operator.MIN: _minimum,
    Operator.MAX: _maximum,
}


def derivation(dim: Dim, symbols: Mapping[str, Interval], sources: Mapping[str, str]) -> tuple[str, ...]:
    """How :func:`interval` reached its answer, one line a step, innermost first.

    Args:
        dim: the expression.
        symbols: interval of each symbol.
        sources: where each symbol's interval comes from, in words.
    """
    lines: dict[str, None] = {}
    _derive(dim, symbols, sources, lines)
    return tuple(lines)


def _derive(
    dim: Dim, symbols: Mapping[str, Interval], sources: Mapping[str, str], lines: dict[str, None]
) -> None:
    if isinstance(dim, int):
        return
    if isinstance(dim, Apply):
        for argument in dim.arguments:
            _derive(argument, symbols, sources, lines)
        lines[f"{dim} in {interval(dim, symbols)}"] = None
        return
    source = sources.get(dim.name, "nothing bounds it")
    lines[f"{dim.name} in {interval(dim, symbols)}: {source}"] = None

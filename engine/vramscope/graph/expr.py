"""Dimension expressions: exact evaluation where symbols are bound, interval arithmetic where they are not.

A dimension of a tensor is a Python integer or an :class:`Expr` over named symbols. Evaluating an expression
at the *maximum* of its symbols is no upper bound (``a - b`` grows when ``b`` shrinks), so ceilings come from
:func:`interval`, which is sound for every operator here and says step by step how it got there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


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
        low = "-∞" if self.low <= NO_FLOOR else self.low
        return f"[{low}, {'∞' if self.high is None else self.high}]"


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

    Sound for every expression, tight for sums: equal terms are collected first, so ``past + seq - past`` is
    ``seq``. Elsewhere two occurrences of one symbol are treated as independent. Where a division by zero
    would occur, :func:`evaluate` has no value and the range says nothing about it.
    """
    low, high = _range(dim, symbols)
    return Interval(NO_FLOOR if low is None else low, high)


NO_FLOOR = -(2**200)
"""The ``low`` of an interval without a floor: far below any extent."""

_Ends: TypeAlias = tuple[int | None, int | None]
"""Floor and ceiling; None: there is none."""


def _range(dim: Dim, symbols: Mapping[str, Interval]) -> _Ends:
    if isinstance(dim, int):
        return dim, dim
    if isinstance(dim, Symbol):
        known = symbols.get(dim.name)
        return (0, None) if known is None else (None if known.low <= NO_FLOOR else known.low, known.high)
    if dim.operator is Operator.ADD:
        return _sum_range(dim, symbols)
    parts = [_range(argument, symbols) for argument in dim.arguments]
    return reduce(_COMBINE[dim.operator], parts)


def _sum_range(dim: Apply, symbols: Mapping[str, Interval]) -> _Ends:
    """Equal products are collected over the whole sum, then each is multiplied and added once."""
    terms: dict[tuple[Dim, ...], int] = {}
    _collect(dim, 1, terms)
    low: int | None = 0
    high: int | None = 0
    for factors, coefficient in terms.items():
        if coefficient == 0:
            continue
        parts: list[_Ends] = [(coefficient, coefficient), *(_range(factor, symbols) for factor in factors)]
        least, most = reduce(_multiply, parts)
        low = None if low is None or least is None else low + least
        high = None if high is None or most is None else high + most
    return low, high


def _collect(dim: Dim, factor: int, terms: dict[tuple[Dim, ...], int]) -> None:
    if isinstance(dim, Apply) and dim.operator is Operator.ADD:
        for argument in dim.arguments:
            _collect(argument, factor, terms)
        return
    factors = list(_factors(dim))
    symbolic = [item for item in factors if not isinstance(item, int)]
    number = _product([item for item in factors if isinstance(item, int)])
    if len(symbolic) == 1 and isinstance(symbolic[0], Apply) and symbolic[0].operator is Operator.ADD:
        _collect(symbolic[0], factor * number, terms)
        return
    key = tuple(sorted(symbolic, key=str))
    terms[key] = terms.get(key, 0) + factor * number


def _factors(dim: Dim) -> Iterator[Dim]:
    if isinstance(dim, Apply) and dim.operator is Operator.MUL:
        for argument in dim.arguments:
            yield from _factors(argument)
    else:
        yield dim


def _multiply(a: _Ends, b: _Ends) -> _Ends:
    corners = [
        _times(x, xs, y, ys)
        for x, xs in zip(a, (-1, 1), strict=True)
        for y, ys in zip(b, (-1, 1), strict=True)
    ]
    finite = [value for value, _ in corners if value is not None]
    signs = [sign for value, sign in corners if value is None]
    low = None if -1 in signs else min(finite)
    high = None if 1 in signs else max(finite)
    return low, high


def _times(x: int | None, x_sign: int, y: int | None, y_sign: int) -> tuple[int | None, int]:
    """The product of two ends; None with its sign where it is infinite. Zero times infinity is zero."""
    if x is not None and y is not None:
        return x * y, 0
    if x == 0 or y == 0:
        return 0, 0
    signs = [sign if end is None else (1 if end > 0 else -1) for end, sign in ((x, x_sign), (y, y_sign))]
    return None, signs[0] * signs[1]


def _negate(a: _Ends) -> _Ends:
    low, high = a
    return (None if high is None else -high), (None if low is None else -low)


def _by_sign(
    a: _Ends, b: _Ends, positive: Callable[[_Ends, tuple[int, int | None]], _Ends], *, negate_result: bool
) -> _Ends:
    """Applies ``positive`` to the positive divisors of ``b`` and, mirrored, to the negative ones."""
    low, high = b
    found: list[_Ends] = []
    if high is None or high > 0:
        found.append(positive(a, (1 if low is None or low < 1 else low, high)))
    if low is None or low < 0:
        least = 1 if high is None or high > -1 else -high
        mirrored = positive(_negate(a), (least, None if low is None else -low))
        found.append(_negate(mirrored) if negate_result else mirrored)
    return reduce(_hull, found) if found else (0, None)


def _hull(a: _Ends, b: _Ends) -> _Ends:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return low, (None if a[1] is None or b[1] is None else max(a[1], b[1]))


def _divide(a: _Ends, b: _Ends) -> _Ends:
    return _by_sign(a, b, _divide_by_positive, negate_result=False)


def _divide_by_positive(a: _Ends, b: tuple[int, int | None]) -> _Ends:
    """``a // b`` for ``b ≥ 1``: towards zero as ``b`` grows, and never past −1 or 0."""
    least, most = b
    low, high = a
    if low is not None:
        low = low // least if low < 0 else (0 if most is None else low // most)
    if high is not None:
        high = high // least if high >= 0 else (-1 if most is None else high // most)
    return low, high


def _modulo(a: _Ends, b: _Ends) -> _Ends:
    return _by_sign(a, b, _modulo_positive, negate_result=True)


def _modulo_positive(a: _Ends, b: tuple[int, int | None]) -> _Ends:
    """``a % b`` for ``b ≥ 1``: in [0, b − 1], and exact where ``a`` spans no multiple of ``b``."""
    least, most = b
    low, high = a
    if least == most and low is not None and high is not None and low // least == high // least:
        return low % least, high % least
    if low is None or low < 0:
        return 0, (None if most is None else most - 1)
    if high is not None and high < least:
        return low, high
    ends = [end for end in (high, None if most is None else most - 1) if end is not None]
    return 0, min(ends, default=None)


def _minimum(a: _Ends, b: _Ends) -> _Ends:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return low, min((end for end in (a[1], b[1]) if end is not None), default=None)


def _maximum(a: _Ends, b: _Ends) -> _Ends:
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return max((end for end in (a[0], b[0]) if end is not None), default=None), high


_COMBINE: Mapping[Operator, Callable[[_Ends, _Ends], _Ends]] = {
    Operator.MUL: _multiply,
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

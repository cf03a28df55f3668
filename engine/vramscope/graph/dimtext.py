"""Reading dimension expressions from text: what exporters write into files and what inference prints.

The grammar is integer arithmetic with ``+ - * / // % **``, parentheses and floor, ceiling, Mod, Min, Max.
Division is exact rational arithmetic until a floor or ceiling makes it an integer again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING

from vramscope.graph import algebra
from vramscope.graph.expr import Apply, Operator, Symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope.graph.expr import Dim

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_][\w.]*)|(?P<sign>//|\*\*|[-+*/%(),]))")
_POWER_LIMIT = 8


class DimTextError(ValueError):
    """The text is no integer expression in the grammar above."""


@dataclass(frozen=True, slots=True)
class _Ratio:
    top: Dim
    bottom: Dim = 1


def parse_dim(text: str, symbols: Mapping[str, Dim] | None = None) -> Dim:
    """The expression that ``text`` spells, in normal form.

    Args:
        text: for example ``past + seq``, ``2*floor(n/2)`` or ``Max(a, b)``.
        symbols: what a name stands for; a name that is not there is a symbol of that name.

    Raises:
        DimTextError: the text is not in the grammar, or its value need not be an integer.
    """
    parser = _Parser(_tokens(text), text, symbols or {})
    value = parser.expression()
    parser.end()
    return _whole(value, text)


def render_dim(dim: Dim, names: Mapping[str, str]) -> str:
    """``dim`` as text that :func:`parse_dim` and shape inference read, with its symbols renamed."""
    if isinstance(dim, int):
        return str(dim)
    if isinstance(dim, Symbol):
        return names[dim.name]
    parts = [render_dim(argument, names) for argument in dim.arguments]
    if dim.operator in _FUNCTIONS_OF:
        return f"{_FUNCTIONS_OF[dim.operator]}({', '.join(parts)})"
    return "(" + f" {dim.operator.value} ".join(parts) + ")"


_FUNCTIONS_OF: Mapping[Operator, str] = {Operator.MIN: "Min", Operator.MAX: "Max", Operator.MOD: "Mod"}


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise DimTextError(f"{text!r}: unexpected {text[position:].strip()[:1]!r}")
        tokens.append(match.group().strip())
        position = match.end()
    return tokens


def _whole(value: _Ratio, text: str) -> Dim:
    quotient = value.top if value.bottom == 1 else algebra.exact_quotient(value.top, value.bottom)
    if quotient is None:
        raise DimTextError(f"{text!r} need not be a whole number")
    return quotient


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, tokens: list[str], text: str, symbols: Mapping[str, Dim]) -> None:
        if len(tokens) > 2_000:
            raise DimTextError(f"an expression of {len(tokens):,} parts")
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self._text = text
        self._symbols = symbols

    def end(self) -> None:
        if self._next != len(self._tokens):
            raise DimTextError(f"{self._text!r}: unexpected {self._tokens[self._next]!r}")

    def expression(self) -> _Ratio:
        self._depth += 1
        if self._depth > 100:
            raise DimTextError("an expression nested more than 100 deep")
        left = self._term()
        while (sign := self._accept("+", "-")) is not None:
            right = self._term()
            left = _plus(left, right if sign == "+" else _times(right, _Ratio(-1)))
        self._depth -= 1
        return left

    def _term(self) -> _Ratio:
        left = self._unary()
        while (sign := self._accept("*", "/", "//", "%")) is not None:
            left = _TERM[sign](left, self._unary())
        return left

    def _unary(self) -> _Ratio:
        sign = 1
        while self._accept("-") is not None:
            sign = -sign
        value = self._power()
        return value if sign > 0 else _times(value, _Ratio(-1))

    def _power(self) -> _Ratio:
        base = self._primary()
        if self._accept("**") is None:
            return base
        exponent = _whole(self._unary(), self._text)
        if not isinstance(exponent, int) or not 0 <= exponent <= _POWER_LIMIT:
            raise DimTextError(f"{self._text!r}: a power other than 0 to {_POWER_LIMIT}")
        result = _Ratio(1)
        for _ in range(exponent):
            result = _times(result, base)
        return result

    def _primary(self) -> _Ratio:
        token = self._take()
        if token.isdigit():
            return _Ratio(int(token))
        if token == "(":
            value = self.expression()
            self._require(")")
            return value
        if not (token[0].isalpha() or token[0] == "_"):
            raise DimTextError(f"{self._text!r}: unexpected {token!r}")
        if self._accept("(") is not None:
            return self._call(token)
        return _Ratio(self._symbols.get(token, Symbol(token)))

    def _call(self, name: str) -> _Ratio:
        function = _FUNCTIONS.get(name.lower())
        if function is None:
            raise DimTextError(f"{self._text!r}: unknown function {name!r}")
        arguments = [self.expression()]
        while self._accept(",") is not None:
            arguments.append(self.expression())
        self._require(")")
        try:
            return _Ratio(function(arguments, self._text))
        except (TypeError, IndexError) as error:
            raise DimTextError(f"{self._text!r}: {name} of {len(arguments)} arguments") from error

    def _accept(self, *signs: str) -> str | None:
        if self._next < len(self._tokens) and self._tokens[self._next] in signs:
            self._next += 1
            return self._tokens[self._next - 1]
        return None

    def _require(self, sign: str) -> None:
        if self._accept(sign) is None:
            raise DimTextError(f"{self._text!r}: {sign!r} is missing")

    def _take(self) -> str:
        if self._next >= len(self._tokens):
            raise DimTextError(f"{self._text!r} ends too early")
        self._next += 1
        return self._tokens[self._next - 1]


def _plus(left: _Ratio, right: _Ratio) -> _Ratio:
    if left.bottom == right.bottom:
        return _Ratio(algebra.add(left.top, right.top), left.bottom)
    if isinstance(left.bottom, int) and isinstance(right.bottom, int):
        common = lcm(left.bottom, right.bottom)
        first = algebra.multiply(left.top, common // left.bottom)
        return _Ratio(algebra.add(first, algebra.multiply(right.top, common // right.bottom)), common)
    top = algebra.add(algebra.multiply(left.top, right.bottom), algebra.multiply(right.top, left.bottom))
    return _Ratio(top, algebra.multiply(left.bottom, right.bottom))


def _times(left: _Ratio, right: _Ratio) -> _Ratio:
    return _reduced(algebra.multiply(left.top, right.top), algebra.multiply(left.bottom, right.bottom))


def _over(left: _Ratio, right: _Ratio) -> _Ratio:
    if right.top == 0:
        raise DimTextError("a division by zero")
    top, bottom = algebra.multiply(left.top, right.bottom), algebra.multiply(left.bottom, right.top)
    if isinstance(bottom, int) and bottom < 0:
        top, bottom = algebra.multiply(-1, top), -bottom
    return _reduced(top, bottom)


def _reduced(top: Dim, bottom: Dim) -> _Ratio:
    if bottom == 1:
        return _Ratio(top)
    quotient = algebra.exact_quotient(top, bottom)
    return _Ratio(top, bottom) if quotient is None else _Ratio(quotient)


def _floor(value: _Ratio) -> Dim:
    return value.top if value.bottom == 1 else algebra.floor_divide(value.top, value.bottom)


def _ceiling(value: _Ratio) -> Dim:
    return value.top if value.bottom == 1 else algebra.ceil_divide(value.top, value.bottom)


def _remainder(left: _Ratio, right: _Ratio) -> _Ratio:
    if left.bottom != 1 or right.bottom != 1 or right.top == 0:
        raise DimTextError("a remainder of fractions or by zero")
    return _Ratio(algebra.modulo(left.top, right.top))


_TERM: Mapping[str, Callable[[_Ratio, _Ratio], _Ratio]] = {
    "*": _times,
    "/": _over,
    "//": lambda left, right: _Ratio(_floor(_over(left, right))),
    "%": _remainder,
}

_FUNCTIONS: Mapping[str, Callable[[list[_Ratio], str], Dim]] = {
    "floor": lambda arguments, _: _floor(arguments[0]),
    "ceiling": lambda arguments, _: _ceiling(arguments[0]),
    "mod": lambda arguments, text: _whole(_remainder(arguments[0], arguments[1]), text),
    "min": lambda arguments, text: algebra.minimum(*(_whole(item, text) for item in arguments)),
    "max": lambda arguments, text: algebra.maximum(*(_whole(item, text) for item in arguments)),
}


def is_sum(dim: Dim) -> bool:
    """Whether ``dim`` is spelled with at least one operator."""
    return isinstance(dim, Apply)

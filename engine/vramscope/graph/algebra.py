"""Dimension arithmetic in one normal form, so that ``past + seq`` and ``seq + past`` are the same expression.

Sums and products are expanded into integer polynomials over atoms (symbols and everything that is no sum or
product); terms are sorted by text. Division, remainder, minimum and maximum stay as they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from vramscope.graph.expr import Apply, Operator, Symbol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vramscope.graph.expr import Dim

Monomial: TypeAlias = "tuple[Symbol | Apply, ...]"
Polynomial: TypeAlias = "dict[Monomial, int]"

_TERMS_LIMIT = 64
"""A product that would expand to more terms than this is kept as a product."""


def add(*dims: Dim) -> Dim:
    """The sum, in normal form."""
    return _build(_sum(_polynomial(dim) for dim in dims))


def subtract(left: Dim, right: Dim) -> Dim:
    """``left - right``, in normal form."""
    return add(left, multiply(-1, right))


def multiply(*dims: Dim) -> Dim:
    """The product, in normal form (1 for no factor)."""
    result: Polynomial = {(): 1}
    for dim in dims:
        factor = _polynomial(dim)
        if len(factor) > 1 and len(result) * len(factor) > _TERMS_LIMIT:
            factor = {(_atom(dim),): 1}
        result = _multiply(result, factor)
    return _build(result)


def floor_divide(left: Dim, right: Dim) -> Dim:
    """``left // right``; what divides exactly leaves the division."""
    if isinstance(left, int) and isinstance(right, int) and right != 0:
        return left // right
    whole, rest = _split_exact(_polynomial(left), _polynomial(right))
    if not rest:
        return _build(whole)
    if not (isinstance(right, int) and right > 0):
        return Apply(Operator.FLOORDIV, (left, right))
    quotient: Dim = Apply(Operator.FLOORDIV, (_build(rest), right))
    if set(rest) == {()}:
        quotient = rest[()] // right
    return add(_build(whole), quotient)


def ceil_divide(left: Dim, right: Dim) -> Dim:
    """The least integer ≥ ``left / right``, written with a floor: ``-(-left // right)``."""
    return multiply(-1, floor_divide(multiply(-1, left), right))


def exact_quotient(left: Dim, right: Dim) -> Dim | None:
    """``left / right`` where every term divides, else None."""
    whole, rest = _split_exact(_polynomial(left), _polynomial(right))
    return None if rest else _build(whole)


def modulo(left: Dim, right: Dim) -> Dim:
    """``left % right``."""
    if isinstance(left, int) and isinstance(right, int) and right != 0:
        return left % right
    if exact_quotient(left, right) is not None:
        return 0
    return Apply(Operator.MOD, (left, right))


def minimum(*dims: Dim) -> Dim:
    """The least of the arguments."""
    return _extremum(Operator.MIN, dims)


def maximum(*dims: Dim) -> Dim:
    """The greatest of the arguments."""
    return _extremum(Operator.MAX, dims)


def product(shape: Iterable[Dim]) -> Dim:
    """Elements of a tensor of ``shape``."""
    return multiply(*shape)


def substitute(dim: Dim, replacements: Mapping[str, Dim]) -> Dim:
    """``dim`` with each named symbol replaced, in normal form again."""
    if isinstance(dim, int) or not replacements:
        return dim
    if isinstance(dim, Symbol):
        return replacements.get(dim.name, dim)
    return apply(dim.operator, tuple(substitute(argument, replacements) for argument in dim.arguments))


def apply(operator: Operator, arguments: tuple[Dim, ...]) -> Dim:
    """``operator`` over ``arguments``, in normal form."""
    if operator is Operator.ADD:
        return add(*arguments)
    if operator is Operator.MUL:
        return multiply(*arguments)
    if operator is Operator.FLOORDIV:
        return floor_divide(arguments[0], arguments[1])
    if operator is Operator.MOD:
        return modulo(arguments[0], arguments[1])
    return _extremum(operator, arguments)


def _extremum(operator: Operator, dims: tuple[Dim, ...]) -> Dim:
    flat: list[Dim] = []
    for dim in dims:
        inner = dim.arguments if isinstance(dim, Apply) and dim.operator is operator else (dim,)
        flat.extend(inner)
    constants = [dim for dim in flat if isinstance(dim, int)]
    others = sorted({dim for dim in flat if not isinstance(dim, int)}, key=str)
    pick = min if operator is Operator.MIN else max
    kept: tuple[Dim, ...] = (*others, *([pick(constants)] if constants else []))
    return kept[0] if len(kept) == 1 else Apply(operator, kept)


def _atom(dim: Dim) -> Symbol | Apply:
    if isinstance(dim, int):
        raise TypeError(f"{dim} is a number, not an atom")
    return dim


def _polynomial(dim: Dim) -> Polynomial:
    if isinstance(dim, int):
        return {(): dim} if dim else {}
    if isinstance(dim, Apply) and dim.operator is Operator.ADD:
        return _sum(_polynomial(argument) for argument in dim.arguments)
    if isinstance(dim, Apply) and dim.operator is Operator.MUL:
        return _product_of(dim)
    return {(dim,): 1}


def _product_of(dim: Apply) -> Polynomial:
    result: Polynomial = {(): 1}
    for argument in dim.arguments:
        factor = _polynomial(argument)
        if len(factor) > 1 and len(result) * len(factor) > _TERMS_LIMIT:
            factor = {(_atom(argument),): 1}
        result = _multiply(result, factor)
    return result


def _sum(parts: Iterable[Polynomial]) -> Polynomial:
    result: Polynomial = {}
    for part in parts:
        for monomial, factor in part.items():
            result[monomial] = result.get(monomial, 0) + factor
    return {monomial: factor for monomial, factor in result.items() if factor}


def _multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for first, a in left.items():
        for second, b in right.items():
            key = tuple(sorted(first + second, key=str))
            result[key] = result.get(key, 0) + a * b
    return {monomial: factor for monomial, factor in result.items() if factor}


def _split_exact(left: Polynomial, right: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Terms of ``left`` that the single-term ``right`` divides (already divided), and the other terms."""
    if left and left == right:
        return {(): 1}, {}
    if len(right) != 1:
        return {}, left
    ((divisor, factor),) = right.items()
    whole: Polynomial = {}
    rest: Polynomial = {}
    for monomial, coefficient in left.items():
        quotient = _without(monomial, divisor)
        if quotient is None or coefficient % factor:
            rest[monomial] = coefficient
        else:
            whole[quotient] = coefficient // factor
    return whole, rest


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _build(polynomial: Polynomial) -> Dim:
    terms = sorted(polynomial.items(), key=lambda item: (not item[0], [str(atom) for atom in item[0]]))
    built = [_term(monomial, factor) for monomial, factor in terms]
    if not built:
        return 0
    return built[0] if len(built) == 1 else Apply(Operator.ADD, tuple(built))


def _term(monomial: Monomial, factor: int) -> Dim:
    if not monomial:
        return factor
    parts: tuple[Dim, ...] = monomial if factor == 1 else (factor, *monomial)
    return parts[0] if len(parts) == 1 else Apply(Operator.MUL, parts)

"""Interval arithmetic over dimension expressions: sound everywhere, tight where a sum repeats a term."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramscope.graph.expr import (
    NO_FLOOR,
    Apply,
    Dim,
    Interval,
    Operator,
    Symbol,
    derivation,
    evaluate,
    free_symbols,
    interval,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

NAMES = ("past", "seq", "x", "y")
PAST, SEQ, X, Y = (Symbol(name) for name in NAMES)
PAIRED = (Operator.FLOORDIV, Operator.MOD)


def _apply(children: SearchStrategy[Dim]) -> SearchStrategy[Dim]:
    def build(operator: Operator) -> SearchStrategy[Dim]:
        most = 2 if operator in PAIRED else 3
        arguments = st.lists(children, min_size=2, max_size=most).map(tuple)
        return st.builds(Apply, st.just(operator), arguments)

    return st.sampled_from(Operator).flatmap(build)


leaves: SearchStrategy[Dim] = st.one_of(st.integers(-9, 9), st.sampled_from((PAST, SEQ, X, Y)))
expressions = st.recursive(leaves, _apply, max_leaves=9)


@st.composite
def boxes(draw: DrawFn) -> tuple[dict[str, Interval], dict[str, int]]:
    """An interval for some symbols and a value inside it for every symbol (unknown ones are ≥ 0)."""
    intervals: dict[str, Interval] = {}
    values: dict[str, int] = {}
    for name in NAMES:
        low = draw(st.integers(-6, 12))
        high = draw(st.one_of(st.none(), st.integers(low, low + 12)))
        values[name] = draw(st.integers(low, low + 40 if high is None else high))
        if draw(st.booleans()):
            intervals[name] = Interval(low, high)
        else:
            values[name] = abs(values[name])
    return intervals, values


@given(expressions, boxes())
def test_every_value_lies_inside_the_interval(
    dim: Dim, box: tuple[dict[str, Interval], dict[str, int]]
) -> None:
    intervals, values = box
    value = evaluate(dim, values)
    found = interval(dim, intervals)
    if value is not None:
        assert found.low <= value
        assert found.high is None or value <= found.high


@given(expressions, boxes())
def test_an_interval_of_points_is_the_point(
    dim: Dim, box: tuple[dict[str, Interval], dict[str, int]]
) -> None:
    _, values = box
    points = {name: Interval(value, value) for name, value in values.items()}
    value = evaluate(dim, values)
    if value is not None:
        assert interval(dim, points) == Interval(value, value)


@given(expressions, boxes())
def test_a_derivation_names_every_symbol_and_its_source(
    dim: Dim, box: tuple[dict[str, Interval], dict[str, int]]
) -> None:
    intervals, _ = box
    sources = {name: f"source of {name}" for name in intervals}
    lines = derivation(dim, intervals, sources)
    for name in free_symbols(dim):
        told = [line for line in lines if line.startswith(f"{name} in ")]
        assert len(told) == 1
        assert told[0].endswith(sources.get(name, "nothing bounds it"))


def _minus(left: Dim, right: Dim) -> Dim:
    return Apply(Operator.ADD, (left, Apply(Operator.MUL, (-1, right))))


BOX = {"past": Interval(0, 2047), "seq": Interval(1, 16), "x": Interval(-3, 5)}


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        (_minus(Apply(Operator.ADD, (PAST, SEQ)), PAST), Interval(1, 16)),
        (_minus(Apply(Operator.MUL, (2, PAST)), Apply(Operator.ADD, (PAST, PAST))), Interval(0, 0)),
        (_minus(Apply(Operator.MUL, (PAST, SEQ)), Apply(Operator.MUL, (SEQ, PAST))), Interval(0, 0)),
        (_minus(10, SEQ), Interval(-6, 9)),
        (_minus(SEQ, Y), Interval(NO_FLOOR, 16)),
        (Apply(Operator.MUL, (X, X)), Interval(-15, 25)),
        (Apply(Operator.FLOORDIV, (PAST, X)), Interval(-2047, 2047)),
        (Apply(Operator.FLOORDIV, (-7, Y)), Interval(-7, -1)),
        (Apply(Operator.FLOORDIV, (7, Y)), Interval(0, 7)),
        (Apply(Operator.MOD, (PAST, SEQ)), Interval(0, 15)),
        (Apply(Operator.MOD, (SEQ, 64)), Interval(1, 16)),
        (Apply(Operator.MOD, (SEQ, X)), Interval(-2, 4)),
        (Apply(Operator.MOD, (Y, Symbol("z"))), Interval(0, None)),
        (Apply(Operator.MIN, (PAST, Y)), Interval(0, 2047)),
        (Apply(Operator.MAX, (PAST, Y)), Interval(0, None)),
        (Apply(Operator.MAX, (0, _minus(SEQ, Y))), Interval(0, 16)),
        (Apply(Operator.MUL, (0, Y)), Interval(0, 0)),
        (Apply(Operator.MUL, (X, Y)), Interval(NO_FLOOR, None)),
    ],
    ids=str,
)
def test_ranges(dim: Dim, expected: Interval) -> None:
    assert interval(dim, BOX) == expected


def test_no_floor_is_told_as_infinity() -> None:
    assert str(interval(_minus(SEQ, Y), BOX)) == "[-∞, 16]"
    assert str(Interval(0, None)) == "[0, ∞]"

"""Dimension arithmetic: one normal form, exact against plain integers, read back from any spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramscope.graph import algebra
from vramscope.graph.dimtext import DimTextError, parse_dim, render_dim
from vramscope.graph.expr import Apply, Dim, Operator, Symbol, evaluate, free_symbols

NAMES = ("a", "b", "c")


def dims() -> st.SearchStrategy[Dim]:
    leaves: st.SearchStrategy[Dim] = st.one_of(st.integers(-9, 9), st.sampled_from(NAMES).map(Symbol))

    def grow(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        pairs = st.tuples(inner, inner)
        operators = st.sampled_from([Operator.ADD, Operator.MUL, Operator.MIN, Operator.MAX])
        divisions = st.tuples(inner, st.integers(1, 7))
        return st.one_of(
            st.builds(Apply, operators, pairs),
            st.builds(Apply, st.sampled_from([Operator.FLOORDIV, Operator.MOD]), divisions),
        )

    return st.recursive(leaves, grow, max_leaves=8)


bindings = st.fixed_dictionaries({name: st.integers(0, 50) for name in NAMES})


@given(dims(), bindings)
def test_the_normal_form_has_the_value_of_what_was_written(dim: Dim, values: dict[str, int]) -> None:
    assert evaluate(algebra.substitute(dim, {"none": 0}), values) == evaluate(dim, values)


@given(dims(), bindings)
def test_text_reads_back_to_the_same_value(dim: Dim, values: dict[str, int]) -> None:
    again = parse_dim(render_dim(dim, {name: name for name in NAMES}))
    assert evaluate(again, values) == evaluate(dim, values)


@given(dims(), dims(), bindings)
def test_ceil_division_rounds_up(left: Dim, right: Dim, values: dict[str, int]) -> None:
    divisor = evaluate(right, values)
    dividend = evaluate(left, values)
    assert divisor is not None
    assert dividend is not None
    if divisor > 0:
        assert evaluate(algebra.ceil_divide(left, divisor), values) == -(-dividend // divisor)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("past + seq", "seq + past"),
        ("2*floor(n/2) - n", "-n + 2*(n//2)"),
        ("batch*(past + seq)", "seq*batch + past*batch"),
        ("floor(c/2 + 1/2)", "(c + 1)//2"),
        ("Max(a, Max(b, 3), 1)", "max(3, b, a)"),
        ("(64*batch*seq)/(64*seq)", "batch"),
        ("Mod(n, 4)", "n % 4"),
        ("n**2", "n*n"),
        ("ceiling(n/4)", "-((-n)//4)"),
    ],
)
def test_spellings_of_one_length_are_one_expression(first: str, second: str) -> None:
    assert parse_dim(first) == parse_dim(second)


def test_what_divides_exactly_leaves_the_division() -> None:
    assert algebra.floor_divide(parse_dim("4*n + 6"), 2) == parse_dim("2*n + 3")
    assert algebra.floor_divide(parse_dim("2*n + 3"), 2) == parse_dim("n + 1")


def test_a_symbol_is_given_its_meaning_while_reading() -> None:
    assert parse_dim("s0 + 1", {"s0": Symbol("past")}) == parse_dim("past + 1")


@pytest.mark.parametrize(
    "text", ["", "a +", "a b", "a?", "sqrt(a)", "a/2", "a/0", "(" * 300 + "a", "a**99", "max()", "a % (1/2)"]
)
def test_what_is_no_integer_expression_is_refused(text: str) -> None:
    with pytest.raises(DimTextError):
        parse_dim(text)


def test_large_products_stay_correct_without_being_expanded() -> None:
    sums: list[Dim] = [algebra.add(*(Symbol(f"x{i}_{j}") for j in range(9))) for i in range(4)]
    product = algebra.multiply(*sums)
    values = dict.fromkeys(free_symbols(product), 1)
    assert evaluate(product, values) == 9**4

"""Sizes, maxima and token ids as people type them."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramscope.cli.values import count, extent, input_file, maximum, positive, size, tokens


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("0", 0),
        ("123456", 123456),
        ("8GiB", 8 * 2**30),
        ("8gib", 8 * 2**30),
        ("24GB", 24 * 10**9),
        ("24 GB", 24 * 10**9),
        ("8G", 8 * 2**30),
        ("1.5GiB", 3 * 2**29),
        (".5k", 512),
        ("0.1kB", 100),
        ("1_000_000", 10**6),
        ("25,769,803,776", 24 * 2**30),
        ("2TiB", 2 * 2**40),
        ("512M", 512 * 2**20),
    ],
)
def test_sizes(text: str, bytes_: int) -> None:
    assert size(text) == bytes_


@pytest.mark.parametrize("text", ["", "GiB", "8 apples", "-1GiB", "1e9", "1..5G", "8GiBit", "nan", "٣GiB"])
def test_what_is_no_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        size(text)
    assert repr(text) in str(caught.value)


@given(st.integers(0, 2**80))
def test_a_bare_number_is_exact_however_large(number: int) -> None:
    assert size(str(number)) == number


@given(st.integers(0, 10**6), st.sampled_from(["KiB", "MiB", "GiB", "TiB"]))
def test_binary_units_are_exact(number: int, unit: str) -> None:
    power = {"KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}[unit]
    assert size(f"{number}{unit}") == number * 1024**power


@pytest.mark.parametrize(
    ("text", "pair"), [("batch=4", ("batch", 4)), ("a=b=3", ("a=b", 3)), ("N = 7", ("N", 7))]
)
def test_maxima_and_extents(text: str, pair: tuple[str, int]) -> None:
    assert maximum(text) == pair
    assert extent(text) == pair


@pytest.mark.parametrize("text", ["batch", "=4", "batch=", "batch=-1", "batch=four", "batch=1.5"])
def test_what_is_no_maximum_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        maximum(text)


def test_token_ids() -> None:
    assert tokens("1,2, 3") == [1, 2, 3]
    assert tokens("7") == [7]


@pytest.mark.parametrize("text", ["", ",", "1,two", "-1"])
def test_what_are_no_token_ids_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        tokens(text)


def test_counts() -> None:
    assert count("0") == 0
    assert positive("3") == 3
    with pytest.raises(argparse.ArgumentTypeError, match="less than 1"):
        positive("0")
    with pytest.raises(argparse.ArgumentTypeError):
        count("-1")


@pytest.mark.parametrize(
    ("text", "pair"),
    [("x=a.npy", ("x", "a.npy")), ("all.npz", ("", "all.npz")), ("=a=b.npz", ("", "a=b.npz"))],
)
def test_input_files(text: str, pair: tuple[str, str]) -> None:
    name, path = input_file(text)
    assert (name, str(path)) == pair


def test_an_input_without_a_file_is_refused_by_name() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="'x=' names no file"):
        input_file("x=")

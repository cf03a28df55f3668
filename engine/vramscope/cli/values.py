"""What options of the command line mean: sizes, maxima of symbols, token ids, counts."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from pathlib import Path

UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
"""Bytes of each unit: ``GB`` is decimal, ``GiB`` and ``G`` binary."""

_SIZE = re.compile(r"\s*([0-9]+(?:[_,][0-9]{3})*|[0-9]*\.[0-9]+)\s*([a-zA-Z]*)\s*")


def size(text: str) -> int:
    """Bytes of ``8GiB``, ``24GB``, ``512M`` or a bare number; rounded down to a whole byte.

    Raises:
        argparse.ArgumentTypeError: it is no size.
    """
    found = _SIZE.fullmatch(text)
    factor = UNITS.get(found[2].lower()) if found else None
    if found is None or factor is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no size; write 8GiB, 24GB, 512MiB or a number of bytes"
        )
    return int(Fraction(re.sub("[_,]", "", found[1])) * factor)


def growth(text: str) -> tuple[str, int]:
    """``64MiB`` as ``("bytes", 67108864)``; ``2.5%`` as ``("percent", 2500)``, thousandths of a percent.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    stripped = text.strip()
    if not stripped.endswith("%"):
        return "bytes", size(text)
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]{1,3})?)\s*%", stripped)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no growth; write 64MiB or 2.5%")
    return "percent", int(Fraction(found[1]) * 1000)


def maximum(text: str) -> tuple[str, int]:
    """``SYMBOL=N`` as a pair.

    Raises:
        argparse.ArgumentTypeError: no ``=``, no symbol, or no whole number.
    """
    return _symbol(text, "maximum")


def extent(text: str) -> tuple[str, int]:
    """As :func:`maximum`, for what a symbol is exactly.

    Raises:
        argparse.ArgumentTypeError: as there.
    """
    return _symbol(text, "extent")


def _symbol(text: str, what: str) -> tuple[str, int]:
    symbol, separator, number = text.rpartition("=")
    if not separator or not symbol or not number.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}; write SYMBOL=NUMBER, such as batch=4")
    return symbol.strip(), int(number)


def input_file(text: str) -> tuple[str, Path]:
    """``NAME=FILE`` as a pair; without ``=`` the name is empty.

    Raises:
        argparse.ArgumentTypeError: no file.
    """
    name, separator, file = text.partition("=")
    if not separator:
        name, file = "", text
    if not file:
        raise argparse.ArgumentTypeError(f"{text!r} names no file; write NAME=FILE.npy, or FILE.npz")
    return name, Path(file)


def tokens(text: str) -> list[int]:
    """``1,2,3`` as token ids.

    Raises:
        argparse.ArgumentTypeError: something between the commas is no whole number.
    """
    parts = [part for part in re.split(r"[,\s]+", text.strip()) if part]
    if not parts or not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} are no token ids; write whole numbers, such as 1,2,3")
    return [int(part) for part in parts]


def count(text: str) -> int:
    """A whole number ≥ 0.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 up")
    return int(text)


def positive(text: str) -> int:
    """A whole number ≥ 1.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    number = count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1")
    return number

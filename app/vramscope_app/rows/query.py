"""The node search's small language: ``op:MatMulNBits bytes>1M path:seam scope:layers.3 -name:foo``.

Every term must hold; ``-`` in front turns one around. A bare word stands anywhere in name, scope, operator,
kernel or path. ``key:text`` looks into one column (``*`` and ``?`` stand for any letters, ``key:=text`` means
the whole text); a scope is matched by whole parts, so that ``scope:layers.3`` leaves ``layers.31`` out. Bytes
are compared: ``weights>=1.5M``; parts of the phase's peak are percent: ``share>5%``. What is unknown is found
by ``output=unknown`` and by no comparison.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.rows.nodes import SHARE, UNKNOWN, WHOLE, shares
from vramscope_app.text import parse_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from vramscope_app.rows.nodes import NodeTable

TEXTS = {
    "op": "operator",
    "name": "name",
    "scope": "scope",
    "kernel": "kernel",
    "path": "path",
    "domain": "domain",
    "in": "input_shapes",
    "out": "output_shapes",
    "known": "certainty",
    "launch": "launch",
}
"""Keys of ``key:text`` and the columns they look into."""
NUMBERS = {
    "bytes": ("weight_bytes", "output_bytes", "workspace_bytes"),
    "weights": ("weight_bytes",),
    "output": ("output_bytes",),
    "workspace": ("workspace_bytes",),
    "live": ("live_bytes",),
    "step": ("step",),
    "us": ("nanoseconds",),
    "share": (SHARE,),
}
"""Keys of comparisons and the columns whose sum they compare."""
SCALES = {"us": 1000, "share": WHOLE // 100}
"""What one of a key's amount is in its columns."""
EXAMPLES = {"us": "100", "share": "5%"}
"""Amounts that are no bytes."""
ANYWHERE = ("scope", "name", "operator", "kernel", "path")
_COMPARED: Mapping[str, Callable[[NDArray[np.int64], int], NDArray[np.bool_]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_WORDS = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_NUMBER = re.compile(r"([a-z]+)(>=|<=|>|<|=)(.*)", re.IGNORECASE)
_TEXT = re.compile(r"([a-z]+):(?!:)(.*)", re.IGNORECASE)
HELP = marked(
    "Words stand anywhere. op:MatMul  scope:layers.3  path:seam  kernel:reference  known:bound  out:4096\n"
    "bytes>1M  weights>=2GiB  output=unknown  share>5%  us>100  launch:3\n"
    "a leading − turns a term: -name:norm   * stands for any letters\n"
    'op:=Add for the whole word, "two words" for a space'
)


class QueryError(ValueError):
    """A term that means nothing; its text says why, and what would."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: ``key`` empty for a bare word; ``sign`` empty for a text."""

    key: str
    sign: str
    value: str
    number: int = 0
    negated: bool = False


def parse(text: str) -> tuple[Term, ...]:
    """The terms of a query.

    Raises:
        QueryError: an unknown key, or something that is no amount.
    """
    return tuple(_term(word) for word in _WORDS.findall(text))


def _term(word: str) -> Term:
    negated = word[:1] in ("-", "−") and len(word) > 1
    body = word[1:] if negated else word
    compared, texts = _NUMBER.fullmatch(body), _TEXT.fullmatch(body)
    if texts is not None and (compared is None or len(texts[1]) < len(compared[1])):
        return _text_term(texts[1].lower(), texts[2].replace('"', ""), negated=negated)
    if compared is not None:
        return _number_term(compared[1].lower(), compared[2], compared[3].replace('"', ""), negated=negated)
    return Term("", "", body.replace('"', "").lower(), negated=negated)


def _text_term(key: str, value: str, *, negated: bool) -> Term:
    if key in NUMBERS:
        raise QueryError(
            tr("{key} is compared with an amount: {key}>1M, {key}<=4096 or {key}=unknown", key=key)
        )
    if key not in TEXTS:
        raise QueryError(
            tr(
                "There is no {key}:; use one of {known}",
                key=key,
                known=", ".join(f"{name}:" for name in TEXTS),
            )
        )
    return Term(key, "", value.lower(), negated=negated)


def _number_term(key: str, sign: str, value: str, *, negated: bool) -> Term:
    if key in TEXTS:
        raise QueryError(tr("{key} is a text: {key}:{value}", key=key, value=value or tr("word")))
    if key not in NUMBERS:
        raise QueryError(
            tr("There is no {key} to compare; use one of {known}", key=key, known=", ".join(NUMBERS))
        )
    if value.lower() == "unknown" and sign == "=":
        return Term(key, sign, "unknown", UNKNOWN, negated)
    number = _amount(value, SCALES.get(key, 1))
    if number is None:
        raise QueryError(
            tr(
                "{term}: {value} is no amount such as {examples}",
                term=f"{key}{sign}{value}",
                value=value or tr("nothing"),
                examples=EXAMPLES.get(key) or tr("4096, 1.5M or 2GiB"),
            )
        )
    return Term(key, sign, value, number, negated)


def _amount(text: str, scale: int) -> int | None:
    """An amount of bytes; of what is scaled also its fractions."""
    if scale == 1:
        return parse_bytes(text) if text else None
    try:
        return round(float(text.removesuffix("%")) * scale)
    except (ValueError, OverflowError):
        return None


class Haystack:
    """A table's columns made ready for searching: each distinct text is looked at once."""

    def __init__(self, table: NodeTable) -> None:
        """Prepares nothing yet: a column costs its time when it is first asked for."""
        self._table = table
        self._columns: dict[str, tuple[list[str], NDArray[np.int64]]] = {}

    def rows(self, terms: tuple[Term, ...]) -> NDArray[np.int64]:
        """Rows, ascending, for which every term holds."""
        kept = np.ones(self._table.rows, np.bool_)
        for term in terms:
            kept &= self._holds(term) ^ term.negated
        return np.flatnonzero(kept).astype(np.int64)

    def _holds(self, term: Term) -> NDArray[np.bool_]:
        if term.sign:
            return self._compared(term)
        if term.key:
            return self._texts(TEXTS[term.key], _matcher(term))
        found = np.zeros(self._table.rows, np.bool_)
        for column in ANYWHERE:
            found |= self._texts(column, lambda text: term.value in text)
        return found

    def _compared(self, term: Term) -> NDArray[np.bool_]:
        values = [
            shares(self._table) if column == SHARE else self._table.integers(column)
            for column in NUMBERS[term.key]
        ]
        unknown = np.zeros(self._table.rows, np.bool_)
        total = np.zeros(self._table.rows, np.int64)
        for column in values:
            unknown |= column == UNKNOWN
            total += np.maximum(column, 0)
        if term.value == "unknown":
            return unknown
        return _COMPARED[term.sign](total, term.number) & ~unknown

    def _texts(self, column: str, matches: Callable[[str], bool]) -> NDArray[np.bool_]:
        if column not in self._columns:
            self._columns[column] = _distinct(self._table, column)
        texts, codes = self._columns[column]
        return np.fromiter((matches(text) for text in texts), np.bool_, len(texts))[codes]


def _distinct(table: NodeTable, column: str) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct texts of a column in lower case, and per row which one it has."""
    known: dict[str, int] = {}
    codes = [known.setdefault(text, len(known)) for text in table.column(column)]
    return [text.lower() for text in known], np.array(codes, np.int64)


def _matcher(term: Term) -> Callable[[str], bool]:
    value = term.value
    whole = value.startswith("=")
    wanted = value.removeprefix("=")
    if term.key == "scope":
        pattern = f"*/{wanted.strip('/')}/*"
        return lambda text: fnmatchcase(f"/{text.strip('/')}/", pattern)
    if whole:
        return lambda text: text == wanted
    if "*" in value or "?" in value:
        return lambda text: fnmatchcase(text, value)
    return lambda text: value in text

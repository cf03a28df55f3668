"""Tables as columns of little-endian bytes, in chunks small enough never to stall a reader."""

from __future__ import annotations

import sys
from array import array
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from vramscope.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

CHUNK_ROWS = 4096
"""Rows of a table in one notification."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column: ``kind`` is ``i64`` (−1 stands for unknown), ``f64`` or ``text``; ``data`` its values.

    Text is UTF-8 with ``offsets`` (little-endian i64, one more than there are rows) into it.
    """

    name: str
    kind: str
    data: bytes
    offsets: bytes = b""


class TableChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Rows ``[start, start + rows)`` of a table; ``last`` closes it; ``ticket`` names the plan."""

    table: str
    ticket: int
    start: int
    rows: int
    columns: list[Column]
    last: bool


def _little_endian(kind: str, values: Iterable[float]) -> bytes:
    packed = array(kind, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def integer_column(name: str, values: Iterable[int]) -> Column:
    """A column of 64-bit integers."""
    return Column(name=name, kind="i64", data=_little_endian("q", values))


def float_column(name: str, values: Iterable[float]) -> Column:
    """A column of doubles."""
    return Column(name=name, kind="f64", data=_little_endian("d", values))


def text_column(name: str, values: Iterable[str]) -> Column:
    """A column of strings."""
    encoded = [value.encode() for value in values]
    offsets = accumulate((len(item) for item in encoded), initial=0)
    return Column(name=name, kind="text", data=b"".join(encoded), offsets=_little_endian("q", offsets))


def column_values(column: Column) -> list[int] | list[float] | list[str]:
    """The values of a column as Python objects.

    Raises:
        ProtocolError: an unknown kind.
    """
    if column.kind == "i64":
        return _unpack("q", column.data)
    if column.kind == "f64":
        return _unpack("d", column.data)
    if column.kind == "text":
        offsets = _unpack("q", column.offsets)
        return [column.data[a:b].decode() for a, b in pairwise(offsets)]
    raise ProtocolError(f"column {column.name}", f"kind {column.kind!r} is not known to this version")


def _unpack(kind: str, data: bytes) -> list[Any]:
    values: array[Any] = array(kind)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()

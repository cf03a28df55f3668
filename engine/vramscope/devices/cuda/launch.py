"""One kernel launch as plain data: which source, which function, its grid and its packed arguments."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.devices.cuda.array import DeviceArray

FOLDER = Path(__file__).parent / "source"
"""Where the ``.cu`` files are."""

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """CUDA C++ to compile: a name for messages and the whole text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch.

    Attributes:
        source: where the function is.
        function: its name.
        grid: blocks in x, y and z.
        block: threads of a block in x, y and z.
        arguments: each argument's bytes, in order.
        shared: bytes of dynamic shared memory.
        cluster: blocks of one cluster along x; 1: none.
    """

    source: Source
    function: str
    grid: Extent
    block: Extent
    arguments: tuple[bytes, ...]
    shared: int = 0
    cluster: int = 1


@cache
def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


_HEADERS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("attend_split", "attend_decode", "attend_tiled", "attend_flash"), "attend.cuh")
    | dict.fromkeys(("fused_packed", "fused_codes", "fused_columns", "fused_lines"), "fused.cuh")
    | dict.fromkeys(("stepping", "drawing"), "choosing.cuh")
)
"""The header that a file wants behind the common one and its defines."""


@cache
def source(name: str, defines: tuple[tuple[str, str], ...] = ()) -> Source:
    """The file ``name``.cu behind the common header and the defines.

    Args:
        name: of the file, without its suffix.
        defines: macro and value pairs that specialise it.
    """
    head = "".join(f"#define {key} {value}\n" for key, value in defines)
    header = _read(_HEADERS[name]) if name in _HEADERS else ""
    return Source(name, _read("common.cuh") + head + header + _read(f"{name}.cu"))


def generated(name: str, text: str) -> Source:
    """A source made here, behind the common header."""
    return Source(name, _read("common.cuh") + text)


def pointer(value: DeviceArray | int | None) -> bytes:
    """A pointer argument; None is the null pointer."""
    address = 0 if value is None else value if isinstance(value, int) else value.address
    return struct.pack("<Q", address)


def i32(value: int) -> bytes:
    """An ``int`` argument."""
    return struct.pack("<i", value)


def i64(value: int) -> bytes:
    """A ``long long`` argument."""
    return struct.pack("<q", value)


def f32(value: float) -> bytes:
    """A ``float`` argument."""
    return struct.pack("<f", value)


def numbers(values: Sequence[int]) -> bytes:
    """A structure of ``long long`` fields, pointers included."""
    return struct.pack(f"<{len(values)}Q", *(value & (2**64 - 1) for value in values))


def blocks(count: int, size: int, most: int = 2**31 - 1) -> int:
    """Blocks of ``size`` that cover ``count`` items: at least one, at most ``most``."""
    return max(1, min(-(-count // size), most))

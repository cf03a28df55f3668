"""Bytes in words, with binary units for people, and bytes on boundaries."""

from __future__ import annotations

ALIGNMENT = 256
"""Boundary of every planned region, as cudaMalloc aligns what it gives."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_bytes(size: int) -> str:
    """``size`` with three significant digits in binary units: 1536 → ``1.50 KiB``; exact below 1 KiB."""
    sign, magnitude = ("−" if size < 0 else ""), abs(size)
    power = 0
    while power < len(_UNITS) - 1 and magnitude >= 1024 ** (power + 1):
        power += 1
    if power == 0:
        return f"{sign}{magnitude} B"
    value = magnitude / 1024**power
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{sign}{value:.{digits}f} {_UNITS[power]}"


def align(size: int, alignment: int = ALIGNMENT) -> int:
    """``size`` or an offset rounded up to a multiple of ``alignment``, in bytes."""
    return -(-size // alignment) * alignment

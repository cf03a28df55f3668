"""Numbers and names as the window writes them: bytes short and exact, counts, rates, certainty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from vramscope.messages.planning import BytesFigure

UNKNOWN = marked("unknown")
PREFIXES = {"bound": "≤ ", "growing": marked("grows to ")}
"""What stands in front of bytes that are the most there may be."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_PARSED = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def short_bytes(size: int | None) -> str:
    """Bytes with three significant digits and a binary unit; ``unknown`` for None."""
    if size is None:
        return tr(UNKNOWN)
    if size < 0:
        return f"−{short_bytes(-size)}"
    unit = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    if unit == 0:
        return f"{size} B"
    scaled = size / (1 << (10 * unit))
    digits = 2 if scaled < 10 else 1 if scaled < 100 else 0
    return f"{scaled:.{digits}f} {_UNITS[unit]}"


def exact_bytes(size: int | None) -> str:
    """Every byte, grouped by thousands; ``unknown`` for None."""
    return tr(UNKNOWN) if size is None else f"{size:,} bytes"


def figure_text(figure: BytesFigure) -> str:
    """A figure in short: ``≤`` before a bound, that it grows, ``unknown`` for what nobody knows."""
    if figure.bytes is None:
        return tr(UNKNOWN)
    return tr(PREFIXES.get(figure.certainty, "")) + short_bytes(figure.bytes)


def figure_tip(figure: BytesFigure) -> str:
    """A figure in full, with how it is known."""
    return tr(UNKNOWN) if figure.bytes is None else f"{exact_bytes(figure.bytes)} ({tr(figure.certainty)})"


def count_text(number: int | None) -> str:
    """A count grouped by thousands; a dash for None."""
    return "–" if number is None else f"{number:,}"


def rate_text(rate: float | None) -> str:
    """Tokens a second; a dash while none was measured."""
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def parse_bytes(text: str) -> int | None:
    """Bytes from ``6 GiB``, ``512M`` or ``1073741824``; None when it is no amount."""
    compact = text.strip().lower().replace(",", "").replace(" ", "")
    digits = compact.rstrip("bigkmt")
    unit = compact[len(digits) :].removesuffix("b").removesuffix("i")
    if unit not in _PARSED:
        return None
    try:
        amount = float(digits)
    except ValueError:
        return None
    return int(amount * _PARSED[unit]) if 0 <= amount < 2**60 else None

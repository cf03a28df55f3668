"""Numbers and bytes in words."""

from __future__ import annotations

import pytest

from vramscope.messages.planning import BytesFigure
from vramscope_app.text import (
    exact_bytes,
    figure_text,
    figure_tip,
    parse_bytes,
    rate_text,
    short_bytes,
)
from vramscope_app.translation import tr


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10 * 2**20, "10.0 MiB"),
        (1023 * 2**20, "1023 MiB"),
        (24 * 2**30, "24.0 GiB"),
        (-(3 * 2**30), "−3.00 GiB"),
        (2**70, "1024 EiB"),
    ],
)
def test_short_bytes_have_a_binary_unit_and_unknown_is_never_zero(size: int | None, text: str) -> None:
    assert short_bytes(size) == text


def test_exact_bytes_keep_every_byte() -> None:
    assert exact_bytes(2**53 + 1) == "9,007,199,254,740,993 bytes"
    assert exact_bytes(None) == "unknown"


def test_a_bound_is_marked_and_an_unknown_figure_says_so() -> None:
    assert figure_text(BytesFigure(bytes=2048, certainty="bound")) == "≤ 2.00 KiB"
    assert figure_text(BytesFigure(bytes=2048, certainty="growing")) == "grows to 2.00 KiB"
    assert figure_text(BytesFigure(bytes=2048, certainty="exact")) == "2.00 KiB"
    assert figure_text(BytesFigure(bytes=None, certainty="unknown")) == "unknown"
    assert figure_tip(BytesFigure(bytes=2048, certainty="measured")) == "2,048 bytes (measured)"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("6 GiB", 6 * 2**30),
        ("512M", 512 * 2**20),
        ("1,073,741,824", 2**30),
        ("0.5 gb", 2**29),
        ("1.5k", 1536),
        ("GeForce RTX 4090", None),
        ("", None),
        ("nan", None),
        ("-3 GiB", None),
    ],
)
def test_amounts_are_read_and_anything_else_is_none(text: str, size: int | None) -> None:
    assert parse_bytes(text) == size


def test_rates_and_plurals() -> None:
    assert (rate_text(None), rate_text(41.26), rate_text(1234.5)) == ("–", "41.3", "1,234")
    assert (tr("{n:,} node(s)", n=1), tr("{n:,} node(s)", n=2000)) == ("1 node", "2,000 nodes")

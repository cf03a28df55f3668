"""Every numbered rule has a test of its number, and the README says where."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
README = Path(__file__).with_name("README.md")

ROW = re.compile(r"^\| (?P<id>[A-Z]-\d\d|case \d\d) \| (?P<what>[^|]+) \| (?P<files>`[^|]+`) \|$")
NAME = re.compile(r"test_(?:case_(?P<case>\d\d)|(?P<letter>[a-z])(?P<number>\d\d))(?:_|$)")

SECTION = re.compile(r"^\| (?P<id>[12]\.\d+) \| [^|]+ \| (?P<files>`[^|]+`) \|$")
SECTIONS = [*(f"1.{number}" for number in range(1, 23)), *(f"2.{number}" for number in range(1, 13))]

REQUIRED = (
    *(f"P-{number:02}" for number in range(1, 17)),
    *(f"B-{number:02}" for number in range(1, 14)),
    *(f"C-{number:02}" for number in range(1, 31)),
    *(f"L-{number:02}" for number in range(1, 6)),
    *(f"R-{number:02}" for number in range(1, 11)),
    *(f"G-{number:02}" for number in range(1, 6)),
    *(f"A-{number:02}" for number in range(1, 18)),
    *(f"case {number:02}" for number in (1, 2, 3, 4, 5, 6, 8, 10, 11, 13, 15, 18, 19, 22, 23, 29, 32, 35)),
)
"""What must have a test on the host device."""


def table() -> dict[str, tuple[str, ...]]:
    """ID to the files of the README's row."""
    rows = (ROW.match(line) for line in README.read_text(encoding="utf-8").splitlines())
    return {row["id"]: tuple(re.findall(r"`([^`]+)`", row["files"])) for row in rows if row}


def named_tests() -> dict[str, set[str]]:
    """ID to the files that hold a test of its name."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match = NAME.match(node.name) if isinstance(node, ast.FunctionDef) else None
            if match:
                case = f"case {match['case']}"
                found[case if match["case"] else f"{match['letter'].upper()}-{match['number']}"].add(
                    path.name
                )
    return found


def missing(ids: tuple[str, ...], rows: dict[str, tuple[str, ...]], tests: dict[str, set[str]]) -> list[str]:
    """IDs without a row, and rows that name a file without such a test."""
    absent = [identity for identity in ids if not rows.get(identity)]
    wrong = [
        f"{identity} in {name}"
        for identity, files in rows.items()
        for name in files
        if name not in tests.get(identity, ())
    ]
    return absent + wrong


def test_every_id_has_a_row_and_every_row_a_test() -> None:
    assert missing(REQUIRED, table(), named_tests()) == []


def test_every_section_of_the_rule_book_names_tests_that_are_there() -> None:
    rows = list(filter(None, map(SECTION.match, README.read_text(encoding="utf-8").splitlines())))
    assert [row["id"] for row in rows] == SECTIONS
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row["files"])}
    assert {name for name in named if not README.with_name(name).is_file()} == set()


@pytest.mark.parametrize(
    ("rows", "tests", "expected"),
    [
        ({"B-01": ("test_x.py",)}, {"B-01": {"test_x.py"}}, []),
        ({}, {"B-01": {"test_x.py"}}, ["B-01"]),
        ({"B-01": ("test_x.py",)}, {}, ["B-01 in test_x.py"]),
        ({"B-01": ("test_x.py",)}, {"B-01": {"test_y.py"}}, ["B-01 in test_x.py"]),
    ],
)
def test_the_check_sees_what_it_should(
    rows: dict[str, tuple[str, ...]], tests: dict[str, set[str]], expected: list[str]
) -> None:
    assert missing(("B-01",), rows, tests) == expected

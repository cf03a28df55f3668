"""Reads a saved report: nothing is trusted before size, format, version, types and ranges are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.errors import InputError
from vramscope.messages.reporting import ReportInfo
from vramscope.report.document import FORMAT, VERSION, PlanDocument
from vramscope.report.entries import NEWER_NUMBERS, NUMBERS, TEXTS
from vramscope.report.possible import (
    LARGEST_NUMBER,
    LONGEST_TEXT,
    possible,
    wrong_curves,
    wrong_details,
    wrong_text,
)

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.report.arena import Block

ENDING = ".vramscope.json"
"""Of a saved report."""

LARGEST_FILE = 256 * 2**20
"""Bytes; a plan of 100,000 nodes takes a quarter of it."""

LARGEST_HEAD = 16 * 2**20
"""Bytes of everything but the rows, as one message."""

LAST_STEP = 2**31
MOST_COLUMNS = 64
MOST_PHASES = 8
MOST = {"components": 64, "suggestions": 200, "problems": 20_000, "axes": 20_000, "phases": MOST_PHASES}
"""Entries of the plan's lists."""


class ReportFileError(InputError):
    """A report that cannot be read, or is none."""


class _Head(msgspec.Struct):
    format: str = ""
    version: int = 0


def is_report(path: Path) -> bool:
    """Whether a file's name says that it is a saved report."""
    return path.name.lower().endswith(".json") and not path.is_dir()


def read_report(path: Path) -> PlanDocument:
    """The document in a file.

    Raises:
        ReportFileError: no such file, too large, no report, of another version, or damaged.
    """
    data = _read(path)
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _refused(path, f"it is no report: {error}") from error
    if head.format != FORMAT:
        raise _refused(path, "it is JSON, but no VRAMScope report")
    if head.version != VERSION:
        cure = f"This version reads version {VERSION}: write the report again with it"
        raise ReportFileError(f"the report {path}", f"it is of version {head.version}", cure)
    try:
        found = msgspec.json.decode(data, type=PlanDocument)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _refused(path, f"it is damaged: {error}") from error
    wrong = _wrong(found)
    if wrong:
        raise _refused(path, f"it is damaged: {wrong}")
    return found


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            why = "it is not a file" if path.exists() else "there is no such file"
            raise _refused(path, why)
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _refused(path, f"it cannot be read: {error.strerror or type(error).__name__}") from error
    if len(data) > LARGEST_FILE:
        raise _refused(path, f"it is larger than {LARGEST_FILE:,} bytes")
    return data


def _refused(path: Path, why: str) -> ReportFileError:
    cure = f"Give a {ENDING} file, as plan --export, run --export and the window's Save report write it"
    return ReportFileError(f"the report {path}", why, cure)


def _wrong(found: PlanDocument) -> str:
    """What no plan can be like, in words; empty when all is well."""
    many = [name for name, most in MOST.items() if len(getattr(found.plan, name)) > most]
    if many or len(found.nodes) > MOST_PHASES:
        return f"more {many[0] if many else 'phases'} than a plan has"
    names = [item.name for item in found.plan.components]
    if len(set(names)) != len(names):
        return "a component comes twice"
    try:
        head = ReportInfo(path="", model=found.model, plan=found.plan, run=found.run, headroom=found.curves)
        size = len(msgspec.msgpack.encode(head))
    except (OverflowError, ValueError) as error:
        return f"a number or a text that cannot be: {error}"
    if size > LARGEST_HEAD:
        return f"all but its rows takes {size:,} bytes, more than {LARGEST_HEAD:,}"
    shown = wrong_text(msgspec.to_builtins(head)) or _wrong_phases(found) or _wrong_rows(found)
    return shown or wrong_curves(found.curves) or wrong_details(found)


def _wrong_phases(found: PlanDocument) -> str:
    """Whether phases, rows and arenas tell of the same, and every block lies where one can."""
    phases = {item.name for item in found.plan.phases}
    if set(found.nodes) != phases or not set(found.arenas) <= phases:
        return "its phases are not those of its rows"
    blocks = (block for rows in found.arenas.values() for block in rows)
    return "" if all(map(_possible_block, blocks)) else "a block of an arena lies where none can"


def _wrong_rows(found: PlanDocument) -> str:
    columns = found.node_columns
    lacking = [name for name in (*TEXTS, *NUMBERS) if name not in columns]
    if lacking:
        return f"the rows lack the column {lacking[0]}"
    if len(set(columns)) != len(columns) or len(columns) > MOST_COLUMNS:
        return "a column comes twice, or there are too many"
    for phase, rows in found.nodes.items():
        wrong = next(filter(None, (_wrong_row(row, columns) for row in rows)), "")
        if wrong:
            return f"a row of {phase} {wrong}"
    return ""


def _wrong_row(row: tuple[int | str | None, ...], columns: list[str]) -> str:
    if len(row) != len(columns):
        return f"has {len(row)} cells for {len(columns)} columns"
    cells = dict(zip(columns, row, strict=True))
    if not all(isinstance(cells[name], str) for name in TEXTS):
        return "has no text where one belongs"
    if any(isinstance(cell, str) and len(cell) > LONGEST_TEXT for cell in row):
        return "has a text that is too long"
    numbers = [*NUMBERS, *(name for name in NEWER_NUMBERS if name in cells)]
    if not all(possible(cells[name]) for name in numbers) or cells["step"] is None:
        return "has a number that cannot be"
    return ""


def _possible_block(block: Block) -> bool:
    name, offset, size, first, last = block
    placed = min(offset, size) >= 0 and offset + size <= LARGEST_NUMBER
    return placed and 0 <= first <= last <= LAST_STEP and len(name) <= LONGEST_TEXT

"""Writes a plan's document as a file: the ending of its name says in which format."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vramscope.errors import InputError
from vramscope.report.csv_report import csv_text
from vramscope.report.html_report import html_text
from vramscope.report.json_report import json_text
from vramscope.report.markdown import summary
from vramscope.report.viewers import explorer_text, netron_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vramscope.report.document import PlanDocument


class Form(NamedTuple):
    """One format: the endings of its files, and its text."""

    endings: tuple[str, ...]
    text: Callable[[PlanDocument], str]


def _markdown(document: PlanDocument) -> str:
    return summary(document.model, document.plan)


FORMATS: Mapping[str, Form] = MappingProxyType(
    {
        "netron": Form((".netron.json",), netron_text),
        "explorer": Form((".explorer.json",), explorer_text),
        "json": Form((".vramscope.json", ".json"), json_text),
        "csv": Form((".csv",), csv_text),
        "html": Form((".html", ".htm"), html_text),
        "markdown": Form((".md", ".markdown"), _markdown),
    }
)
"""Every format; an ending is looked for in this order."""


def format_of(path: Path) -> str:
    """The format that a file's name asks for.

    Raises:
        InputError: the ending is none of a format.
    """
    for name, form in FORMATS.items():
        if path.name.lower().endswith(form.endings):
            return name
    endings = ", ".join(form.endings[0] for form in FORMATS.values())
    raise InputError(f"the report {path}", "its ending names no format", f"End it in {endings}")


def write_report(path: Path, kind: str, document: PlanDocument) -> None:
    """Writes ``path`` as a whole, or leaves what was there.

    Args:
        path: the file.
        kind: a name of :data:`FORMATS`; empty: what the ending of the path says.
        document: the plan.

    Raises:
        InputError: an unknown format, or a file that cannot be written.
    """
    kind = kind or format_of(path)
    if kind not in FORMATS:
        raise InputError(f"report format {kind!r}", "there is no such format", f"Use {', '.join(FORMATS)}")
    write_text(path, FORMATS[kind].text(document))


def write_text(path: Path, text: str) -> None:
    """Writes a text file as a whole, or leaves what was there.

    Raises:
        InputError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8", newline="")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        reason = error.strerror or type(error).__name__
        raise InputError(str(path), f"it cannot be written: {reason}", "Choose another file") from error

"""Writes a plan as a report file: JSON, CSV or HTML."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope.report.csv_report import csv_text
from vramscope.report.html_report import html_text
from vramscope.report.json_report import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import PlanInfo
    from vramscope.plan.types import Plan

WRITERS: Mapping[str, Callable[[ModelInfo, PlanInfo, Plan], str]] = MappingProxyType(
    {"json": json_text, "csv": csv_text, "html": html_text}
)
"""The text of each format."""


def write_report(path: Path, kind: str, model: ModelInfo, info: PlanInfo, plan: Plan) -> None:
    """Writes ``path`` as a whole, or leaves what was there.

    Args:
        path: the file.
        kind: ``json``, ``csv`` or ``html``.
        model: what the model is.
        info: the plan in short.
        plan: the plan with its rows.

    Raises:
        InputError: an unknown format, or a file that cannot be written.
    """
    if kind not in WRITERS:
        raise InputError(f"report format {kind!r}", "there is no such format", f"Use {', '.join(WRITERS)}")
    text = WRITERS[kind](model, info, plan)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8", newline="")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        reason = error.strerror or type(error).__name__
        raise InputError(str(path), f"it cannot be written: {reason}", "Choose another file") from error

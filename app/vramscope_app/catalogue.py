"""The catalogue of a language: a .ts file of Qt Linguist, read as it is, with no compiled file beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMS = {"de": 2}
"""Languages with a catalogue, and how many forms each has for a counted noun."""


def read_catalogue(path: Path) -> dict[tuple[str, str], list[str]]:
    """The translations by text and note, each with its forms; an unfinished one is empty.

    Raises:
        OSError: there is no such file.
    """
    import xml.etree.ElementTree as ET  # the files are ours; an English window reads none

    known = {}
    for message in ET.parse(path).getroot().iter("message"):
        told = message.find("translation")
        forms = [] if told is None else [form.text or "" for form in told.findall("numerusform")]
        plain = "" if told is None else told.text or ""
        known[message.findtext("source") or "", message.findtext("comment") or ""] = forms or [plain]
    return known


def look_up(known: Mapping[tuple[str, str], list[str]], text: str, note: str, n: int) -> str:
    """The translation of a text, in the form for ``n`` of what it counts; empty where there is none.

    Every language here has a form for one and another for the rest (:data:`FORMS`).
    """
    forms = known.get((text, note), [""])
    return forms[min(n != 1, len(forms) - 1)]

"""The window's words in the user's language, looked up in one catalogue.

What is shown is written in English where it is used and passes through :func:`tr`. A table's words are
:func:`marked` where they stand and pass through :func:`tr` where they are shown; those of headings, commands,
docks and columns need no mark. ``packaging/translate`` finds them all. Numbers and byte units are the same in
every language, and so is what the engine words itself (problems, derivations, errors): a text copied from the
window is found again in reports, in the terminal and in an issue.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from vramscope.resources import folder
from vramscope_app.catalogue import FORMS, look_up, read_catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PySide6.QtCore import QObject

SYSTEM = "system"
LANGUAGES = {"en": "English", "de": "Deutsch"}
"""What the window speaks, each in its own words. English is in the source and needs no catalogue."""
NUMBERS = QLocale(QLocale.Language.English, QLocale.Country.UnitedStates)
"""How numbers are written in every language: as reports and the command line write them."""
_CONTEXT = ""
"""The whole window is one context: the same word is the same everywhere; a note tells two apart."""
_ENDING = re.compile(r"\(([a-z]+)\)")


def tr(text: str, note: str = "", /, *, n: int = -1, **values: object) -> str:
    """A text in the user's language.

    Args:
        text: English; ``{name}`` stands for a value, and ``(s)`` after a counted word for its plural.
        note: tells apart two meanings of one text.
        n: what is counted, as the value ``n``; negative where nothing is.
        values: what stands in the text.
    """
    if not text:
        return ""
    found = QCoreApplication.translate(_CONTEXT, text, note or None, n)
    if n >= 0:
        found = _ENDING.sub("" if n == 1 else r"\1", found) if found == text else found
        values["n"] = n
    return found.format_map(values) if values else found


def marked(text: str) -> str:
    """A text of a table, for the catalogue; it is translated where it is shown."""
    return text


def choose(wish: str, system: Sequence[str]) -> str:
    """The language for a wish, or for the first of the system's languages that there is."""
    names = [wish] if wish != SYSTEM else [name.replace("_", "-").split("-")[0] for name in system]
    return next((name for name in names if name in LANGUAGES), "en")


class Catalogue(QTranslator):
    """A catalogue as Qt asks it: also for Qt's own words, which it leaves to others."""

    def __init__(self, path: Path, parent: QObject) -> None:
        super().__init__(parent)
        self._known = read_catalogue(path)

    def isEmpty(self) -> bool:  # noqa: N802 - Qt's name
        """An empty one would not be installed."""
        return not self._known

    def translate(self, context: str, text: str, note: str | None = None, n: int = -1) -> str | None:
        """A text in this language; None, of which Qt makes a null string, where others are to be asked."""
        found = "" if context else look_up(self._known, text, note or "", n)
        return found or None


def install(application: QCoreApplication, language: str) -> list[QTranslator]:
    """Makes the application speak a language; numbers stay as they are.

    Returns:
        The translators that were loaded, which the application keeps as its children: Qt's words, then ours.
    """
    QLocale.setDefault(NUMBERS)
    if language not in FORMS:
        return []
    qt = QTranslator(application)
    qt.load(f"qtbase_{language}", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath))
    ours = Catalogue(folder() / "translations" / f"vramscope_{language}.ts", application)
    return [item for item in (qt, ours) if application.installTranslator(item)]

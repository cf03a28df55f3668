"""What the window remembers between two runs: recent models, theme, layout. Lists are stored as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QByteArray

from vramscope_app.translation import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Sequence

RECENT_KEPT = 10


def with_recent(recent: Sequence[str], path: str) -> list[str]:
    """The list with ``path`` first and nothing twice."""
    return [path, *(item for item in recent if item != path)][:RECENT_KEPT]


def parse_recent(text: str) -> list[str]:
    """The list from its JSON; empty when it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


class Store(Protocol):
    """What a ``QSettings`` offers of itself here."""

    def value(self, arg__1: str, /, defaultValue: object | None = None) -> object:  # noqa: N803 - Qt's name
        """What is kept under a key."""

    def setValue(self, key: str, value: object, /) -> None:  # noqa: N802 - Qt's name
        """Keeps a value."""


class MemoryStore:
    """Kept while the process lives.

    A ``QSettings`` on the null device is no substitute: as root it replaces that by a file.
    """

    def __init__(self) -> None:
        self._values: dict[str, object] = {}

    def value(self, key: str, /, defaultValue: object | None = None) -> object:  # noqa: N803 - Qt's name
        """What is kept under a key."""
        return self._values.get(key, defaultValue)

    def setValue(self, key: str, value: object, /) -> None:  # noqa: N802 - Qt's name
        """Keeps a value."""
        self._values[key] = value


class Settings:
    """Typed access to the stored values."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.machine = ""
        """Whose paths are meant: the machine of the engine, empty for this one."""

    @property
    def recent(self) -> list[str]:
        """Paths opened lately on the engine's machine, newest first."""
        return parse_recent(self._text(self._recent_key, "[]"))

    def remember(self, path: str) -> None:
        """Puts a path first."""
        self._store.setValue(self._recent_key, json.dumps(with_recent(self.recent, path)))

    def forget_recent(self) -> None:
        """Empties the list."""
        self._store.setValue(self._recent_key, "[]")

    @property
    def _recent_key(self) -> str:
        return f"recent@{self.machine}" if self.machine else "recent"

    @property
    def places(self) -> list[str]:
        """Machines that the engine was started on lately, newest first."""
        return parse_recent(self._text("places", "[]"))

    def keep_place(self, place: str) -> None:
        """Puts a machine first; this one is always there and not kept."""
        if place:
            self._store.setValue("places", json.dumps(with_recent(self.places, place)))

    @property
    def theme(self) -> str:
        """``light``, ``dark`` or ``system``."""
        return self._text("theme", "system")

    @theme.setter
    def theme(self, name: str) -> None:
        self._store.setValue("theme", name)

    @property
    def language(self) -> str:
        """``system``, or a language that the window speaks."""
        return self._text("language", SYSTEM)

    @language.setter
    def language(self, name: str) -> None:
        self._store.setValue("language", name)

    @property
    def compared(self) -> list[str]:
        """Cards that the headroom chart compares with."""
        return parse_recent(self._text("compared", "[]"))

    def compare(self, cards: list[str]) -> None:
        """Keeps the cards to compare with."""
        self._store.setValue("compared", json.dumps(cards))

    @property
    def columns(self) -> list[str]:
        """Columns of the node tree, from left to right; empty when nothing was chosen yet."""
        return parse_recent(self._text("columns", "[]"))

    def keep_columns(self, keys: list[str]) -> None:
        """Keeps the columns of the node tree."""
        self._store.setValue("columns", json.dumps(keys))

    def layout(self) -> tuple[QByteArray, QByteArray]:
        """Geometry and dock state; empty when nothing was stored."""
        return self._bytes("geometry"), self._bytes("docks")

    def store_layout(self, geometry: QByteArray, docks: QByteArray) -> None:
        """Keeps geometry and dock state."""
        self._store.setValue("geometry", geometry)
        self._store.setValue("docks", docks)

    def _text(self, key: str, default: str) -> str:
        value = self._store.value(key, default)
        return value if isinstance(value, str) else default

    def _bytes(self, key: str) -> QByteArray:
        value = self._store.value(key)
        return value if isinstance(value, QByteArray) else QByteArray()

"""What the window remembers between two runs: recent models, theme, layout. Lists are stored as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSettings

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


class Settings:
    """Typed access to the stored values."""

    def __init__(self, store: QSettings) -> None:
        self._store = store

    @property
    def recent(self) -> list[str]:
        """Paths opened lately, newest first."""
        return parse_recent(self._text("recent", "[]"))

    def remember(self, path: str) -> None:
        """Puts a path first."""
        self._store.setValue("recent", json.dumps(with_recent(self.recent, path)))

    def forget_recent(self) -> None:
        """Empties the list."""
        self._store.setValue("recent", "[]")

    @property
    def theme(self) -> str:
        """``light``, ``dark`` or ``system``."""
        return self._text("theme", "system")

    @theme.setter
    def theme(self, name: str) -> None:
        self._store.setValue("theme", name)

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

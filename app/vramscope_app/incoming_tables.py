"""Tables that come in chunks, a table a phase, until those of every phase are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.messages.columns import TableChunk
    from vramscope_app.rows.nodes import NodeTable

TABLES = {"nodes": "nodes", "arena": "arenas"}
"""Kinds of tables and the fields of the state that hold them, by phase."""


class IncomingTables:
    """Collects the chunks of one plan."""

    def __init__(self) -> None:
        self._chunks: list[TableChunk] = []
        self._found: dict[str, dict[str, NodeTable]] = {}

    def forget(self) -> None:
        """Another plan: its tables start anew."""
        self._chunks, self._found = [], {}

    def take(self, chunk: TableChunk, phases: int) -> dict[str, dict[str, NodeTable]]:
        """Adds a chunk named ``kind:phase``; chunks of a table come one after another.

        Returns:
            The field of the state that is complete with it, with its tables by phase; empty before that.
        """
        kind, _, phase = chunk.table.partition(":")
        if kind not in TABLES:
            return {}
        if chunk.start == 0:
            self._chunks = []
        self._chunks.append(chunk)
        if not chunk.last:
            return {}
        from vramscope_app.rows.nodes import join_chunks  # NumPy comes after the engine's start

        found = self._found.setdefault(kind, {})
        found[phase] = join_chunks(self._chunks)
        self._chunks = []
        return {TABLES[kind]: dict(found)} if len(found) == phases else {}

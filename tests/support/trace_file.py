"""A trace read back from its file, checked against the Trace Event Format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NEEDED = {"X": {"ts", "dur", "cat"}, "i": {"ts", "s", "cat"}, "C": {"ts"}, "M": set[str]()}
"""What each kind of event must have besides ``name``, ``pid``, ``tid`` and ``args``."""


@dataclass(frozen=True)
class TraceFile:
    """The events of a file, and what it says about itself."""

    events: list[dict[str, Any]]
    about: dict[str, str]

    def spans(self, kind: str) -> list[dict[str, Any]]:
        """Complete events of a kind, by their beginning."""
        found = (item for item in self.events if item["ph"] == "X" and item["cat"] == kind)
        return sorted(found, key=lambda item: item["ts"])

    def instants(self, kind: str) -> list[dict[str, Any]]:
        """What happened."""
        return [item for item in self.events if item["ph"] == "i" and item["cat"] == kind]

    def counters(self, name: str) -> list[dict[str, int]]:
        """Each value of a counter."""
        return [item["args"] for item in self.events if item["ph"] == "C" and item["name"] == name]

    def inside(self, outer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
        """Spans of a kind within another's time."""
        start, end = outer["ts"], outer["ts"] + outer["dur"]
        return [item for item in self.spans(kind) if start <= item["ts"] <= end]

    @property
    def tracks(self) -> list[str]:
        """The names of all tracks."""
        return [item["args"]["name"] for item in self.events if item["name"] == "thread_name"]


def read_trace(path: Path) -> TraceFile:
    """The file; fails where a viewer would refuse it or draw it wrongly."""
    found = json.loads(path.read_text(encoding="utf-8"))
    events: list[dict[str, Any]] = found["traceEvents"]
    for event in events:
        assert event.keys() == {"ph", "name", "pid", "tid", "args"} | NEEDED[event["ph"]], event
        assert event.get("ts", 0) >= 0, event
        assert event.get("dur", 0) >= 0, event
        if event["ph"] == "C":
            assert event["args"], event
            assert all(isinstance(value, int) for value in event["args"].values()), event
    for _, track in _tracks(events):
        assert track == sorted(track, key=lambda item: (item["ts"], -item["dur"])), (
            "the outer one comes first"
        )
        _nested(track)
    return TraceFile(events, found["otherData"])


def _tracks(events: list[dict[str, Any]]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    spans = [item for item in events if item["ph"] == "X"]
    for track in {item["tid"] for item in spans}:
        yield track, [item for item in spans if item["tid"] == track]


def _nested(spans: list[dict[str, Any]]) -> None:
    """Spans of one track lie inside each other or apart: a viewer drops or misplaces any other."""
    open_until: list[int] = []
    for span in sorted(spans, key=lambda item: (item["ts"], -item["dur"])):
        start = round(span["ts"] * 1000)
        end = start + round(span["dur"] * 1000)
        while open_until and open_until[-1] <= start:
            open_until.pop()
        assert not open_until or end <= open_until[-1], span
        open_until.append(end)

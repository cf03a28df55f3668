"""The live charts as numbers: what is held, made, moved and filled over time and per step; phases; marks."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.rows.series import CAPACITY, Series
from vramscope_app.translation import marked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from vramscope.messages.live import EventInfo, SnapshotInfo, TokenInfo

    Floats = NDArray[np.float64]

KEPT_MARKS = 2000
"""Marks and phases that are kept; older ones fall off."""
PREFILL, EAGER, CAPTURE, REPLAY = (
    marked("prefill"),
    marked("eager"),
    marked("capture"),
    marked("replay"),
)
PHASES = (PREFILL, EAGER, CAPTURE, REPLAY)
MARKED = frozenset({"invalidate", "grow", "decline", "capture"})
"""Kinds of events that the charts mark."""
SECONDS, HELD, MADE, FILL, UP, DOWN = range(6)
"""Columns over time: since the run began; bytes; allocations ever; percent of the cache; bytes moved."""
STEP, STEP_MADE, STEP_HELD, REPLAYED, STEP_FILL, STEP_UP, STEP_DOWN, MILLISECONDS, ENDED = range(9)
"""Columns per step: its number, allocations in it, then as above, its duration, when it ended."""


def kv_fill(snapshot: SnapshotInfo) -> float:
    """Percent of the KV cache in use, of a paged cache its blocks; NaN where there is none."""
    if snapshot.blocks is not None:
        return 100 * snapshot.blocks.taken / snapshot.blocks.blocks
    return 100 * snapshot.position / snapshot.capacity if snapshot.capacity else float("nan")


@dataclass(frozen=True, slots=True)
class Chart:
    """One choice of the lower chart: its title, its axis, and the names of its curves."""

    id: str
    title: str
    axis: str
    curves: tuple[str, ...]


CHARTS = (
    Chart("allocations", "Allocations", "allocs", ("eager", "replayed")),
    Chart("latency", "Step latency", "ms", ("eager", "replayed")),
    Chart("fill", "KV fill", "% filled", ("filled",)),
    Chart("transfers", "Transfers", "moved", ("uploads", "downloads")),
)


@dataclass(slots=True)
class Phase:
    """A stretch of steps of one kind, in seconds since the run began and in steps."""

    kind: str
    begun: float
    ended: float
    first: float
    last: float

    def span(self, *, by_time: bool) -> tuple[float, float]:
        """Where it begins and ends on the axis."""
        return (self.begun, self.ended) if by_time else (self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened: when, before which step, and in words."""

    kind: str
    seconds: float
    step: float
    text: str

    def place(self, *, by_time: bool) -> float:
        """Where it stands on the axis."""
        return self.seconds if by_time else self.step


class LiveSeries:
    """What the charts draw, fed by events, tokens and snapshots in the order in which they arrive.

    Counts come from the ledger alone, through snapshots: a step is drawn once the snapshot after it is here.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.time = Series(6, capacity)
        self.steps = Series(9, capacity)
        self.phases: deque[Phase] = deque(maxlen=KEPT_MARKS)
        self.marks: deque[Mark] = deque(maxlen=KEPT_MARKS)
        self._waiting: list[tuple[TokenInfo, str]] = []
        self._count = 0
        self._origin: float | None = None
        self._next_step = 0
        self._capturing = False

    def clear(self) -> None:
        """A run begins; the ledger goes on counting."""
        for part in (self.time, self.steps, self.phases, self.marks, self._waiting):
            part.clear()
        self._origin = None
        self._next_step = 0
        self._capturing = False

    def add_events(self, events: Iterable[EventInfo]) -> None:
        """Marks what changes the run; several at one moment are one mark."""
        for event in events:
            if event.kind in MARKED:
                self._mark(event)

    def _mark(self, event: EventInfo) -> None:
        self._capturing = self._capturing or event.kind == "capture"
        if self._origin is None:
            self._origin = event.seconds
        words = f"{event.subject}: {event.text}" if event.subject else event.text
        mark = Mark(event.kind, event.seconds - self._origin, self._next_step, words)
        last = self.marks[-1] if self.marks else None
        if last is not None and (last.kind, last.step) == (mark.kind, mark.step):
            return
        self.marks.append(mark)

    def add_token(self, token: TokenInfo) -> None:
        """A step has ended; the next snapshot says what it allocated."""
        kind = PREFILL if token.step == 0 else REPLAY if token.replayed else EAGER
        if self._capturing and kind == EAGER:
            kind, self._capturing = CAPTURE, False
        self._waiting.append((token, kind))
        self._next_step = token.step + 1

    def add_snapshot(self, snapshot: SnapshotInfo) -> None:
        """The ledger's numbers, after every step that came before."""
        if self._origin is None:
            self._origin = snapshot.seconds
        now = snapshot.seconds - self._origin
        total = sum(item.total_count for item in snapshot.counters)
        made = total - self._count if total >= self._count else total
        self._count = total
        fill = kv_fill(snapshot)
        moved = (fill, snapshot.upload_bytes, snapshot.download_bytes)
        self.time.append(now, snapshot.allocated_bytes, total, *moved)
        tokens, self._waiting = self._waiting, []
        counts = shares(made, len(tokens), snapshot.allocations_last_step)
        ends = step_ends(now, [token.milliseconds for token, _ in tokens])
        for (token, kind), count, end in zip(tokens, counts, ends, strict=True):
            took = token.milliseconds
            held, replayed = snapshot.allocated_bytes, float(token.replayed)
            self.steps.append(token.step, count, held, replayed, *moved, took, end)
            self._extend(kind, end - took / 1000, end, token.step)

    def _extend(self, kind: str, begun: float, ended: float, step: int) -> None:
        last = self.phases[-1] if self.phases else None
        if last is not None and last.kind == kind and step == last.last + 1:
            last.ended, last.last = ended, step
        else:
            self.phases.append(Phase(kind, begun, ended, step, step))

    @property
    def begun(self) -> float:
        """Where time begins: a long prefill began before the first snapshot."""
        return min(0.0, self.phases[0].begun) if self.phases else 0.0

    def upper(self, *, by_time: bool) -> tuple[Floats, Floats]:
        """Places and bytes held."""
        if by_time:
            return self.time.column(SECONDS), self.time.column(HELD)
        return self.steps.column(STEP), self.steps.column(STEP_HELD)

    def lower(self, chart: str, *, by_time: bool) -> list[tuple[Floats, Floats]]:
        """Places and values of each curve of a chart, in the order of their names."""
        if chart == "latency":
            return self._split(ENDED if by_time else STEP, MILLISECONDS, prefills=False)
        if chart == "allocations" and not by_time:
            return self._split(STEP, STEP_MADE)
        series, place = (self.time, SECONDS) if by_time else (self.steps, STEP)
        columns = {
            "allocations": (MADE,),
            "fill": (FILL if by_time else STEP_FILL,),
            "transfers": (UP, DOWN) if by_time else (STEP_UP, STEP_DOWN),
        }
        return [(series.column(place), series.column(column)) for column in columns[chart]]

    def _split(self, place: int, value: int, *, prefills: bool = True) -> list[tuple[Floats, Floats]]:
        """Eager steps and replayed ones, each NaN where the other is, and where a prefill is no step."""
        places, values = self.steps.column(place), self.steps.column(value)
        replayed = self.steps.column(REPLAYED) > 0
        left_out = replayed if prefills else replayed | (self.steps.column(STEP) == 0)
        return [(places, np.where(left_out, np.nan, values)), (places, np.where(replayed, values, np.nan))]


def step_ends(now: float, milliseconds: list[float]) -> list[float]:
    """When each of some steps ended that follow each other without a gap, the last one ``now``."""
    later = 0.0
    ends = []
    for took in reversed(milliseconds):
        ends.append(now - later / 1000)
        later += took
    return ends[::-1]


def shares(made: int, steps: int, last: int) -> list[int]:
    """Allocations of each of ``steps`` steps of which only the sum and the last one's are known.

    What is not the last one's is the first one's: steps in the middle of a run allocate nothing, and if one
    did, the sum would say so.
    """
    if not steps:
        return []
    final = min(last, made) if steps > 1 else made
    counts = [0] * steps
    counts[-1] = final
    counts[0] += made - final
    return counts


def visible(begun: float, newest: float, span: float | None) -> tuple[float, float]:
    """What a chart that follows shows: the newest ``span``, or everything with room that grows in steps."""
    if span is not None:
        return newest - span, newest
    grain = 2.0 ** math.ceil(math.log2(max(newest - begun, 0.01) / 64))
    low = math.floor(begun / grain) * grain  # what falls off the front of a full series moves no axis
    return low, low + roomy(newest - low)


def roomy(size: float) -> float:
    """A range with room that grows in steps of a quarter, so that axes stand still most of the time."""
    return max(1.25 ** math.ceil(math.log(max(size * 1.04, 1e-9), 1.25)), 0.1)


def ends(*curves: Floats) -> tuple[float, float]:
    """The least and the largest value of all curves; 0 and 0 without one."""
    known = [curve[np.isfinite(curve)] for curve in curves]
    found = [curve for curve in known if len(curve)]
    if not found:
        return 0.0, 0.0
    return min(float(curve.min()) for curve in found), max(float(curve.max()) for curve in found)


def logarithms(values: Floats) -> Floats:
    """Decades; what is not above 0 has none."""
    known = np.where(values > 0, values, np.nan)
    found: Floats = np.log10(known)
    return found

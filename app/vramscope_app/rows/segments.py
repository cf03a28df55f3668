"""The captured program as stretches: captured, or eager for one kind of reason, with its first node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramscope.messages.running import CaptureInfo, DeclineInfo, SegmentInfo

SEAM_WORDS = {
    "CaptureRecordingFailed": marked("recording failed"),
    "HostControlFlowOrSequence": marked("control flow or sequence"),
    "UnresolvedOutputShape": marked("output shape depends on data"),
    "UnresolvedInputShape": marked("input shape depends on data"),
    "ClassifierDisqualified": marked("shape grows every step"),
    "KernelNotWarmed": marked("not warm at these shapes"),
    "KernelCaptureUnsupported": marked("kernel cannot be recorded"),
}
"""Kinds of seams in words, in the order of the audit."""
SHORT_WORDS = {
    "HostControlFlowOrSequence": marked("control flow"),
    "UnresolvedOutputShape": marked("output by data"),
    "UnresolvedInputShape": marked("input by data"),
    "ClassifierDisqualified": marked("growing shape"),
    "KernelNotWarmed": marked("not warm"),
    "KernelCaptureUnsupported": marked("not recordable"),
}
"""The same for a legend."""
HOST_SEAM, DEVICE_SEAM = marked("host seam"), marked("device seam")
NO_LAUNCH = marked("no launch")
"""Of a node whose output is somebody else's bytes: nothing runs for it."""
ON_THE_HOST = frozenset({"HostControlFlowOrSequence"})
"""Reasons for which the host takes over; for the others the device runs eagerly."""
CAPTURED, DECLINED = marked("captured"), marked("eager")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Launches ``[start, end)``; ``kind`` is captured, eager, or the name of a seam's reason."""

    start: int
    end: int
    kind: str
    node: str = ""
    """The first declined node in it."""
    steps: tuple[int, ...] = ()
    """The program's step of each launch."""

    @property
    def words(self) -> str:
        """Where it is, and what it is."""
        count = tr("{n:,} node(s)", n=self.end - self.start)
        first, last = (self.steps[0], self.steps[-1]) if self.steps else (self.start, self.end - 1)
        span = (
            tr("step {start}", start=first)
            if first == last
            else tr("steps {start} to {end}", start=first, end=last)
        )
        node = f" · {self.node}" if self.node else ""
        return f"{span} ({count}): {kind_words(self.kind)}{node}"


def kind_words(kind: str) -> str:
    """A stretch's kind in words."""
    return tr(SEAM_WORDS.get(kind, kind))


def short_words(kind: str) -> str:
    """A stretch's kind in a word or two."""
    return tr(SHORT_WORDS.get(kind, SEAM_WORDS.get(kind, kind)))


def stretches(capture: CaptureInfo) -> list[Stretch]:
    """Every stretch, in order."""
    declined = iter([item for item in capture.declines if item.seam])
    return [part for segment in capture.segments for part in _parts(segment, declined)]


def _parts(segment: SegmentInfo, declined: Iterator[DeclineInfo]) -> list[Stretch]:
    if segment.captured:
        return [Stretch(segment.start, segment.end, CAPTURED, steps=tuple(segment.steps))]
    if not segment.seams:
        return [Stretch(segment.start, segment.end, DECLINED, steps=tuple(segment.steps))]
    found = []
    for span in segment.seams:
        nodes = [item.node for _, item in zip(range(span.end - span.start), declined, strict=False)]
        steps = tuple(segment.steps[span.start - segment.start : span.end - segment.start])
        found.append(Stretch(span.start, span.end, span.reason, nodes[0] if nodes else "", steps))
    return found


def kinds(parts: Sequence[Stretch]) -> list[tuple[str, int]]:
    """Every kind with its number of nodes: captured first, then in the order of the audit."""
    order = {name: place for place, name in enumerate((CAPTURED, *SEAM_WORDS, DECLINED))}
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.kind] = counts.get(part.kind, 0) + part.end - part.start
    return sorted(counts.items(), key=lambda item: order.get(item[0], len(order)))


def seam_of(reason: str) -> str:
    """What a reason makes of a node: a seam on the host, or one on the device."""
    return HOST_SEAM if reason in ON_THE_HOST else DEVICE_SEAM

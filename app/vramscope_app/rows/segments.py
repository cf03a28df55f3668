"""The captured program as stretches: captured, or eager for one kind of reason, with its first node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope_app.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramscope.messages.running import CaptureInfo, DeclineInfo, SegmentInfo

SEAM_WORDS = {
    "CaptureRecordingFailed": "recording failed",
    "HostControlFlowOrSequence": "control flow or sequence",
    "UnresolvedOutputShape": "output shape depends on data",
    "UnresolvedInputShape": "input shape depends on data",
    "ClassifierDisqualified": "shape grows every step",
    "KernelNotWarmed": "not warm at these shapes",
    "KernelCaptureUnsupported": "kernel cannot be recorded",
}
"""Kinds of seams in words, in the order of the audit."""
SHORT_WORDS = {
    "HostControlFlowOrSequence": "control flow",
    "UnresolvedOutputShape": "output by data",
    "UnresolvedInputShape": "input by data",
    "ClassifierDisqualified": "growing shape",
    "KernelNotWarmed": "not warm",
    "KernelCaptureUnsupported": "not recordable",
}
"""The same for a legend."""
CAPTURED, DECLINED = "captured", "eager"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps ``[start, end)``; ``kind`` is captured, eager, or the name of a seam's reason."""

    start: int
    end: int
    kind: str
    node: str = ""
    """The first declined node in it."""

    @property
    def words(self) -> str:
        """Where it is, and what it is."""
        count = plural(self.end - self.start, "node")
        span = f"step {self.start}" if self.end - self.start == 1 else f"steps {self.start} to {self.end - 1}"
        first = f" · {self.node}" if self.node else ""
        return f"{span} ({count}): {kind_words(self.kind)}{first}"


def kind_words(kind: str) -> str:
    """A stretch's kind in words."""
    return SEAM_WORDS.get(kind, kind)


def short_words(kind: str) -> str:
    """A stretch's kind in a word or two."""
    return SHORT_WORDS.get(kind, kind_words(kind))


def stretches(capture: CaptureInfo) -> list[Stretch]:
    """Every stretch, in order."""
    declined = iter([item for item in capture.declines if item.seam])
    return [part for segment in capture.segments for part in _parts(segment, declined)]


def _parts(segment: SegmentInfo, declined: Iterator[DeclineInfo]) -> list[Stretch]:
    if segment.captured:
        return [Stretch(segment.start, segment.end, CAPTURED)]
    if not segment.seams:
        return [Stretch(segment.start, segment.end, DECLINED)]
    found = []
    for span in segment.seams:
        nodes = [item.node for _, item in zip(range(span.end - span.start), declined, strict=False)]
        found.append(Stretch(span.start, span.end, span.reason, nodes[0] if nodes else ""))
    return found


def kinds(parts: Sequence[Stretch]) -> list[tuple[str, int]]:
    """Every kind with its number of nodes: captured first, then in the order of the audit."""
    order = {name: place for place, name in enumerate((CAPTURED, *SEAM_WORDS, DECLINED))}
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.kind] = counts.get(part.kind, 0) + part.end - part.start
    return sorted(counts.items(), key=lambda item: order.get(item[0], len(order)))
